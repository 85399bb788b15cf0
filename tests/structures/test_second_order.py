"""Second-order trees: the contract, enumeration with pruned arcs, first order as a special case, extreme scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from commands import run  # noqa: F401
from contract_structures import Case, StructureContract, score_makers
from hypothesis import strategies as st
from toy_treebanks import toy

from partwise import DependencyParser, InputError, load
from partwise.data import write_dependencies
from partwise.solvers import SOLVERS, solve
from partwise.structures import Brute, Projective, SecondOrderProjective, SecondOrderSpanning


class SecondOrderCase(Case):
    @property
    def entropy_tolerance(self) -> float:
        finite = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in self.scores]
        return self.tolerance * (20 + max(finite) * self.length)


class SecondOrderContract(StructureContract):
    kind: Any

    def case(self, draw: Any) -> Case:
        n_relations = draw(st.sampled_from([1, 1, 2]))
        length = draw(st.integers(1, 4 if n_relations == 1 else 3))
        structure = self.kind(single_root=draw(st.booleans()), n_relations=n_relations)
        make, size = draw(score_makers()), length + 1
        scores = [make(size, size), make(size, size, size), make(size, size, size)]
        if n_relations > 1:
            scores.append(make(size, size, n_relations))
        return SecondOrderCase(structure, length, tuple(scores), {})

    def flat_labels(self, structure: Any, y: Any) -> np.ndarray:
        return structure.codes(y)

    def decode(self, structure: Any, parts: np.ndarray, length: int) -> Any:
        return structure.decode(parts, length)


class TestSecondOrderProjective(SecondOrderContract):
    kind = SecondOrderProjective


def scores_of(n: int, seed: int, scale: float = 1.0, forbidden: float = 0.0) -> tuple[np.ndarray, ...]:
    """Scores of arcs, siblings and grandparents; some arcs are forbidden, but not those of a chain from the root."""
    random = np.random.default_rng([n, seed])
    arcs = np.where(random.random((n + 1, n + 1)) < forbidden, -np.inf, random.normal(size=(n + 1, n + 1)))
    chain = np.arange(n), np.arange(1, n + 1)
    arcs[chain] = random.normal(size=n)
    return scale * arcs, scale * random.normal(size=(n + 1,) * 3), scale * random.normal(size=(n + 1,) * 3)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [1.0, 40.0, 1e6])
def test_pruned_arcs_against_all_trees(single_root: bool, scale: float) -> None:
    structure = SecondOrderProjective(single_root=single_root)
    brute = Brute(structure, 5)
    for seed in range(3):
        scores = scores_of(5, seed, scale, 0.5)
        ours, theirs = structure.marginals(*scores), brute.marginals(*scores)
        tolerance = 1e-10 + 2e-15 * scale * 25
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
        np.testing.assert_allclose(structure.log_partition(*scores), brute.log_partition(*scores), rtol=1e-10)
        best = structure.score(structure.argmax(*scores), *scores)
        np.testing.assert_allclose(best, brute.kbest(*scores, k=1)[0][1], rtol=1e-12)


@pytest.mark.parametrize("single_root", [True, False])
def test_without_pairs_it_is_first_order(single_root: bool) -> None:
    for n in (1, 7, 19, 33):
        arcs, nothing = scores_of(n, 0, 3.0)[0], np.zeros((n + 1,) * 3)
        second, first = SecondOrderProjective(single_root=single_root), Projective(single_root=single_root)
        np.testing.assert_allclose(
            second.log_partition(arcs, nothing, nothing), first.log_partition(arcs), rtol=1e-12
        )
        ours = second.marginals(arcs, nothing, nothing)
        np.testing.assert_allclose(ours.arc, first.marginals(arcs), rtol=0, atol=1e-12)
        assert (second.argmax(arcs, nothing, nothing) == first.argmax(arcs)).all()
        # Every arc has one sibling part, and a grandparent unless its head is the root.
        first_or_pair, words = ours.sibling.sum(axis=1)[:, 1:], np.arange(1, n + 1)
        first_or_pair[words, words - 1] = 0.0  # [h, m, h] says that m is the last
        np.testing.assert_allclose(first_or_pair, ours.arc[:, 1:], rtol=0, atol=1e-12)
        np.testing.assert_allclose(ours.grandparent.sum(axis=0)[1:, 1:], ours.arc[1:, 1:], rtol=0, atol=1e-12)


def test_bad_scores_are_refused() -> None:
    structure, (arcs, siblings, grandparents) = SecondOrderProjective(), scores_of(3, 0)
    for wrong, message in (
        ((arcs, siblings[:2], grandparents), r"sibling_scores has shape \(2, 4, 4\)"),
        ((arcs, siblings, grandparents, np.zeros((4, 4, 2))), "n_relations is 1"),
        (([arcs], [siblings], []), "numbers of sentences differ"),
        ((arcs, siblings, np.full_like(siblings, np.nan)), "grandparent_scores contains NaN"),
    ):
        with pytest.raises(InputError, match=message):
            structure.argmax(*wrong)


# -- the relaxation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [0.3, 2.0, 1e3])
def test_the_bound_is_above_and_its_tree_possible(single_root: bool, scale: float) -> None:
    structure = SecondOrderSpanning(single_root=single_root)
    brute = Brute(structure, 4)
    for seed in range(4):
        scores = scores_of(4, seed, scale, 0.3)
        exact, bound = brute.log_partition(*scores), structure.log_partition(*scores)
        assert exact <= bound + 1e-9 * abs(exact)
        ours = structure.marginals(*scores)
        np.testing.assert_allclose(ours.arc[:, 1:].sum(axis=0), 1.0, atol=1e-9)
        if scale < 100:  # scores of thousands do not come to an agreement within the steps there are
            np.testing.assert_allclose(ours.grandparent.sum(axis=0)[1:, 1:], ours.arc[1:, 1:], atol=1e-2)
        tree = structure.argmax(*scores)
        assert any((tree == y).all() for y in brute.labellings)
        assert -np.inf < structure.score(tree, *scores) <= brute.kbest(*scores, k=1)[0][1] + 1e-9 * scale


@pytest.mark.parametrize("n_relations", [1, 2])
@pytest.mark.parametrize("single_root", [True, False])
def test_best_trees_are_found_and_proved(single_root: bool, n_relations: int) -> None:
    """Climbing from the marginals misses the best tree of 13 of these 32 sentences without relations."""
    structure = SecondOrderSpanning(single_root=single_root, n_relations=n_relations)
    for n in (4, 5) if n_relations == 1 else (3,):
        brute = Brute(structure, n)
        for seed in range(8):
            scores = scores_of(n, seed)
            if n_relations > 1:
                scores = (*scores, np.random.default_rng(seed).normal(size=(n + 1, n + 1, n_relations)))
            best = brute.kbest(*scores, k=1)[0][1]
            found = structure.best_labelling(*scores)
            assert found.proved and found.score == pytest.approx(best, rel=1e-9)
            assert structure.score(found.labels, *scores) == pytest.approx(best, rel=1e-9)
            hasty = structure.best_labelling(*scores, max_nodes=1)
            assert hasty.nodes == 1 and hasty.score <= best + 1e-9 and hasty.bound >= best - 1e-9


def test_the_bound_is_convex_and_its_gradient_the_marginals() -> None:
    structure, one, other = SecondOrderSpanning(), scores_of(6, 1, 1.5), scores_of(6, 2, 1.5)
    middle = [(a + b) / 2 for a, b in zip(one, other, strict=True)]
    values = [structure.log_partition(*scores) for scores in (one, middle, other)]
    assert values[1] <= (values[0] + values[2]) / 2 + 1e-6
    # Along a line, the derivative is what the marginals say.
    step, direction = 1e-3, scores_of(6, 3)
    sides = [
        structure.log_partition(*(a + sign * step * b for a, b in zip(one, direction, strict=True)))
        for sign in (1, -1)
    ]
    expected = sum(
        float((m * d).sum()) for m, d in zip(structure.marginals(*one)[:3], direction, strict=True)
    )
    np.testing.assert_allclose((sides[0] - sides[1]) / (2 * step), expected, atol=5e-3)


def test_one_word_and_no_samples() -> None:
    structure = SecondOrderSpanning()
    arcs, siblings, grandparents = scores_of(1, 0)
    total = arcs[0, 1] + siblings[0, 0, 1] + siblings[0, 1, 0]
    np.testing.assert_allclose(structure.log_partition(arcs, siblings, grandparents), total, rtol=1e-9)
    with pytest.raises(InputError, match="no samples"):
        structure.sample(arcs, siblings, grandparents)


# -- solvers and parsers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus() -> Any:
    return toy(25, seed=3, longest=6)


@pytest.mark.parametrize(("loss", "names"), [("log", ("eg-gap", "lbfgs", "sgd")), ("hinge", ("bcfw",))])
def test_solvers_agree_on_projective_trees(corpus: Any, loss: str, names: tuple[str, ...]) -> None:
    parser = DependencyParser(structure="projective", order=2, loss=loss, l2=1.0, prune=None)
    problem, _ = parser._problem_for(corpus)
    found = [solve(problem, SOLVERS[name], tol=1e-3, max_passes=300).certificate for name in names]
    assert all(each.kind == "exact" and each.dual <= each.primal + 1e-9 for each in found)
    best = max(each.dual for each in found)
    for name, each in zip(names, found, strict=True):
        assert each.primal <= best * (1 + (3e-2 if name == "sgd" else 2e-3)), name


def test_the_relaxation_is_trained_with_a_certificate(corpus: Any) -> None:
    parser = DependencyParser(order=2, l2=1.0, prune=4, tol=1e-2).fit(corpus)
    assert parser.certificate_kind_ == "relaxation" and parser.converged_
    assert 0.0 <= parser.duality_gap_ <= 1e-2
    assert parser.score(corpus) > 0.95
    marginals = parser.predict_marginals(corpus)[0]
    np.testing.assert_allclose(marginals[:, 1:].sum(axis=0), 1.0, atol=1e-6)


@pytest.mark.parametrize("labelled", [True, False])
def test_a_parser_is_saved_and_comes_back(tmp_path: Any, corpus: Any, labelled: bool) -> None:
    parser = DependencyParser(structure="projective", order=2, l2=0.3, prune=3, labelled=labelled).fit(corpus)
    other = toy(8, seed=9)
    parser.save(tmp_path / "m.pw")
    again = load(tmp_path / "m.pw")
    assert again.get_params() == parser.get_params()
    assert (again.parse(other).heads == parser.parse(other).heads).all()
    for mine, theirs in zip(parser.predict_marginals(other), again.predict_marginals(other), strict=True):
        assert np.array_equal(mine, theirs)
    assert parser.score(corpus) > 0.95
    ranked = parser.predict_kbest(other, 3)
    for trees, best in zip(ranked, parser.predict(other), strict=True):
        values = [value for _, value in trees]
        assert values == sorted(values, reverse=True) and sum(values) <= 1.0 + 1e-9
        first = trees[0][0]
        assert (np.asarray(first[0] if labelled else first) == (best[0] if labelled else best)).all()
    kinds = {label for _, label, _ in parser.top_features(100_000)}
    assert {"arc", "sibling", "grandparent"} <= kinds


def test_what_second_order_refuses(corpus: Any) -> None:
    for parameters, message in (
        ({"order": 3}, "order must be 1 or 2"),
        ({"order": 2, "loss": "hinge"}, "needs a loss with finite beta"),
        ({"order": 2, "sibling_templates": ["grandparent.tag"]}, "cannot read 'grandparent.tag'"),
        ({"order": 2, "grandparent_templates": "siblings"}, "not one of grandparents"),
        ({"templates": ["sibling.tag"]}, "cannot read 'sibling.tag'"),
    ):
        with pytest.raises(InputError, match=message):
            DependencyParser(**parameters).fit(corpus)


def test_command_line(tmp_path: Any, run: Any, corpus: Any) -> None:  # noqa: F811
    with open(tmp_path / "t.conllu", "w", newline="", encoding="utf-8") as handle:
        write_dependencies(handle, corpus)
    code, out, _ = run(
        "train", "dependency", tmp_path / "t.conllu", "--model", tmp_path / "m.pw", "--order", "2",
        "--structure", "projective", "--prune", "3", "--l2", "0.3", "--unlabelled", "--json",
    )  # fmt: skip
    assert code == 0 and json.loads(out)["pruning"]["recall"] > 0.9
    code, out, _ = run("evaluate", tmp_path / "m.pw", tmp_path / "t.conllu", "--json")
    assert code == 0 and json.loads(out)["uas"] > 0.95
    code, _, error = run("train", "dependency", tmp_path / "t.conllu", "--model", "n.pw", "--order", "3")
    assert code == 2 and "order must be 1 or 2" in error
