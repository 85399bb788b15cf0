"""Pseudo-projective parsing: arcs that cross are lifted for training and put back after parsing."""

from __future__ import annotations

import numpy as np
import pytest

from partwise import DependencyParser, InputError, load
from partwise.data import corpus_from_sentences, is_projective
from partwise.tasks.dependencies.lifting import ArcLabels, LiftedTrees, lift

# "b" modifies "d", over its own ancestor "c": the arc crosses the root's.
WORDS, CROSSING, NESTED = ["a", "b", "c", "d"], [3, 4, 0, 3], [2, 0, 2, 3]
NAMES = ["subj", "extra", "root", "obj"]


def random_tree(random, n):
    """Heads of a tree over n words."""
    order, heads = random.permutation(n) + 1, np.zeros(n, np.int64)
    for k in range(1, n):
        heads[order[k] - 1] = order[random.integers(k)] if random.random() < 0.95 else 0
    return heads.tolist()


def ancestors(heads, word):
    found = [word]
    while found[-1]:
        found.append(heads[found[-1] - 1])
    return found


def lifted_by_definition(heads):
    """Lift the shortest arc that covers a word not below its head, until there is none."""
    heads = list(heads)
    while True:
        crossing = [
            (abs(word - head), word)
            for word, head in enumerate(heads, 1)
            if any(head not in ancestors(heads, k) for k in range(min(word, head) + 1, max(word, head)))
        ]
        if not crossing:
            return heads
        _, word = min(crossing)
        heads[word - 1] = heads[heads[word - 1] - 1]


def corpus_of(trees, relations=None):
    forms = [["w"] * len(tree) for tree in trees]
    return corpus_from_sentences(forms, heads=trees, relations=relations)


def test_the_shortest_crossing_arcs_are_lifted():
    random = np.random.default_rng(0)
    trees = [random_tree(random, int(n)) for n in random.integers(1, 12, 300)]
    corpus = corpus_of(trees)
    found = lift(corpus)
    assert is_projective(found.corpus.heads, corpus.sentence_ptr).all()
    assert [each.tolist() for each in corpus.split(found.corpus.heads)] == list(
        map(lifted_by_definition, trees)
    )
    assert (
        found.lift_count().n_lifted_sentences
        == (~is_projective(corpus.heads, corpus.sentence_ptr)).sum()
        > 100
    )


def test_lifts_are_undone_where_relations_name_the_head():
    random = np.random.default_rng(1)
    trees = [random_tree(random, int(n)) for n in random.integers(1, 12, 300)]
    corpus = corpus_of(trees, [[f"r{k}" for k in range(len(tree))] for tree in trees])
    found = lift(corpus)
    labels = ArcLabels.of(found)
    back = []
    for heads, codes in zip(corpus.split(found.corpus.heads), corpus.split(labels.codes(found)), strict=True):
        tree = labels.put_back(heads, codes)
        back.append(tree[0].tolist())
        assert [labels.relations[k] for k in tree[1]] == [f"r{k}" for k in range(len(heads))]
    assert back == trees


@pytest.fixture(scope="module", params=[1, 2])
def fitted(request):
    trees = [(CROSSING, NAMES), (NESTED, ["extra", "root", "obj", "obj"])]
    words = [WORDS, ["e", "f", "g", "h"]]
    parser = DependencyParser(structure="projective", order=request.param, prune=None, l2=0.01)
    return parser.fit(words * 2, trees * 2)


def test_crossing_trees_are_learnt(fitted):
    heads, relations = fitted.predict([WORDS])[0]
    assert heads.tolist() == CROSSING and relations == NAMES == [
        *fitted.predict_kbest([WORDS], 1)[0][0][0][1]
    ]
    assert fitted.relations_ == ["extra", "obj", "root", "subj"] and fitted.skipped_ is None
    assert fitted.lifted_ == (4, 16, 2, 2) and "2 of 16 arcs were lifted" in str(fitted.lifted_)
    assert fitted.parse([WORDS]).heads.tolist() == CROSSING
    assert fitted.score([WORDS], [CROSSING]) == 1.0


def test_trees_that_become_the_same_are_one_of_the_best(fitted):
    ranked = fitted.predict_kbest([WORDS], 60)[0]
    shown = [(tuple(tree.heads.tolist()), tuple(tree.relations)) for tree, _ in ranked]
    assert len(set(shown)) == len(shown) > 30 and "↑" not in str(shown)
    values = [value for _, value in ranked]
    assert values == sorted(values, reverse=True)


def test_probabilities_are_those_of_the_heads_that_are_predicted(fitted):
    marginals = fitted.predict_marginals([WORDS])[0]
    np.testing.assert_allclose(marginals[:, 1:].sum(axis=0), 1.0, atol=1e-9)
    assert marginals[4, 2] > 0.5 > marginals[3, 2] >= 0.0
    np.testing.assert_array_equal(fitted.arc_probabilities([WORDS], CROSSING)[1], marginals[4, 2])


def test_lifted_arcs_are_explained(fitted):
    found = fitted.explain(WORDS)
    assert found.labels == list(zip(CROSSING, NAMES, strict=True))
    assert "extra↑obj" in {term.label for term in found.contributions}
    assert any(label == "extra↑obj" for _, label, _ in fitted.top_features(1000))
    nearest = fitted.explain(WORDS, against="runner-up")
    assert nearest.score > 0 and nearest.against != nearest.labels


def test_model_files_keep_lifts(fitted, tmp_path):
    fitted.save(tmp_path / "m.pw")
    assert load(tmp_path / "m.pw").predict([WORDS])[0].heads.tolist() == CROSSING


@pytest.mark.parametrize("stored", [[[0, 9]], [[0]], [[True, 1]], "x", {"a": 1}])
def test_damaged_lifts_are_refused(stored):
    with pytest.raises(InputError, match="lifted relations"):
        ArcLabels.from_state({"lifts": stored}, ["a", "b"])
    assert ArcLabels.from_state({}, ["a", "b"]).lifts == []


def test_without_relations_all_sentences_stay_and_arcs_do_not_cross():
    parser = DependencyParser(structure="projective", l2=0.01).fit([WORDS] * 2, [CROSSING] * 2)
    assert parser.lifted_.n_lifted == 2 and parser.predict([WORDS])[0].tolist() == [3, 3, 0, 3]


def test_a_lift_that_training_has_not_seen_has_its_relation():
    trees = lift(corpus_of([CROSSING], [NAMES]))
    labels = ArcLabels(["extra", "obj", "root", "subj"], [])
    assert labels.codes(trees).tolist() == [3, 0, 2, 1]
    plain = LiftedTrees(trees.corpus, trees.corpus.heads)
    assert ArcLabels.of(plain).lifts == [] and ArcLabels.of(trees).names[4] == "extra↑obj"
