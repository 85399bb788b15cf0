"""GraphLabeler: chains are chains, probabilities those of enumeration, explanations that add up, kinds, files."""

from __future__ import annotations

import pickle
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partwise
from partwise import GraphLabeler, InputError, SequenceLabeler
from partwise.data import GraphExample, GraphFactor, Graphs, grid_graph, parse_graphs

RANDOM = np.random.default_rng(0)


def images(n: int, shape: tuple[int, int] = (2, 3)) -> tuple[list[GraphExample], list[np.ndarray]]:
    """Noisy pictures of two halves."""
    graphs, labels = [], []
    for _ in range(n):
        truth = (np.arange(shape[1]) >= RANDOM.integers(1, shape[1])) * np.ones(shape, int)
        graphs.append(grid_graph(truth + RANDOM.normal(size=shape)))
        labels.append(truth)
    return graphs, labels


GRIDS, HALVES = images(25)
BARE = [(grid.node_features, grid.edges) for grid in GRIDS]
TEXT = "\n".join(
    f'{{"nodes": [{{"features": {{"a": {i % 2}}}, "kind": "w", "label": "{"xy"[i % 2]}"}}, {{"features": [{i % 3}], '
    f'"kind": "t", "label": "{"pqr"[i % 3]}"}}, {{"features": ["q{i % 2}"], "kind": "w", "label": "y"}}], '
    '"edges": [[0, 1], {"nodes": [0, 2], "features": ["z"], "kind": "ww"}], "factors": [{"nodes": [0, 1, 2]}]}'
    for i in range(12)
)
SEVERAL = parse_graphs(TEXT)


@pytest.fixture(scope="module")
def model() -> GraphLabeler:
    return GraphLabeler(tol=1e-4).fit(GRIDS, HALVES)


@pytest.fixture(scope="module")
def several() -> GraphLabeler:
    return GraphLabeler(tol=1e-3).fit(SEVERAL)


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_a_chain_is_a_chain(loss: str) -> None:
    X = [RANDOM.normal(size=(n, 2)) for n in (3, 1, 4, 2, 5)]
    y = [["ab"[int(row[0] > 0)] for row in x] for x in X]
    chains = [(x, [(t, t + 1) for t in range(len(x) - 1)]) for x in X]
    ours = GraphLabeler(loss, tol=1e-5).fit(chains, y)
    theirs = SequenceLabeler(loss, tol=1e-5, pairs="all").fit(X, y)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=2e-5)
    assert ours.inference_ == ours.certificate_kind_ == "exact" and ours.classes_.tolist() == ["a", "b"]
    assert [own.tolist() for own in ours.predict(chains)] == theirs.predict(X)
    if loss == "log":
        for a, b in zip(ours.predict_marginals_array(chains), theirs.predict_marginals_array(X), strict=True):
            np.testing.assert_allclose(a, b, atol=5e-3)


def test_probabilities_are_those_of_all_labellings(model: GraphLabeler) -> None:
    every = model.predict_kbest(GRIDS[:2], k=100)
    nodes, edges = model.predict_marginals_array(GRIDS[:2]), model.predict_edge_marginals(GRIDS[:2])
    for i, found in enumerate(every):
        assert len(found) == 2**6 and sum(p for _, p in found) == pytest.approx(1.0)
        assert found[0][0].tolist() == model.predict(GRIDS)[i].tolist()
        vertex = sum(p * np.eye(2)[labels] for labels, p in found)
        np.testing.assert_allclose(nodes[i], vertex, atol=1e-9)
        for (a, b), table in zip(GRIDS[i].edges, edges[i], strict=True):
            expected = sum(p * np.outer(np.eye(2)[y[a]], np.eye(2)[y[b]]) for y, p in found)
            np.testing.assert_allclose(table, expected, atol=1e-9)
    named = model.predict_marginals(GRIDS[:1])[0]
    assert [row[1] for row in named] == nodes[0][:, 1].tolist()


def test_tied_edges_have_marginals_of_their_own() -> None:
    tied = GraphLabeler(tol=1e-2).fit(BARE, HALVES)
    nodes, edges = tied.predict_marginals_array(BARE[:1])[0], tied.predict_edge_marginals(BARE[:1])[0]
    for (a, b), table in zip(BARE[0][1], edges, strict=True):
        np.testing.assert_allclose(table.sum(axis=1), nodes[a], atol=1e-9)
        np.testing.assert_allclose(table.sum(axis=0), nodes[b], atol=1e-9)


def test_explanations_add_up(model: GraphLabeler) -> None:
    (best, p), (second, q) = model.predict_kbest(GRIDS[:1], k=2)[0]
    between = model.explain(GRIDS[0], against="runner-up")
    assert between.labels == best.tolist() and between.against == second.tolist()
    assert between.score == pytest.approx(np.log(p / q), abs=1e-6)
    given = model.explain(GRIDS[0], y=best, against=second)
    assert given.score == pytest.approx(between.score)
    assert any(term.attribute.startswith("edge 0-1 ") for term in model.explain(GRIDS[0]).contributions)
    shares = model.influential_examples(GRIDS[0], n=None)
    assert len(shares) == len(GRIDS) and sorted(share.index for share in shares) == list(range(len(GRIDS)))
    total = sum(share.contribution for share in shares)
    assert total == pytest.approx(model.explain(GRIDS[0]).score, rel=0.05)
    assert len(model.influential_examples(GRIDS[0], y=second, n=3)) == 3


def test_labels_may_be_fixed(model: GraphLabeler) -> None:
    for label in (0, 1):
        fixed = [[None, label, None, None, None, None]]
        assert model.predict(GRIDS[:1], fixed=fixed)[0][1] == label
        assert model.predict_marginals_array(GRIDS[:1], fixed=fixed)[0][1, label] == pytest.approx(1.0)
        assert all(labels[1] == label for labels, _ in model.predict_kbest(GRIDS[:1], k=3, fixed=fixed)[0])
    with pytest.raises(InputError, match="fixed: node 0 of graph 0 has the label 7"):
        model.predict(GRIDS[:1], fixed=[[7, None, None, None, None, None]])


def test_symmetric_edges_have_no_direction() -> None:
    turned = [(features, edges[:, ::-1]) for features, edges in BARE]
    model = GraphLabeler(tol=1e-3, edges="symmetric").fit(BARE, HALVES)
    for a, b in zip(model.predict_marginals_array(BARE), model.predict_marginals_array(turned), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert len(model.predict_edge_marginals(BARE)[0]) == len(BARE[0][1])


def test_several_kinds(several: GraphLabeler) -> None:
    assert {name: own.tolist() for name, own in several.classes_.items()} == {
        "t": ["p", "q", "r"],
        "w": ["x", "y"],
    }
    assert several.score(SEVERAL) > 0.9
    edges = several.predict_edge_marginals(SEVERAL)[0]
    assert [table.shape for table in edges] == [(2, 3), (2, 2), (2, 3, 2)]
    nodes = several.predict_marginals_array(SEVERAL)[0]
    for axis, node in enumerate((0, 1, 2)):
        others = tuple(k for k in range(3) if k != axis)
        np.testing.assert_allclose(edges[2].sum(axis=others), nodes[node], atol=1e-9)
    every = several.predict_kbest(SEVERAL, k=50)[0]
    assert {tuple(labels) for labels, _ in every} == set(product("xy", "pqr", "xy"))
    names = {name.split()[0] for name, _, _ in several.top_features(100)}
    assert names == {"w", "t", "ww", "w-t", "w-t-w"}
    assert {label for _, label, _ in several.top_features(100, "x")} == {"x"}
    cut = Graphs([GraphExample([["q0"]], node_kinds=["w"])], [["y"]])
    assert several.predict(cut)[0].tolist() == ["y"]
    unknown = GraphExample([["a"]], node_kinds=["v"])
    with pytest.raises(InputError, match="nodes of kind 'v' were not in training: 't', 'w' were"):
        several.predict([unknown])
    edge = GraphExample([["a"], ["b"]], [(0, 1)], node_kinds=["w", "w"], edge_kinds=["ww"])
    with pytest.raises(InputError, match="factors of kind 'ww' have no features, but had some in training"):
        several.predict([edge])


def test_costs_and_classes() -> None:
    cost = np.array([[0.0, 5.0], [1.0, 0.0]])
    careful = GraphLabeler("hinge", cost=cost, tol=1e-2).fit(BARE, HALVES)
    plain = GraphLabeler("hinge", tol=1e-2).fit(BARE, HALVES)
    assert sum(map(np.sum, careful.predict(BARE))) < sum(map(np.sum, plain.predict(BARE)))
    third = GraphLabeler(tol=1e-2, classes=[0, 1, 2]).fit(BARE, HALVES)
    assert third.classes_.tolist() == [0, 1, 2] and third.predict_marginals_array(BARE)[0].shape == (6, 3)
    with pytest.raises(InputError, match="label 1, which was not in training"):
        GraphLabeler(classes=[0, 2]).fit(BARE, HALVES)
    by_kind = GraphLabeler("hinge", cost={"w": "hamming"}, classes={"t": list("pqrs")}, tol=0.1).fit(SEVERAL)
    assert by_kind.classes_["t"].tolist() == list("pqrs")


@pytest.mark.parametrize("which", ["model", "several"])
def test_a_loaded_model_is_the_saved_one(which: str, request: Any, tmp_path: Path) -> None:
    model, X = request.getfixturevalue(which), GRIDS if which == "model" else SEVERAL
    model.save(tmp_path / "model")
    for other in (partwise.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert [own.tolist() for own in other.predict(X)] == [own.tolist() for own in model.predict(X)]
        assert np.array_equal(other.coef_, model.coef_) and other.inference_ == model.inference_
        assert other.top_features(5) == model.top_features(5) and other.history_ == model.history_
        with pytest.raises(InputError, match="dual state"):
            other.influential_examples(GRIDS[0])


def test_weights_are_repetition() -> None:
    tight = {"tol": 1e-6, "solver": "lbfgs"}
    weights = RANDOM.integers(1, 3, len(BARE))
    repeated = np.repeat(np.arange(len(BARE)), weights)
    weighted = GraphLabeler(**tight).fit(BARE, HALVES, sample_weight=weights)
    expanded = GraphLabeler(**tight).fit([BARE[k] for k in repeated], [HALVES[k] for k in repeated])
    assert weighted.objective_ == pytest.approx(expanded.objective_)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"inference": "guess"}, HALVES, "inference must be 'auto' or 'exact'"),
        ({"edges": "both"}, HALVES, "edges must be 'directed' or 'symmetric'"),
        ({"pairs": "some"}, HALVES, "pairs must be"),
        ({"min_count": 0}, HALVES, "min_count"),
        ({"classes": [0, 0]}, HALVES, "there twice"),
        ({}, HALVES[:-1], "y has 24 graphs, but X has 25"),
        ({}, [*HALVES[:-1], [0]], r"y\[24\] has 1 labels, but X\[24\] has 6 nodes"),
        ({}, [*HALVES[:-1], [0, 1, None, 0, 1, 0]], "y: node 2 of graph 24 has no label"),
        ({}, [*HALVES[:-1], [0, 1, [], 0, 1, 0]], "cannot be a label"),
        ({}, None, "y is missing"),
        ({"cost": np.zeros((3, 3))}, HALVES, "cost"),
        ({"cost": {"x": "hamming"}, "loss": "hinge"}, HALVES, "cost names 'x'"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphLabeler(**settings).fit(BARE, y)


def test_another_l2_goes_on_from_the_last(model: GraphLabeler) -> None:
    going = GraphLabeler(tol=1e-4, warm_start=True).fit(iter(GRIDS), iter(HALVES))
    cold = GraphLabeler(l2=0.9, tol=1e-4).fit(GRIDS, HALVES)
    warm = going.set_params(l2=0.9).fit(GRIDS, HALVES)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-4) and warm.n_passes_ < cold.n_passes_
    assert model.score(iter(GRIDS), HALVES) == model.score(GRIDS, HALVES)
    assert model.predict_marginals(iter(GRIDS))[3] == model.predict_marginals(GRIDS)[3]


def test_unknown_labels_count_as_errors(model: GraphLabeler) -> None:
    with pytest.warns(UserWarning, match="not in training"):
        assert model.score(GRIDS[:1], [[5] * 6]) == 0.0
    half = model.score(GRIDS, HALVES, sample_weight=[1.0] + [0.0] * 24)
    assert half == model.score(GRIDS[:1], HALVES[:1])


def wide() -> tuple[list[Any], list[np.ndarray]]:
    """A complete graph of nine nodes with eight labels: 8⁹ labellings, and as many entries in one table."""
    nodes = np.eye(8)[np.arange(9) % 8]
    edges = [(a, b) for a in range(9) for b in range(a)]
    return [(nodes, edges)], [np.arange(9) % 8]


def test_wide_graphs_are_relaxed_and_it_is_said(capsys: Any, tmp_path: Path) -> None:
    X, y = wide()
    narrow = [(X[0][0][:3], [(0, 1)])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GraphLabeler(max_passes=3, verbose=1).fit(X + narrow, [*y, y[0][:3]])
        assert model.inference_ == "tree-reweighted" and model.certificate_kind_ == "relaxation"
        loopy = GraphLabeler(max_passes=2, inference="loopy", solver="sgd").fit(narrow, [y[0][:3]])
    [note] = model._training_notes()
    assert note.startswith("tree-reweighted inference, as exact inference does not fit: ")
    assert "tree-width" in note and "(1 of 2 graphs)" in note and note in capsys.readouterr().out
    assert [len(own) for own in model.predict(X + narrow)] == [9, 3]
    assert len(model.predict_kbest(narrow, k=2)[0]) == 2
    with pytest.raises(InputError, match="needs exact inference"):
        model.predict_kbest(X)
    for table in model.predict_edge_marginals(X)[0]:
        assert table.sum() == pytest.approx(1.0, abs=1e-6)
    assert loopy.inference_ == "loopy" and loopy.certificate_kind_ == "approximate"
    model.save(tmp_path / "model")
    assert partwise.load(tmp_path / "model")._training_notes() == [note]
    with pytest.raises(InputError, match="use inference='auto' or 'tree-reweighted'"):
        GraphLabeler(inference="exact").fit(X, y)


def test_factors_of_three() -> None:
    """Parity of three nodes cannot be seen by their pairs."""
    X = [
        GraphExample(np.ones((3, 1)), factors=[GraphFactor((0, 1, 2))])
        for _ in range(8)
    ]  # fmt: skip
    y = [list(bits) for bits in product((0, 1), repeat=3) if sum(bits) % 2 == 0] * 2
    model = GraphLabeler(l2=0.01, tol=1e-3).fit(X, y)
    assert sum(p for labels, p in model.predict_kbest(X[:1], k=4)[0] if sum(labels) % 2 == 0) > 0.95
