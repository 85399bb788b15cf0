"""`DependencyParser`: against enumeration of all trees, across losses and solvers, pruned, saved and loaded."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from toy_treebanks import RELATIONS, toy

from partwise import DependencyParser, InputError, Loss, load
from partwise.core import tree_checks
from partwise.core.arcs import all_arcs
from partwise.data import corpus_from_sentences, is_projective, read_dependencies
from partwise.scoring.attachment import attachment_scores
from partwise.solvers import ExponentiatedGradient
from partwise.structures import Spanning
from partwise.tasks.dependencies.arc_pruning import ArcPruner

CORPUS = toy()


@pytest.mark.parametrize("structure", ["spanning", "projective"])
def test_heads_are_checked_once(structure, monkeypatch):
    calls, original = [], tree_checks.words_in_cycles
    monkeypatch.setattr(
        tree_checks, "words_in_cycles", lambda *given: calls.append(given) or original(*given)
    )
    DependencyParser(structure=structure, prune=2)._problem_for(CORPUS)
    assert len(calls) == 1


def scores_of_arcs(parser, sentence):
    """Arc and relation scores of one sentence from the weights by feature name, nothing else."""
    encoder, model = parser._encoder, parser._model
    arcs = all_arcs(sentence.lengths)
    n = int(sentence.lengths[0])

    def table(features, feature_map, weights, width):
        by_pair = dict.fromkeys(itertools.product(range(features.n_attributes), range(width)), 0.0)
        for attribute, label, index in zip(*(each.tolist() for each in feature_map.pairs()), strict=True):
            by_pair[attribute, label] = weights[index]
        rows, result = features.transform(sentence, arcs), np.zeros((n + 1, n + 1, width))
        for a, (head, modifier) in enumerate(zip(arcs.head, arcs.modifier, strict=True)):
            for attribute in rows.ids[rows.row_ptr[a] : rows.row_ptr[a + 1]].tolist():
                result[head, modifier] += [by_pair[attribute, label] for label in range(width)]
        return result

    arc = table(encoder.arcs, model.maps["arc"], model.weights_of("arc"), 1)[:, :, 0]
    if "relation" not in encoder.features:
        return arc, None
    return arc, table(
        encoder.features["relation"],
        model.maps["relation"],
        model.weights_of("relation"),
        len(parser.relations_),
    )


def enumerated(structure, arc, relation):
    """All trees with their scores."""
    n = len(arc) - 1
    scores = (arc,) if relation is None else (arc, relation)
    return [(tree, structure.score(tree, *scores)) for tree in structure.labellings(n)]


@pytest.mark.parametrize("kind", ["spanning", "projective"])
@pytest.mark.parametrize("labelled", [False, True])
def test_answers_agree_with_enumeration(kind, labelled):
    corpus = toy(12, seed=1, longest=4)
    kept = [i for i, tags in enumerate(corpus.split(corpus.fine_tags)) if len(tags) <= (3 if labelled else 4)]
    corpus = corpus.subset(np.array(kept))
    parser = DependencyParser(structure=kind, labelled=labelled, l2=0.1, tol=1e-4, prune=None).fit(corpus)
    structure = parser._model.structure
    trees = corpus.split(corpus.heads)
    objective = 0.05 * float(parser.coef_ @ parser.coef_)
    marginals, best, ranked = (
        parser.predict_marginals(corpus), parser.predict(corpus), parser.predict_kbest(corpus, 3)
    )  # fmt: skip
    for i, tree in enumerate(trees):
        own = corpus.subset(np.array([i]))
        found = enumerated(structure, *scores_of_arcs(parser, own))
        values = np.array([value for _, value in found])
        log_total = np.logaddexp.reduce(values)
        probability = np.exp(values - log_total)
        heads = [each[0] if labelled else each for each, _ in found]
        expected = np.zeros_like(marginals[i])
        for own_heads, p in zip(heads, probability, strict=True):
            expected[own_heads, np.arange(1, len(tree) + 1)] += p
        assert marginals[i] == pytest.approx(expected, abs=1e-9)
        top = np.argsort(-values, kind="stable")[:3]
        assert (best[i].heads if labelled else best[i]).tolist() == heads[top[0]].tolist()
        assert [p for _, p in ranked[i]] == pytest.approx(probability[top].tolist())
        true = structure.codes(
            (tree, [parser.relations_.index(r) for r in own.relations]) if labelled else tree
        )
        gold = [v for each, v in found if structure.codes(each).tolist() == true.tolist()]
        objective += log_total - gold[0]
    assert objective == pytest.approx(parser.objective_, rel=1e-5)
    assert parser.duality_gap_ <= 1e-4 and parser.converged_
    assert parser.dual_objective_ <= objective * (1 + 1e-6)


@pytest.mark.parametrize("solver", ["eg", "lbfgs", "sgd", "eg-batch"])
def test_solvers_reach_the_same_crf(solver):
    reference = DependencyParser(l2=1.0, tol=1e-6, labelled=True).fit(CORPUS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = DependencyParser(l2=1.0, tol=1e-3, solver=solver, max_passes=300).fit(CORPUS)
    rel = 2e-2 if solver == "sgd" else 2e-3  # which has no gap to stop at, and is slow at the end
    assert other.objective_ == pytest.approx(reference.objective_, rel=rel)
    assert other.objective_ >= reference.dual_objective_ * (1 - 1e-9)


@pytest.mark.parametrize(
    "solver", ["auto", ExponentiatedGradient("gap", "newton", sharpen=True), "svm-struct"]
)
@pytest.mark.parametrize("cost", ["heads", "labelled"])
def test_max_margin_with_either_cost(solver, cost):
    parser = DependencyParser("hinge", l2=50.0, tol=1e-2, solver=solver, cost=cost, max_passes=500).fit(
        CORPUS
    )
    optimum = DependencyParser("hinge", l2=50.0, tol=2e-3, cost=cost, max_passes=2000).fit(CORPUS)
    assert parser.objective_ >= optimum.dual_objective_ * (1 - 1e-6)
    assert parser.objective_ <= optimum.objective_ * 1.02
    assert parser.score(CORPUS) > 0.9
    with pytest.raises(InputError, match="no probabilities"):
        parser.predict_marginals(CORPUS)
    (tree, value), *_ = parser.predict_kbest(CORPUS.subset([0]), 2)[0]
    assert tree.heads.tolist() == parser.predict(CORPUS.subset([0]))[0].heads.tolist() and value > 0


def test_costs_differ():
    """A wrong relation costs only where it is asked to."""
    heads, labelled, usual = (
        DependencyParser("hinge", l2=50.0, tol=1e-2, cost=cost, max_passes=2000).fit(CORPUS).objective_
        for cost in ("heads", "labelled", "auto")
    )
    assert labelled > heads * 1.01 and usual == labelled


@pytest.mark.parametrize("loss", ["softmax_margin", Loss(2.0, 0.5)])
def test_other_losses_learn(loss):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = DependencyParser(loss, l2=0.5, max_passes=100).fit(CORPUS)
    assert parser.score(toy(30, seed=5)) > 0.95
    parsed = parser.parse(CORPUS)
    assert attachment_scores(CORPUS, parsed.heads, parsed.relations).las > 0.95


def test_mira_and_perceptron_solvers():
    for solver in ("mira", "perceptron"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parser = DependencyParser("hinge", solver=solver, l2=0.1, max_passes=10).fit(CORPUS)
        assert parser.score(CORPUS) > 0.95


def test_lists_of_words_and_trees_are_enough():
    X = [
        [{"form": f, "fine_tag": t} for f, t in zip(*each, strict=True)]
        for each in zip(CORPUS.split(CORPUS.forms), CORPUS.split(CORPUS.fine_tags), strict=True)
    ]
    heads = [own.tolist() for own in CORPUS.split(CORPUS.heads)]
    pairs = list(zip(heads, CORPUS.split(CORPUS.relations), strict=True))
    by_lists, by_corpus = DependencyParser().fit(X, pairs), DependencyParser().fit(CORPUS)
    assert by_lists.objective_ == by_corpus.objective_ and by_lists.relations_ == sorted(RELATIONS.values())
    assert by_lists.score(X, pairs) == by_corpus.score(CORPUS) > 0.95
    bare = DependencyParser().fit(X, heads)
    assert bare.relations_ == [] and isinstance(bare.predict(X[:1])[0], np.ndarray)
    assert bare.predict([]) == [] and by_lists.predict([]) == []


def test_one_relation_needs_no_weights():
    one = corpus_from_sentences([["a", "b"]], fine_tags=[["A", "B"]], heads=[[2, 0]], relations=[["x", "x"]])
    tree = DependencyParser().fit(one).predict(one)[0]
    assert tree.heads.tolist() == [2, 0] and tree.relations == ["x", "x"]


def test_pruning_keeps_a_tree_and_tells_its_recall(tmp_path):
    corpus = toy(60, seed=2, longest=12)
    parser = DependencyParser(prune=2).fit(corpus)
    record = parser.pruning_
    assert record.n_arcs == (corpus.lengths**2).sum() and 0.9 < record.recall <= 1.0
    assert record.n_kept < 0.6 * record.n_arcs and record.n_words == corpus.n_words
    assert "arcs" in str(record)
    other = toy(30, seed=3, longest=12)
    arcs, _ = parser._pruner.prune(other)
    left = {(int(h), int(m), s) for s in range(30) for h, m in _of(arcs, s)}
    for s, tree in enumerate(parser.predict(other)):
        assert is_projective(tree.heads) is not None and np.sum(tree.heads == 0) == 1
        assert all((int(h), m, s) in left for m, h in enumerate(tree.heads, 1))
    assert parser.score(other) > 0.95
    assert parser.pruning_recall(other).recall > 0.9
    # Wide enough, pruning by rank changes nothing; the beam alone may.
    whole = DependencyParser(prune=None).fit(corpus)
    wide = DependencyParser(prune=50).fit(corpus)
    assert wide.score(other) == pytest.approx(whole.score(other), abs=0.02)
    parser.save(tmp_path / "m.pw")
    again = load(tmp_path / "m.pw")
    assert again.pruning_ == record
    assert [t.heads.tolist() for t in again.predict(other)] == [
        t.heads.tolist() for t in parser.predict(other)
    ]


def _of(arcs, sentence):
    own = slice(arcs.arc_ptr[sentence], arcs.arc_ptr[sentence + 1])
    return zip(arcs.head[own], arcs.modifier[own], strict=True)


def test_pruning_in_training_keeps_true_arcs():
    corpus = toy(20, seed=4)
    rotated = corpus_from_sentences(  # trees that tags say nothing about
        [list(s) for s in corpus.split(corpus.forms)],
        fine_tags=[["X"] * n for n in corpus.lengths],
        heads=[
            [0, *([1] * (n - 1))] if i % 2 else [*([n] * (n - 1)), 0] for i, n in enumerate(corpus.lengths)
        ],
    )
    pruner = ArcPruner.fit(rotated, Spanning(single_root=True), 1)
    arcs, record = pruner.prune(rotated, keep_true=True)
    assert record.recall < 1.0
    for s, heads in enumerate(rotated.split(rotated.heads)):
        assert {(int(h), m) for m, h in enumerate(heads, 1)} <= {(int(h), int(m)) for h, m in _of(arcs, s)}


@pytest.mark.parametrize("kind", ["spanning", "projective"])
def test_model_files_bring_everything_back(tmp_path, kind):
    parser = DependencyParser(structure=kind, l2=0.3, prune=3, single_root=False).fit(CORPUS)
    parser.save(tmp_path / "m.pw")
    again = load(tmp_path / "m.pw")
    other = toy(20, seed=9)
    assert again.get_params() == parser.get_params() and again.single_root_ is False
    for mine, theirs in zip(parser.predict(other), again.predict(other), strict=True):
        assert mine.heads.tolist() == theirs.heads.tolist() and mine.relations == theirs.relations
    for mine, theirs in zip(parser.predict_marginals(other), again.predict_marginals(other), strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(again.coef_, parser.coef_) and again.history_ == parser.history_
    again.save(tmp_path / "n.pw")
    assert (tmp_path / "n.pw").read_bytes() == (tmp_path / "m.pw").read_bytes()


def test_roots_follow_the_training_trees():
    two = [[0, 0, 2]] * 3
    words = [["a", "b", "c"]] * 3
    assert DependencyParser(max_passes=50).fit(words, two).single_root_ is False
    assert DependencyParser(max_passes=50).fit(words, [[0, 1, 2]] * 3).single_root_ is True
    with pytest.raises(InputError, match="second root"):
        DependencyParser(single_root=True).fit(words, two)


def test_crossing_arcs_are_counted_or_refused():
    words, crossing, nested = ["a", "b", "c", "d"], [3, 4, 0, 3], [2, 0, 2, 3]
    settings = {"structure": "projective", "non_projective": "skip"}
    parser = DependencyParser(**settings).fit([words] * 3, [nested, crossing, nested])
    assert parser.skipped_.n_skipped == 1 and parser.skipped_.n_sentences == 3
    assert "and are left out" in str(parser.skipped_)
    with pytest.raises(InputError, match=r"sentence 1: .*not projective"):
        DependencyParser(structure="projective", non_projective="error").fit(
            [words] * 3, [nested, crossing, nested]
        )
    assert DependencyParser(l2=0.1).fit([words] * 2, [crossing] * 2).predict([words])[0].tolist() == crossing


WORDS = [["a", "b"], ["c"]]
BAD = {
    "no trees": (dict(), (WORDS,), "has no head"),
    "empty": (dict(), ([], []), "no sentences"),
    "empty sentence": (dict(), ([["a"], []], [[0], []]), "sentence 1 has no words"),
    "cycle": (dict(), (WORDS, [[2, 1], [0]]), "cycle of heads: 1 → 2 → 1"),
    "outside": (dict(), (WORDS, [[0, 3], [0]]), "has head 3, but the sentence has 2 words"),
    "negative": (dict(), (WORDS, [[0, -5], [0]]), "has head -2"),
    "number of trees": (dict(), (WORDS, [[0, 1]]), "y has 1 trees, but X has 2"),
    "number of heads": (dict(), (WORDS, [[0], [0]]), r"y\[0\] must have 2 heads"),
    "floats": (dict(), (WORDS, [[0.5, 1.0], [0]]), r"y\[0\] must have 2 heads, whole"),
    "relations": (dict(), (WORDS, [([0, 1], ["r"]), ([0], ["r"])]), "2 relations"),
    "some relations": (dict(), (WORDS, [([0, 1], ["r", "s"]), [0]]), r"y\[1\]: some trees"),
    "string": (dict(), ("text", None), "list of sentences"),
    "sentence": (dict(), (["text"], [[0]]), r"X\[0\]"),
    "word": (dict(), ([[7]], [[0]]), r"X\[0\]\[0\]"),
    "field": (dict(), ([[{"form": "a", "colour": "b"}]], [[0]]), "colour"),
    "structure": (dict(structure="graph"), (WORDS, [[0, 1], [0]]), "structure must be"),
    "root": (dict(single_root="maybe"), (WORDS, [[0, 1], [0]]), "single_root must be"),
    "crossing": (dict(non_projective="keep"), (WORDS, [[0, 1], [0]]), "non_projective must be"),
    "cost": (dict(cost="hamming"), (WORDS, [[0, 1], [0]]), "cost must be"),
    "cost without": (dict(cost="labelled", labelled=False), (WORDS, [[0, 1], [0]]), "labelled=True"),
    "prune": (dict(prune=0), (WORDS, [[0, 1], [0]]), "prune must be"),
    "prune flag": (dict(prune=True), (WORDS, [[0, 1], [0]]), "prune must be"),
    "templates": (dict(templates="best"), (WORDS, [[0, 1], [0]]), "templates='best'"),
    "template": (dict(templates=["head.colour"]), (WORDS, [[0, 1], [0]]), "head.colour"),
    "solver": (dict(solver="magic"), (WORDS, [[0, 1], [0]]), "unknown solver"),
    "smooth": (dict(solver="lbfgs", loss="hinge"), (WORDS, [[0, 1], [0]]), "lbfgs"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    parameters, data, message = BAD[name]
    with pytest.raises(InputError, match=message):
        DependencyParser(**parameters).fit(*data)


def test_unfitted():
    with pytest.raises(Exception, match="not fitted"):
        DependencyParser().predict([["a"]])
    with pytest.raises(AttributeError, match="not fitted"):
        DependencyParser().coef_  # noqa: B018


@needs_shared
def test_a_slice_of_the_web_treebank():
    train = read_dependencies(SHARED / "ud-en-ewt" / "dev.conllu.gz")
    train = train.subset(np.flatnonzero(train.lengths <= 20)[:400])
    test = read_dependencies(SHARED / "ud-en-ewt" / "test.conllu.gz").subset(np.arange(200))
    parser = DependencyParser(prune=6, tol=1e-2).fit(train)
    parsed = parser.parse(test)
    scores = attachment_scores(test, parsed.heads, parsed.relations)
    assert parser.pruning_.recall > 0.99 and scores.uas > 0.62 and scores.las > 0.55
    assert parser.single_root_ and (np.bincount(parsed.heads[parsed.heads == 0]) == test.n_sentences).all()


@needs_shared
def test_projective_trees_of_the_penn_sample():
    train = read_dependencies(SHARED / "ptb-sample" / "train.dp").subset(np.arange(150))
    test = read_dependencies(SHARED / "ptb-sample" / "test.dp").subset(np.arange(60))
    parser = DependencyParser(structure="projective", prune=8, tol=1e-2).fit(train)
    trees = parser.predict(test)
    assert all(bool(is_projective(tree)[0]) for tree in trees)
    assert parser.score(test) > 0.7
