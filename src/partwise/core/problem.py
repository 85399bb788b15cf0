"""A problem: encoded data, feature map, structure, loss and l2. All that a solver sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.compiled.examples import Batch, Scratch, make_scratch
from partwise.core.batch_pass import loss_pass, model_pass, point_pass, score_pass
from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.errors import InputError
from partwise.features.vocabulary import AttributeRows

if TYPE_CHECKING:
    from partwise.structures.contract import Layouts, Structure

_NOTHING = np.zeros(0)
Visit = Callable[[Batch, np.ndarray, np.ndarray, Scratch], Any]


@dataclass(frozen=True)
class Evaluation:
    """Sums over examples at one point, and what they give.

    Attributes
    ----------
    v : ndarray (n_weights,)
        Σ_i weight_i (φ(true) − expected φ).
    entropy, cost, log_total, gold : ndarray (n_examples,)
        H(α_i), Σ_r μ_r e_r, the log-partition (or maximum) and the true label's score.
    """

    v: np.ndarray
    entropy: np.ndarray
    cost: np.ndarray
    log_total: np.ndarray
    gold: np.ndarray


@dataclass
class Problem:
    """Data bound to structure × loss × l2.

    Build one with :meth:`build`; `batch` holds flat arrays only, which may be memory-mapped. In `views`
    solvers keep the same data in other layouts and what they computed of it, by name, each with the batch it was
    made from.
    """

    structure: Structure
    batch: Batch
    loss: Loss
    l2: float
    n_weights: int
    node_map: FeatureMap
    edge_map: FeatureMap | None
    n_jobs: int = 1
    views: dict[str, tuple[Batch, Any]] = field(default_factory=dict, repr=False)
    _scratch: dict[Any, Scratch] = field(default_factory=dict, repr=False)

    @property
    def n_examples(self) -> int:
        return len(self.batch.length)

    @property
    def has_features(self) -> bool:
        """Whether weights belong to features, and not to a kernel function's examples."""
        return True

    @property
    def n_sums(self) -> int:
        """Entries of what passes add up."""
        return self.n_weights

    @property
    def n_touched(self) -> int:
        """About how many weights a pass reads or writes."""
        node = self.batch.node
        return node.stride * (len(node.wide_start) + node.dense.size) + int(node.narrow_count.sum())

    @property
    def n_parts(self) -> int:
        return int(self.batch.part_ptr[-1])

    @classmethod
    def build(
        cls,
        structure: Structure,
        labels: np.ndarray,
        lengths: np.ndarray | Layouts,
        node_map: FeatureMap,
        node_rows: AttributeRows | None = None,
        *,
        node_dense: np.ndarray | None = None,
        edge_map: FeatureMap | None = None,
        edge_rows: AttributeRows | None = None,
        loss: str | Loss = "log",
        l2: float = 1.0,
        cost: str | np.ndarray = "hamming",
        example_weight: np.ndarray | None = None,
        n_jobs: int = 1,
    ) -> Problem:
        """Check everything and lay it out.

        Parameters
        ----------
        labels : ndarray (n_positions,) of int
            True labels of all examples, one after another.
        lengths : ndarray (n_examples,) of int, or Layouts
            Layouts where the shape of an example depends on more than its length.
        node_map, edge_map : FeatureMap
            Layout of the weights; `edge_map` only where the structure has edge rows.
        node_rows, edge_rows : AttributeRows
            Sparse attributes, one row per node and per edge.
        node_dense : ndarray (n_positions, n_dense)
            Dense attributes of the node rows.
        cost : "hamming", "zero_one" or ndarray (n_labels, n_labels)
        example_weight : ndarray (n_examples,) or None
        """
        loss = Loss.of(loss)
        check_positive("l2", l2)
        layouts = lengths if isinstance(lengths, tuple) else structure.layouts(lengths)
        labels, lengths = np.asarray(labels, np.int64), layouts.lengths
        if len(lengths) == 0:
            raise InputError("there are no training examples")
        if (lengths <= 0).any():
            raise InputError(
                f"example {int(np.argmax(lengths <= 0))} is empty; every example needs a position"
            )
        if len(labels) != lengths.sum():
            raise InputError(f"{len(labels)} labels for {int(lengths.sum())} positions")
        structure.check_gold(labels, layouts)
        costs = structure.checked_cost(cost)
        batch, n_weights = lay_out(structure, layouts, node_map, node_rows, node_dense, edge_map, edge_rows)
        gold_ptr, gold_part = structure.encode_all(labels, layouts)
        batch = batch._replace(
            gold_ptr=np.ascontiguousarray(gold_ptr, np.int64),
            gold_part=np.ascontiguousarray(gold_part, np.int64),
            cost=structure.part_costs(labels, layouts, costs) if loss.gamma else np.zeros(0, np.float32),
            example_weight=_example_weights(example_weight, len(lengths)),
        )
        return cls(structure, batch, loss, float(l2), n_weights, node_map, edge_map, n_jobs)

    def with_l2(self, l2: float) -> Problem:
        """The same data with another regulariser."""
        check_positive("l2", l2)
        return replace(self, l2=float(l2))

    def scratch(self, dtype: Any, thread: int = 0) -> Scratch:
        """Room for one example, made once per thread and type."""
        key = np.dtype(dtype).char, thread
        if key not in self._scratch:
            longest = int(self.batch.length.max())
            self._scratch[key] = make_scratch(self.batch, self.structure.workspace(longest), dtype)
        return self._scratch[key]

    # -- vectors of weights ---------------------------------------------------------------------

    def inner(self, one: np.ndarray, other: np.ndarray) -> float:
        """Inner product of two vectors of weights."""
        return float(one @ other)

    def settled(self, v: np.ndarray) -> np.ndarray:
        """A vector of weights from what a pass added up or visits left behind."""
        return v

    def scoring(self, weights: np.ndarray) -> np.ndarray:
        """What passes read scores from."""
        return np.ascontiguousarray(weights, np.float64)

    def visits(self, order: np.ndarray, v: np.ndarray, run: Visit) -> list[Any]:
        """Visit examples one after another: ``run(batch, order, v, scratch)``, which changes `v`.

        Returns what `run` returned, once or for one piece of `order` after another.
        """
        return [run(self.batch, order, v, self.scratch(v.dtype))]

    # -- passes over all examples --------------------------------------------------------------

    def over_examples(self, dtype: Any, work: Callable[[int, int, Scratch, np.ndarray], None]) -> np.ndarray:
        """Run `work(first, last, scratch, v)` on a share of the examples per thread; returns Σ v."""
        n_threads = max(1, min(self.n_jobs, self.n_examples))
        cuts = np.linspace(0, self.n_examples, n_threads + 1).astype(int)
        parts = [np.zeros(self.n_sums) for _ in range(n_threads)]

        def share(t: int) -> None:
            work(int(cuts[t]), int(cuts[t + 1]), self.scratch(dtype, t), parts[t])

        if n_threads == 1:
            share(0)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(share, range(n_threads)))
        for part in parts[1:]:
            parts[0] += part
        return parts[0]

    def at_potentials(
        self, theta: np.ndarray, visited: np.ndarray, mu: np.ndarray | None = None
    ) -> Evaluation:
        """Evaluate the dual point given by stored potentials, in double precision; fills `mu`."""
        entropy, cost = np.zeros(self.n_examples), np.zeros(self.n_examples)
        target = np.zeros(0, theta.dtype) if mu is None else mu

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            point_pass(self.batch, first, last, theta, visited, target, v, entropy, cost, scratch)

        v = self.settled(self.over_examples(np.float64, work))
        return Evaluation(v, entropy, cost, _NOTHING, _NOTHING)

    def at_weights(
        self,
        weights: np.ndarray,
        scale: float,
        cost_scale: float = 0.0,
        gold_scale: float = 0.0,
        hard: bool = False,
    ) -> Evaluation:
        """Evaluate at potentials scale · scores + cost_scale · cost + gold_scale · (true rows)."""
        entropy, cost, log_total, gold = (np.zeros(self.n_examples) for _ in range(4))
        weights = self.scoring(weights)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            model_pass(
                self.batch, first, last, weights, scale, cost_scale, gold_scale, hard,
                v, entropy, cost, log_total, gold, scratch,
            )  # fmt: skip

        v = self.settled(self.over_examples(np.float64, work))
        return Evaluation(v, entropy, cost, log_total, gold)

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """Scores of all parts of all examples, (n_parts,)."""
        scores = np.zeros(self.n_parts)
        weights = self.scoring(weights)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            score_pass(self.batch, first, last, weights, scores, scratch)

        self.over_examples(np.float64, work)
        return scores

    def losses(self, weights: np.ndarray, mu: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """ℓ_i at `weights`, and with `mu` the inner products μ_i·(s_i + γ e_i) − s(true).

        Returns
        -------
        loss, inner : ndarray (n_examples,)
        """
        loss, inner = np.zeros(self.n_examples), np.zeros(self.n_examples)
        counts = np.zeros(0, np.float32) if mu is None else mu
        weights = self.scoring(weights)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            loss_pass(
                self.batch, first, last, weights, 1.0, self.loss.beta, self.loss.gamma,
                counts, inner, loss, scratch,
            )  # fmt: skip

        self.over_examples(np.float64, work)
        return loss, inner

    def primal(self, weights: np.ndarray) -> float:
        """P(w) = Σ_i weight_i ℓ_i(w) + (l2 / 2) ‖w‖²."""
        loss, _ = self.losses(weights)
        return float(self.batch.example_weight @ loss + 0.5 * self.l2 * self.inner(weights, weights))

    def dual(self, point: Evaluation) -> float:
        """D(α) = Σ_i weight_i ( H(α_i) / β + γ Σ_r μ_r e_r ) − ‖v‖² / (2 l2)."""
        value = self.loss.inverse_beta * point.entropy + self.loss.gamma * point.cost
        return float(self.batch.example_weight @ value - self.inner(point.v, point.v) / (2.0 * self.l2))


def check_positive(name: str, value: float) -> None:
    """Raise unless `value` is a finite number above zero."""
    if not isinstance(value, (int, float, np.floating, np.integer)) or not (0 < value < math.inf):
        raise InputError(f"{name} must be a finite number > 0, not {value!r}")


def lay_out(
    structure: Structure,
    layouts: Layouts,
    node_map: FeatureMap,
    node_rows: AttributeRows | None,
    node_dense: np.ndarray | None,
    edge_map: FeatureMap | None,
    edge_rows: AttributeRows | None,
) -> tuple[Batch, int]:
    """Everything of a batch but the true labels; also the number of weights."""
    edge_first = node_map.n_weights
    if edge_map is None:
        edge_map = FeatureMap.build(structure.edge_width)
        if structure.edge_width:
            raise InputError("this structure has observation-dependent edges: edge_map is missing")
    tied_first = edge_first + edge_map.n_weights
    node_ptr = _ptr(structure.n_node_rows(layouts))
    edge_ptr = _ptr(structure.n_edge_rows(layouts))
    _check_rows("node_rows", node_rows, len(node_map.count), int(node_ptr[-1]))
    _check_rows("edge_rows", edge_rows, len(edge_map.count), int(edge_ptr[-1]))
    _check_dense(node_dense, (int(node_ptr[-1]), node_map.n_dense))
    batch = Batch(
        specification=structure.specification(),
        node=node_map.group(node_rows, node_ptr, 0, node_dense),
        edge=edge_map.group(edge_rows, edge_ptr, edge_first),
        tied_first=tied_first,
        tied_size=int(structure.tied_size),
        length=layouts.lengths,
        layout_ptr=layouts.ptr,
        layout=layouts.values,
        part_ptr=_ptr(structure.n_parts(layouts)),
        gold_ptr=np.zeros(len(layouts.ptr), np.int64),
        gold_part=np.zeros(0, np.int64),
        cost=np.zeros(0, np.float32),
        example_weight=np.ones(len(layouts.lengths)),
    )
    return batch, tied_first + int(structure.tied_size)


def _check_rows(name: str, rows: AttributeRows | None, n_attributes: int, n_rows: int) -> None:
    """Kernels do not look where they read: whatever could lead them astray is refused here."""
    if rows is None:
        return
    if len(rows.row_ptr) != n_rows + 1:
        raise InputError(f"{name} has {len(rows.row_ptr) - 1} rows; the examples need {n_rows}")
    if rows.ids.size and not 0 <= rows.ids.min() <= rows.ids.max() < n_attributes:
        raise InputError(f"{name} names attribute {rows.ids.max()}; its map has {n_attributes}")
    if rows.values is not None and not np.isfinite(rows.values).all():
        raise InputError(f"{name} contains NaN or infinity")


def _check_dense(dense: np.ndarray | None, shape: tuple[int, int]) -> None:
    if dense is None:
        if shape[1]:
            raise InputError(f"node_dense is missing: the node map has {shape[1]} dense attributes")
        return
    if np.shape(dense) != shape:
        raise InputError(f"node_dense has shape {np.shape(dense)}, expected {shape}")
    if not np.isfinite(dense).all():
        raise InputError("node_dense contains NaN or infinity")


def _ptr(counts: np.ndarray) -> np.ndarray:
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def _example_weights(weights: np.ndarray | None, n_examples: int) -> np.ndarray:
    if weights is None:
        return np.ones(n_examples)
    result = np.ascontiguousarray(weights, np.float64)
    if result.shape != (n_examples,):
        raise InputError(
            f"sample_weight has shape {result.shape}; {n_examples} examples need ({n_examples},)"
        )
    if not np.isfinite(result).all() or (result < 0).any():
        raise InputError("sample_weight must be finite and non-negative")
    return result
