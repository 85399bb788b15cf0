"""Small random problems of every kind, and the same problems written out label by label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from graph_families import skipping_chains

from partwise.core.arrays import block_of, offsets
from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap, Pairs
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.errors import InputError
from partwise.solvers.dual.untied import untied
from partwise.structures import (
    Chain,
    Grammar,
    Multiclass,
    Projective,
    Selection,
    SemiMarkov,
    Spanning,
    Structure,
    transition_mask,
)
from partwise.structures.contract import Shapes
from partwise.structures.segments.parts import _segments
from partwise.structures.segments.tags import tags_of_segments

N_ATTRIBUTES = 7
KINDS = (
    "multiclass", "tied", "untied", "order2", "masked", "projective", "spanning", "labelled", "selection",
    "graph", "segments", "grammar",
)  # fmt: skip


@dataclass(frozen=True)
class Small:
    """A problem with the data it was built from."""

    problem: Problem
    labels: np.ndarray
    lengths: np.ndarray
    node: np.ndarray  # (n_node_rows, attributes), dense attributes first
    edge: np.ndarray  # (n_edge_rows, attributes)
    shapes: Shapes

    @cached_property
    def written_out(self) -> WrittenOut:
        return WrittenOut(self)


def many_labels(n: int, n_labels: int, length: int = 20, loss: str = "log") -> Problem:
    """Chains of random labels, with a word each that tells half of them, and its neighbours."""
    random = np.random.default_rng(0)
    labels = random.integers(0, n_labels, n * length)
    words = np.where(random.random(n * length) < 0.5, labels, random.integers(0, n_labels, n * length))
    ids = np.stack([words, n_labels + np.roll(words, 1), 2 * n_labels + np.roll(words, -1)], 1)
    rows = AttributeRows(np.arange(n * length + 1) * 3, ids.ravel().astype(np.int32))
    node = FeatureMap.build(n_labels, 3 * n_labels, 0, rows, labels, "observed")
    lengths, data = np.full(n, length), {"node": RowData(node, rows)}
    return Problem.build(Chain(n_labels), labels, lengths, data, loss=loss)


def small(
    kind: str = "tied",
    loss: str | Loss = "log",
    *,
    features: str = "binary",
    pairs: Pairs = "all",
    weighted: bool = False,
    l2: float = 2.0,
    n: int = 8,
    seed: int = 0,
    n_jobs: int = 1,
    structure: Structure | None = None,
    shift: int = 0,
    **options: Any,
) -> Small:
    """A problem of this `kind`; attributes, "binary", "real" or "dense", say something of the labels.

    `structure` replaces the usual one of the kind, `shift` is added to all true labels once the attributes are
    made, and `options` go to `Problem.build`.
    """
    random = np.random.default_rng([seed, KINDS.index(kind)])
    structure = structure or make_structure(kind)
    lengths = np.ones(n, np.int64) if kind == "multiclass" else random.integers(1, 5, n)
    if kind in ("projective", "labelled", "grammar"):
        lengths = np.minimum(lengths, 3)
    labels = np.concatenate([_some_labelling(structure, int(length), random) for length in lengths])
    shapes = structure.shapes(lengths)
    if kind == "spanning":
        shapes = _without_some_arcs(structure, labels, shapes, random)
    if kind == "grammar":
        shapes = _without_some_spans(structure, labels, shapes, random)
    node_label, edge_label = _row_labels(structure, labels, shapes)
    first, *others = [each for each in structure.kinds if not each.tied]
    node = _attributes(node_label, features, random)
    edge = _attributes(edge_label, features, random) if others else np.zeros((0, 0))
    n_dense = N_ATTRIBUTES if features == "dense" else 0
    sparse = None if n_dense else _rows(node)
    node_map = FeatureMap.build(first.width, N_ATTRIBUTES - n_dense, n_dense, sparse, node_label, pairs)
    rows = {first.name: RowData(node_map, sparse, node if n_dense else None)}
    for other in others:
        edge_map = FeatureMap.build(other.width, N_ATTRIBUTES, 0, _rows(edge), edge_label, pairs)
        rows[other.name] = RowData(edge_map, _rows(edge))
    arguments: dict[str, Any] = {}
    if weighted:
        arguments["example_weight"] = random.uniform(0.2, 2.0, n)
    if kind in ("projective", "labelled"):
        arguments["cost"] = "labelled"
    labels = (labels + shift) % structure.n_labels if shift else labels
    arguments |= options
    problem = Problem.build(structure, labels, shapes, rows, loss=loss, l2=l2, n_jobs=n_jobs, **arguments)
    return Small(problem, labels, lengths, node, edge, shapes)


def tight(loss: str | Loss, *, n: int, l2: float) -> Small:
    """Examples that differ in nothing: two classes, the first always true, one attribute of value one.

    The bounds in which theorems hide their constants are as tight here as anywhere: all ‖φ(true) − φ(y)‖² are 2,
    and the examples pull on the same two weights.
    """
    structure, labels, lengths = Multiclass(2), np.zeros(n, np.int64), np.ones(n, np.int64)
    node = np.zeros((n, N_ATTRIBUTES))
    node[:, 0] = 1.0
    shapes = structure.shapes(lengths)
    problem = Problem.build(
        structure, labels, shapes, {"node": RowData(FeatureMap.build(2, 0, N_ATTRIBUTES), None, node)},
        loss=loss, l2=l2,
    )  # fmt: skip
    return Small(problem, labels, lengths, node, np.zeros((0, 0)), shapes)


def make_structure(kind: str) -> Structure:
    if kind == "multiclass":
        return Multiclass(4)
    if kind == "masked":
        return Chain(3, **transition_mask(["O", "B-X", "I-X"])._asdict())
    if kind == "projective":
        return Projective(single_root=False, n_relations=2)
    if kind == "spanning":
        return Spanning(single_root=True)
    if kind == "labelled":
        return Spanning(single_root=True, n_relations=2)
    if kind == "selection":
        return Selection()
    if kind == "graph":
        return skipping_chains()
    if kind == "segments":
        return SemiMarkov(2, (1, 3), tokens=True)
    if kind == "grammar":
        return Grammar(4, [(0, 1, 2), (1, 2, 1), (2, 3, 2), (1, 1, 1)], unaries=[(0, 1), (1, 2), (2, 1)])
    return Chain(3, tied=kind != "untied", order=2 if kind == "order2" else 1)


def _flat(structure: Structure, y: Any) -> np.ndarray:
    """A labelling as solvers see it, one number a position."""
    if isinstance(structure, Projective | Spanning):
        return structure.codes(y)
    if isinstance(structure, SemiMarkov):
        return tags_of_segments(y, structure.n_labels)
    if isinstance(structure, Grammar):
        return structure.labels_of(y)
    return np.atleast_1d(y).astype(np.int64)


def _some_labelling(structure: Structure, length: int, random: np.random.Generator) -> np.ndarray:
    choices = list(structure.labellings(length))
    return _flat(structure, choices[random.integers(len(choices))])


def _without_some_arcs(
    structure: Any, labels: np.ndarray, shapes: Shapes, random: np.random.Generator
) -> Shapes:
    """Shapes with about two thirds of the arcs, the true ones among them."""
    arcs = structure.arcs_of(shapes)
    example, modifier, head = arcs.sentence, arcs.modifier, arcs.head
    keep = random.random(len(head)) < 0.6
    keep[structure._arc_of_words(labels, shapes)[0]] = True
    ptr = np.concatenate([[0], np.cumsum(np.bincount(example[keep], minlength=len(shapes.ptr) - 1))])
    return structure.arc_shapes(shapes.lengths, ptr, head[keep], modifier[keep])


def _without_some_spans(
    structure: Any, labels: np.ndarray, shapes: Shapes, random: np.random.Generator
) -> Shapes:
    """Shapes with about half of the spans of several words, the true ones among them."""
    ptr, first, last = structure.spans_of(shapes)
    example, truths = block_of(ptr), block_of(structure._node_ptr(labels, shapes))
    true = {tuple(each) for each in np.column_stack([truths, labels[:, :2]]).tolist()}
    is_true = [each in true for each in zip(example.tolist(), first.tolist(), last.tolist(), strict=True)]
    keep = (last > first) & ((random.random(len(first)) < 0.3) | is_true)
    return structure.span_shapes(
        shapes.lengths,
        offsets(np.bincount(example[keep], minlength=len(shapes.ptr) - 1)),
        first[keep],
        last[keep],
    )


def _row_labels(structure: Structure, labels: np.ndarray, shapes: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """The part of its row that each node and edge row's true label uses; −1 for rows it does not use."""
    if isinstance(structure, Projective | Spanning):
        true = structure._arc_of_words(labels, shapes)[0]
        node = np.full(int(structure.n_arcs(shapes).sum()), -1)
        edge = node.copy()
        node[true], edge[true] = 0, labels % structure.n_relations
        return node, edge
    if isinstance(structure, Grammar):
        parts = structure.encode_all(labels, shapes)
        at = parts.part + np.repeat(offsets(structure.n_parts(shapes))[:-1], np.diff(parts.ptr))
        used = np.zeros(int(structure.n_parts(shapes).sum()), bool)
        used[at] = True
        run_ptr, runs = structure.runs(shapes)
        return tuple(_used_columns(structure, k, run_ptr, runs, used, shapes) for k in (0, 1))
    lengths = shapes.lengths
    position = np.arange(len(labels)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    if isinstance(structure, SemiMarkov):
        segment = np.full(int(structure.row_counts(shapes)[0].sum()), -1)
        begins, sizes = _segments(labels)
        segment[offsets(structure.n_starting(shapes))[begins] + sizes - 1] = labels[begins] // 2
        return segment, labels // 2 + labels % 2 * structure.n_labels
    if isinstance(structure, Selection):
        return labels - 1, (np.append(0, labels[:-1] * labels[1:]) - 1)[position > 0]
    return labels, np.append(0, labels[:-1] * structure.n_labels + labels[1:])[position > 0]


def _used_columns(
    structure: Structure, k: int, run_ptr: np.ndarray, runs: np.ndarray, used: np.ndarray, shapes: Shapes
) -> np.ndarray:
    """The first part that is used of every row of the k-th kind; −1 where there is none."""
    width, part_ptr, result = structure.kinds[k].width, offsets(structure.n_parts(shapes)), []
    for i in range(len(run_ptr) - 1):
        _, _, n_rows, first = runs[run_ptr[i] : run_ptr[i + 1]][k]
        rows = used[part_ptr[i] + first :][: n_rows * width].reshape(n_rows, width)
        result.append(np.where(rows.any(axis=1), rows.argmax(axis=1), -1))
    return np.concatenate(result)


def _attributes(labels: np.ndarray, features: str, random: np.random.Generator) -> np.ndarray:
    """(n_rows, N_ATTRIBUTES) in single precision, as compiled code reads them."""
    shape = len(labels), N_ATTRIBUTES
    own = labels % N_ATTRIBUTES  # rows that are not used have the last attribute
    if features == "dense":
        values: np.ndarray = random.normal(size=shape)
        values[np.arange(len(labels)), own] += 1.0
    else:
        present = random.random(shape) < 0.3
        honest = random.random(len(labels)) < 0.7
        present[np.flatnonzero(honest), own[honest]] = True
        values = present * (random.normal(size=shape) if features == "real" else 1.0)
    return values.astype(np.float32).astype(np.float64)


def _rows(attributes: np.ndarray) -> AttributeRows:
    row, ids = np.nonzero(attributes)
    row_ptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(attributes)))])
    values = attributes[row, ids]
    return AttributeRows(row_ptr, ids.astype(np.int32), None if (values == 1.0).all() else values)


class WrittenOut:
    """Every labelling of every example with its features and cost; formulas straight from their definitions.

    Attributes
    ----------
    labellings : list of lists
    features : list of ndarray (n_labellings, n_weights)
    costs : list of ndarray (n_labellings,)
    gold : list of int
        The row of the true label.
    """

    def __init__(self, data: Small):
        self.problem, problem = data.problem, data.problem
        structure = problem.structure
        self.parts, self.features, self.costs, self.gold = [], [], [], []
        ptr = offsets(data.lengths)
        if isinstance(structure, Grammar):
            ptr = structure._node_ptr(data.labels, data.shapes)
        for i, length in enumerate(data.lengths):
            truth = data.labels[ptr[i] : ptr[i + 1]]
            part_features = _part_features(problem, i, (data.node, data.edge))
            labellings, parts = _possible(structure, int(length), data.shapes, i)
            self.parts.append(parts)
            self.features.append(np.array([part_features[p].sum(axis=0) for p in parts]))
            self.costs.append(np.array([_cost(structure, y, truth) for y in labellings]))
            self.gold.append(next(k for k, y in enumerate(labellings) if np.array_equal(y, truth)))

    @property
    def weight(self) -> np.ndarray:
        return self.problem.batch.example_weight

    def margins(self, weights: np.ndarray, i: int) -> np.ndarray:
        """w·φ(y) − w·φ(true) + γ e(y) for every y."""
        scores = self.features[i] @ weights
        return scores - scores[self.gold[i]] + self.problem.loss.gamma * self.costs[i]

    def primal(self, weights: np.ndarray) -> float:
        value = 0.5 * self.problem.l2 * float(weights @ weights)
        for i in range(len(self.gold)):
            value += self.weight[i] * soft_maximum(self.margins(weights, i), self.problem.loss.beta)
        return value

    def dual(self, alphas: list[np.ndarray]) -> float:
        loss, value = self.problem.loss, 0.0
        for i, alpha in enumerate(alphas):
            inner = loss.inverse_beta * entropy(alpha) + loss.gamma * float(alpha @ self.costs[i])
            value += self.weight[i] * inner
        v = self.v(alphas)
        return value - float(v @ v) / (2.0 * self.problem.l2)

    def v(self, alphas: list[np.ndarray]) -> np.ndarray:
        return sum(
            self.weight[i] * (self.features[i][self.gold[i]] - alpha @ self.features[i])
            for i, alpha in enumerate(alphas)
        )

    def model(self, weights: np.ndarray) -> list[np.ndarray]:
        """p_i ∝ exp β(margins)."""
        return [softmax(self.problem.loss.beta * self.margins(weights, i)) for i in range(len(self.gold))]

    def from_potentials(self, theta: np.ndarray) -> list[np.ndarray]:
        """α_i ∝ exp Σ_{r∈y} θ_r."""
        part_ptr, result = self.problem.batch.part_ptr, []
        for i, parts in enumerate(self.parts):
            own = theta[part_ptr[i] : part_ptr[i + 1]].astype(float)
            result.append(softmax(np.array([own[p].sum() for p in parts])))
        return result

    def true_labels(self) -> list[np.ndarray]:
        return [(np.arange(len(c)) == g) * 1.0 for c, g in zip(self.costs, self.gold, strict=True)]

    def as_quadratic(self) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """A, b, block sizes of −D for β = ∞, up to nothing: ½ α'Aα + b'α = −D(α)."""
        rows = [
            self.weight[i] * (self.features[i][self.gold[i]] - self.features[i])
            for i in range(len(self.gold))
        ]
        image = np.concatenate(rows)
        costs = np.concatenate([self.weight[i] * cost for i, cost in enumerate(self.costs)])
        return (
            image @ image.T / self.problem.l2,
            -self.problem.loss.gamma * costs,
            [len(cost) for cost in self.costs],
        )


def _cost(structure: Structure, y: np.ndarray, truth: np.ndarray) -> float:
    """Wrong positions; of derivations half the nodes, built in one way or another, that only one of them has."""
    if not isinstance(structure, Grammar):
        return float((y != truth).sum())
    ways = [
        {(*node[:3], (node[3] >= 0) + (node[3] >= len(structure.rules))) for node in each.tolist()}
        for each in (y, truth)
    ]
    return len(ways[0] ^ ways[1]) / 2


def _possible(
    structure: Structure, length: int, shapes: Shapes, i: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Flat labels and parts of every labelling of example i whose parts its shape has."""
    values = shapes.values[shapes.ptr[i] : shapes.ptr[i + 1]]
    own, labellings, parts = Shapes(np.array([0, len(values)]), values), [], []
    for y in structure.labellings(length):
        try:
            parts.append(structure.encode_all(_flat(structure, y), own).part)
        except InputError:
            continue  # pruning took an arc away
        labellings.append(_flat(structure, y))
    return labellings, parts


def _table(feature_map: FeatureMap, n_attributes: int) -> np.ndarray:
    """(n_attributes, width): index of the weight of a pair, or −1."""
    table = np.full((n_attributes, feature_map.width), -1)
    attribute, label, weight = feature_map.pairs()
    table[attribute, label] = weight
    return table


def _part_features(problem: Problem, i: int, values: tuple[np.ndarray, ...]) -> np.ndarray:
    """φ(x_i, r) of every part r, (n_parts, n_weights), from the attributes of each kind's rows."""
    blocks, scorer = [], problem.scorer
    for kind, count in zip(scorer.structure.kinds, [*_first_rows(problem, i), None], strict=False):
        first = scorer.slice_of(kind.name).start
        if kind.tied:
            block = np.zeros((kind.width, problem.n_weights))
            block[np.arange(kind.width), first + np.arange(kind.width)] = 1.0
            blocks.append(block)
            continue
        table = _table(scorer.maps[kind.name], N_ATTRIBUTES)
        for row in values[scorer.structure.kinds.index(kind)][count]:
            block = np.zeros((kind.width, problem.n_weights))
            for attribute, label in zip(*np.nonzero(table >= 0), strict=True):
                block[label, first + table[attribute, label]] += row[attribute]
            blocks.append(block)
    return np.concatenate(blocks)


def _first_rows(problem: Problem, i: int) -> list[slice]:
    """The rows of example i among those of each kind."""
    counts = problem.structure.row_counts(problem.scorer.shapes)
    return [slice(int(count[:i].sum()), int(count[: i + 1].sum())) for count in counts]


def soft_maximum(values: np.ndarray, beta: float) -> float:
    top = float(values.max())
    return top if np.isinf(beta) else top + float(np.log(np.exp(beta * (values - top)).sum())) / beta


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def entropy(alpha: np.ndarray) -> float:
    positive = alpha[alpha > 0]
    return -float(positive @ np.log(positive))


def divergence(alphas: list[np.ndarray], others: list[np.ndarray]) -> float:
    """Σ_i KL(α_i ‖ other_i)."""
    total = 0.0
    for alpha, other in zip(alphas, others, strict=True):
        total += float(alpha[alpha > 0] @ np.log(alpha[alpha > 0] / other[alpha > 0]))
    return total


def as_distributions(written: WrittenOut, mu: np.ndarray) -> list[np.ndarray]:
    """α_i(y) = μ(y_1) Π_t μ(y_{t-1}, y_t) / μ(y_{t-1}), straight from the marginals of the untied problem."""
    view, result = untied(written.problem), []
    width = view.structure.n_labels
    for i, length in enumerate(view.lengths):
        own = mu[view.batch.part_ptr[i] : view.batch.part_ptr[i + 1]]
        node = own[: length * width].reshape(length, width)
        edge = own[length * width :].reshape(length - 1, width, width)
        alpha = []
        for y in (np.atleast_1d(y) for y in written.problem.structure.labellings(int(length))):
            value = node[0, y[0]]
            for t in range(1, length):
                value *= edge[t - 1, y[t - 1], y[t]] / max(node[t - 1, y[t - 1]], 1e-300)
            alpha.append(value)
        result.append(np.array(alpha))
    return result
