"""A problem: examples that can be scored, their true parts, a loss, l2 and l1. A solver sees nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from partwise.compiled.examples import Batch, Scratch
from partwise.compiled.rows import packed_rows
from partwise.core.arrays import offsets, ranges
from partwise.core.batch_pass import loss_pass, model_pass, point_pass
from partwise.core.checks import check_not_negative, check_positive, checked_weights
from partwise.core.evaluation import Evaluation
from partwise.core.losses import Loss
from partwise.core.rows import RowData
from partwise.core.scorer import Scorer
from partwise.core.time_limit import summed_in_time, visited_in_time
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.structures.contract import PartLists, Shapes, Structure

_NOTHING = np.zeros(0)
Visit = Callable[[Batch, np.ndarray, np.ndarray, Scratch], Any]


@dataclass
class Problem:
    """Examples bound to true labels, a loss and the regulariser (l2 / 2) ‖w‖² + l1 ‖w‖₁.

    Build one with :meth:`build`.

    Attributes
    ----------
    scorer : Scorer
    gold : PartLists
        The parts of the true labels.
    cost : float32 array, shape (n_parts,)
        The cost of every part, see :meth:`Trainable.part_costs`; empty if the loss has no cost.
    example_weight : float64 array, shape (n_examples,)
    batch : Batch
        The same data as passes read them.
    """

    # Parts that estimates from a sample of the examples may read: enough for a good estimate, within a second.
    looked_at: ClassVar[int] = 1 << 25
    visits_read_rows: ClassVar[bool] = True  # whether visits read the scorer's rows only

    scorer: Scorer
    gold: PartLists
    cost: np.ndarray
    example_weight: np.ndarray
    loss: Loss
    l2: float
    l1: float = 0.0
    batch: Batch = field(init=False, repr=False)
    _shrinking: Any = field(init=False, repr=False, compare=False)
    _kept: dict[str, tuple[tuple[Any, ...], Any]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.batch = self.scorer.batch._replace(
            gold_ptr=np.ascontiguousarray(self.gold.ptr, np.int64),
            gold_part=np.ascontiguousarray(self.gold.part, np.int64),
            gold_amount=np.ascontiguousarray(self.gold.amount, np.float64),
            cost=self.cost,
            example_weight=self.example_weight,
        )
        self._shrinking = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._parts()

    def _parts(self) -> tuple[Any, ...]:
        """The arguments of a copy."""
        return self.scorer, self.gold, self.cost, self.example_weight, self.loss, self.l2, self.l1

    @property
    def structure(self) -> Structure:
        return self.scorer.structure

    @property
    def lengths(self) -> np.ndarray:
        """Positions of each example, int64 (n_examples,)."""
        return self.scorer.shapes.lengths

    @property
    def n_jobs(self) -> int:
        return self.scorer.n_jobs

    @property
    def n_examples(self) -> int:
        return self.scorer.n_examples

    @property
    def n_weights(self) -> int:
        return self.scorer.n_weights

    @property
    def has_features(self) -> bool:
        """Whether weights belong to features, rather than to training examples as with a kernel function."""
        return True

    @property
    def certified(self) -> str:
        """The problem that a certificate is true of, see `core/exactness.py`."""
        return self.structure.exactness

    @property
    def known(self) -> tuple[np.ndarray, ...]:
        """Arrays with everything that is known about the labels."""
        return self.batch.gold_ptr, self.batch.gold_part, self.batch.gold_amount

    @property
    def is_in_memory(self) -> bool:
        """Whether all rows of features are in memory, so that any row can be read at any time."""
        return True

    def shards(self, random: np.random.Generator) -> Iterator[np.ndarray]:
        """The examples of each shard. Every pass draws new shards; each example is in one.

        Online solvers visit examples of one shard before they go on to the next.
        """
        yield np.arange(self.n_examples)

    def in_order(self) -> Iterator[tuple[int, int]]:
        """All examples as consecutive ranges (first, end), each of which fits into memory."""
        yield 0, self.n_examples

    @property
    def streamed_bytes(self) -> tuple[int, int]:
        """Bytes of data and state on disk: those in memory at a time, and all that is mapped."""
        return 0, 0

    @property
    def keeps_state_on_disk(self) -> bool:
        """Whether arrays of :meth:`zeros` lie on disk."""
        return False

    def zeros(self, ptr: np.ndarray, dtype: Any) -> np.ndarray:
        """An array of zeros for a solver's state. Entries ptr[i] … ptr[i + 1] − 1 belong to example i."""
        return np.zeros(int(ptr[-1]), dtype)

    @property
    def n_sums(self) -> int:
        """Number of entries of the vector that passes add up."""
        return self.n_weights

    @property
    def n_touched(self) -> int:
        """Approximate number of weights that a pass reads or writes."""
        return self.scorer.n_touched

    @property
    def n_parts(self) -> int:
        return self.scorer.n_parts

    def gold_indices(self, first: int = 0, last: int | None = None) -> np.ndarray:
        """Indices, among the parts of all examples, of the true parts of some examples, int64 (n_gold_parts,)."""
        last = self.n_examples if last is None else last
        ptr = self.batch.gold_ptr[first : last + 1]
        parts = self.batch.gold_part[ptr[0] : ptr[-1]]
        return np.repeat(self.batch.part_ptr[first:last], np.diff(ptr)) + parts

    def labelling_ptr(self) -> np.ndarray:
        """Offsets of lists that can hold the largest labelling of each example, int64 (n_examples + 1,)."""
        return offsets(self.structure.most_parts(self.scorer.shapes))

    @classmethod
    def build(
        cls,
        structure: Structure,
        labels: Any,
        shapes: np.ndarray | Shapes,
        rows: Mapping[str, RowData],
        *,
        loss: str | Loss = "log",
        l2: float = 1.0,
        l1: float = 0.0,
        cost: str | np.ndarray = "hamming",
        example_weight: np.ndarray | None = None,
        n_jobs: int = 1,
        gold: PartLists | None = None,
    ) -> Problem:
        """Check all arguments and build the problem.

        Parameters
        ----------
        labels
            True labels of all examples, as the structure reads them. For chains, classes and trees: ints
            (n_positions,), one example after another.
        shapes : ndarray (n_examples,) of int, or Shapes
            Lengths, or shapes if the structure needs more than the length of an example.
        rows : dict of RowData
            Rows of features by the name of their kind. Tied kinds have none.
        cost
            A name or numbers, as the structure reads them, or a mapping of kinds of rows to costs.
        example_weight : ndarray (n_examples,) or None
        gold : PartLists or None
            The parts of `labels` if they are checked and encoded already.
        """
        loss = Loss.of(loss)
        check_positive("l2", l2)
        check_not_negative("l1", l1)
        shapes = shapes if isinstance(shapes, tuple) else structure.shapes(shapes)
        lengths = shapes.lengths
        if len(lengths) == 0:
            raise InputError("there are no training examples")
        if (lengths <= 0).any():
            raise InputError(
                f"example {int(np.argmax(lengths <= 0))} is empty; every example needs a position"
            )
        gold = structure.encode_all(labels, shapes) if gold is None else gold
        costs = structure.read_cost(cost)
        scorer = Scorer.build(structure, shapes, rows, n_jobs)
        part_costs = np.zeros(0, np.float32)
        if loss.gamma:
            part_costs = structure.costs_of_parts(labels, shapes, costs, gold)
        weights = checked_weights(example_weight, len(lengths))
        return cls(scorer, gold, part_costs, weights, loss, float(l2), float(l1))

    def shard(self, examples: np.ndarray) -> Problem:
        """The same problem on some of its examples. Rows are shared, not copied."""
        gold, sizes = self.gold, np.diff(self.gold.ptr)[examples]
        at = ranges(gold.ptr[:-1][examples], sizes)
        amount = gold.amount[at] if gold.amount.size else gold.amount
        scorer = self.scorer.shard(examples)
        cost = self.cost
        if cost.size:
            part_ptr = self.batch.part_ptr
            cost = cost[ranges(part_ptr[:-1][examples], np.diff(part_ptr)[examples])]
        return Problem(
            scorer,
            type(gold)(offsets(sizes), gold.part[at], amount),
            cost,
            self.example_weight[examples],
            self.loss,
            self.l2,
            self.l1,
        )

    def with_l2(self, l2: float, l1: float | None = None) -> Problem:
        """The same data with another regulariser; None leaves l1 as it is."""
        check_positive("l2", l2)
        l1 = self.l1 if l1 is None else l1
        check_not_negative("l1", l1)
        return replace(self, l2=float(l2), l1=float(l1))

    def with_gold(self, gold: PartLists) -> Problem:
        """The same data with other true labels."""
        return replace(self, gold=gold)

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """A value that is computed once for these examples, true labels, costs and example weights.

        It must not depend on the loss, l2 and l1, because problems with other ones share it.
        """
        made_from = self.scorer, self.gold, self.cost, self.example_weight
        found = self._kept.get(name)
        if found is None or any(a is not b for a, b in zip(found[0], made_from, strict=True)):
            found = self._kept[name] = made_from, make()
        return found[1]

    def scratch(self, dtype: Any, thread: int = 0) -> Scratch:
        """The workspace for one example, made once per thread and type."""
        return self.scorer.scratch(dtype, thread)

    @property
    def asks(self) -> tuple[str, ...]:
        """The answer of the structure that the loss needs."""
        return ("best",) if self.loss.is_hard else ("sums",)

    # -- vectors of weights ---------------------------------------------------------------------

    def inner(self, one: np.ndarray, other: np.ndarray) -> float:
        """Inner product of two vectors of weights."""
        return float(one @ other)

    def inners(self, several: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Inner products of `several` vectors of weights, (k, n_weights), with one; (k,)."""
        return several @ other

    def weights_at(self, v: np.ndarray) -> np.ndarray:
        """The weights shrink(v, l1) / l2."""
        return self._shrunk(v) / self.l2

    def _shrunk(self, v: np.ndarray) -> np.ndarray:
        return v - np.clip(v, -self.l1, self.l1) if self.l1 else v

    def squared_norm(self, v: np.ndarray) -> float:
        """‖shrink(v, l1)‖². Divided by 2 l2, it is the conjugate of the regulariser at v."""
        shrunk = self._shrunk(v)
        return self.inner(shrunk, shrunk)

    def penalty(self, weights: np.ndarray) -> float:
        """(l2 / 2) ‖w‖² + l1 ‖w‖₁."""
        penalty = 0.5 * self.l2 * self.inner(weights, weights)
        return penalty + self.l1 * float(np.abs(weights).sum()) if self.l1 else penalty

    def settled(self, v: np.ndarray) -> np.ndarray:
        """The weight vector that belongs to a sum of a pass or to the result of visits."""
        return v

    def scoring(self, weights: np.ndarray) -> np.ndarray:
        """The vector from which passes compute scores."""
        return np.ascontiguousarray(weights, np.float64)

    def visits(
        self,
        order: np.ndarray,
        v: np.ndarray,
        run: Visit,
        asks: tuple[str, ...] | None = None,
        thread: int = 0,
    ) -> list[Any]:
        """Visit examples one after another by ``run(batch, order, v, scratch)``, which changes `v`.

        With l1, scores are those of shrink(v, l1), and scatter returns the growth of :meth:`squared_norm`. `asks` names
        the answers of the structure that visits need, by default those of the loss. Threads that visit at the same time
        have different numbers `thread`.

        Visits that come after a time limit are left out (`time_limit.py`). Returns the results of `run`, one for each
        piece of `order` that it was called for.
        """
        scratch = self.scorer.scratch(v.dtype, thread, asks or self.asks, shrunk=self.l1 > 0.0)
        return [run(self._visited_batch(), here, v, scratch) for here in visited_in_time(order)]

    def visited(self, n_visits: int) -> None:
        """Called after every round of threads that visit together."""

    def _visited_batch(self) -> Batch:
        """The batch, with the l1 of this problem in its rows."""
        if not self.l1:
            return self.batch
        if self._shrinking is None:
            scorer = self.scorer
            self._shrinking = packed_rows(list(scorer.kinds), scorer.run_ptr, scorer.runs, self.l1)
        return self.batch._replace(rows=self._shrinking[0])

    def squared_radii(self) -> np.ndarray:
        """Upper bound on max_y ‖φ(x_i, y_i) − φ(x_i, y)‖² for every example, (n_examples,)."""
        from partwise.core.feature_radius import squared_radii

        return squared_radii(self.scorer)

    def score_size(self, weights: np.ndarray) -> tuple[float, float]:
        """The largest Σ_a |w_a x_a| that a part's score may add up, and the most terms of such a sum."""
        from partwise.core.rounding import score_size

        return score_size(self, weights)

    # -- passes over all examples --------------------------------------------------------------

    def over_examples(
        self,
        dtype: Any,
        work: Callable[[int, int, Scratch, np.ndarray], None],
        asks: tuple[str, ...] | None = None,
    ) -> np.ndarray:
        """Run `work(first, last, scratch, v)` on a share of the examples per thread. Returns the sum of all v.

        `asks` names the answers of the structure that the pass needs, by default those of the loss.
        """
        sums: dict[int, np.ndarray] = {}
        work = summed_in_time(work)

        def share(first: int, last: int, scratch: Scratch, thread: int) -> None:
            sums[thread] = np.zeros(self.n_sums)
            work(first, last, scratch, sums[thread])

        asks = self.asks if asks is None else asks
        for thread in range(1, self.scorer.over_examples(dtype, share, asks=asks)):
            sums[0] += sums[thread]
        return sums[0]

    def pieces(
        self, first: int, last: int, weights: np.ndarray | None = None, v: np.ndarray | None = None
    ) -> Iterator[tuple[Batch, int, int]]:
        """See :meth:`Scorer.pieces`."""
        return self.scorer.pieces(first, last, weights, v, self.batch)

    def at_potentials(
        self, theta: np.ndarray, visited: np.ndarray, mu: np.ndarray | None = None
    ) -> Evaluation:
        """Evaluate the dual point with these potentials in double precision. Fills `mu`."""
        entropy, cost = np.zeros(self.n_examples), np.zeros(self.n_examples)
        target = np.zeros(0, theta.dtype) if mu is None else mu

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            for piece in self.pieces(first, last, v=v):
                point_pass(*piece, theta, visited, target, v, entropy, cost, scratch)

        v = self.settled(self.over_examples(np.float64, work, ("sums",)))
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
            for piece in self.pieces(first, last, weights, v):
                model_pass(
                    *piece, weights, scale, cost_scale, gold_scale, hard,
                    v, entropy, cost, log_total, gold, scratch,
                )  # fmt: skip

        v = self.settled(self.over_examples(np.float64, work, ("best",) if hard else ("sums",)))
        return Evaluation(v, entropy, cost, log_total, gold)

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """Scores of all parts of all examples, (n_parts,)."""
        return self.scorer.scores(self.scoring(weights))

    def losses(self, weights: np.ndarray, mu: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """ℓ_i at `weights`, and if `mu` is given the inner products μ_i·(s_i + γ e_i) − s(true).

        Returns
        -------
        loss, inner : ndarray (n_examples,)
        """
        loss, inner = np.zeros(self.n_examples), np.zeros(self.n_examples)
        counts = np.zeros(0, np.float32) if mu is None else mu
        weights = self.scoring(weights)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            for piece in self.pieces(first, last, weights):
                loss_pass(*piece, weights, 1.0, self.loss.beta, self.loss.gamma, counts, inner, loss, scratch)

        self.over_examples(np.float64, work)
        return loss, inner

    def inverse_of_gram(self, rows: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """(XᵀX + rest)⁻¹, (m, m), for rows X (n, m) in single precision, on the device of the problem's products."""
        from scipy.linalg.lapack import dpotrf, dpotri  # only steps with curvature need it

        factor, failed = dpotrf((rows.T @ rows).astype(np.float64) + rest, lower=1)
        if failed:
            return np.linalg.inv((rows.T @ rows).astype(np.float64) + rest)
        below = np.tril(dpotri(factor, lower=1)[0])
        inverse: np.ndarray = below + np.tril(below, -1).T
        return inverse

    def primal(self, weights: np.ndarray) -> float:
        """P(w) = Σ_i weight_i ℓ_i(w) + (l2 / 2) ‖w‖² + l1 ‖w‖₁."""
        loss, _ = self.losses(weights)
        return float(self.batch.example_weight @ loss) + self.penalty(weights)

    def dual(self, point: Evaluation) -> float:
        """D(α) = Σ_i weight_i ( H(α_i) / β + γ Σ_r μ_r e_r ) − ‖shrink(v, l1)‖² / (2 l2)."""
        value = self.loss.inverse_beta * point.entropy + self.loss.gamma * point.cost
        return float(self.batch.example_weight @ value) - self.squared_norm(point.v) / (2.0 * self.l2)
