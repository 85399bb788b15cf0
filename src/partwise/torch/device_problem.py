"""A problem with dense features whose sums over all examples are computed on a device.

Solvers that need only sums (`lbfgs`, `cg`, `bmrm`, `extragradient`) run unchanged: weights and directions stay on the
host, and P, its gradient and D come from this problem. Rows lie on the device in single precision. Scores are matrix
products in double precision. Log-partitions and expected counts come from the layers' kernels, or from compiled code
if a structure has none. All sums are in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from partwise.core.arrays import block_of, ranges
from partwise.core.evaluation import Evaluation
from partwise.core.problem import Problem
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.rows import Feed
from partwise.torch.sums import as_first, compute

# Entries of the score tensors of a chunk, and of its rows: bounds the memory of a pass.
_MOST_ENTRIES = 1 << 24


class _Fed(NamedTuple):
    """The rows of a chunk that feed one tensor.

    Attributes
    ----------
    dense : float32 Tensor (n_rows, n_features)
    place : int64 Tensor (n_rows,)
        The index of each row in the tensor.
    column : int64 Tensor (width,), or None if a row's parts are all entries in order
    weight : float64 Tensor (n_rows, 1)
        The weight of each row's example.
    """

    dense: torch.Tensor
    place: torch.Tensor
    column: torch.Tensor | None
    weight: torch.Tensor


class _Chunk(NamedTuple):
    """Some examples of similar lengths.

    Attributes
    ----------
    examples : int64 array (n,)
    sizes : of the score tensors
    lengths : int64 Tensor (n,)
    fed : list of _Fed or None
        For every score tensor; None if a tied kind feeds it.
    cost : list of Tensor or None
        float64, in the shapes of the tensors.
    gold : list of (entry, example, amount)
        For every tensor, the entries of the true labels in the flattened tensor.
    weight : float64 Tensor (n,)
    """

    examples: np.ndarray
    sizes: tuple[tuple[int, ...], ...]
    lengths: torch.Tensor
    fed: list[_Fed | None]
    cost: list[torch.Tensor | None]
    gold: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
    weight: torch.Tensor


@dataclass
class DeviceProblem(Problem):
    """A problem whose :meth:`at_weights` and :meth:`primal` run on `device`. All else runs on the host."""

    visits_read_rows = False

    looked_at: ClassVar[int] = 1 << 23
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    chunks: list[_Chunk] = field(default_factory=list, repr=False)
    feed: Any = field(default=None, repr=False)
    gold_image: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, problem: Problem, feed: Feed, device: torch.device) -> DeviceProblem:
        """`problem` with its rows copied to `device`. All rows must be dense."""
        names = ("scorer", "gold", "cost", "example_weight", "loss", "l2", "l1")
        self = cls(**{name: getattr(problem, name) for name in names}, device=device, feed=feed)
        order = np.argsort(problem.lengths, kind="stable")
        for examples in _cut(problem, feed, order):
            self.chunks.append(_chunk(problem, feed, examples, device))
        self.gold_image = self._image_of_truth()
        return self

    def _image_of_truth(self) -> list[torch.Tensor]:
        """Σ_i weight_i φ(true label), for every tensor in the shape of its table."""
        image = self._zeros()
        with torch.no_grad():
            for chunk in self.chunks:
                used = []
                for size, (entry, _, amount) in zip(chunk.sizes, chunk.gold, strict=True):
                    flat = torch.zeros(int(np.prod(size)), dtype=torch.float64, device=self.device)
                    used.append(flat.index_add_(0, entry, amount).view(size))
                self._add(image, chunk, used, 1.0)
        return image

    # -- tables: the weights of each tensor, (n_features, width) or (1, width) where tied -------------

    def _slices(self) -> list[tuple[int, int, int, int]]:
        """First weight, rows, stride and width of each tensor's table."""
        found = []
        for each in self.feed.tensors:
            rows = self.scorer.kinds[each.number]
            found.append((rows.first_weight, rows.n_weights // rows.stride, rows.stride, rows.width))
        return found

    def _tables(self, weights: np.ndarray) -> list[torch.Tensor]:
        flat = torch.as_tensor(np.ascontiguousarray(weights, np.float64), device=self.device)
        return [flat[a : a + n * s].view(n, s)[:, :w] for a, n, s, w in self._slices()]

    def _zeros(self) -> list[torch.Tensor]:
        return [torch.zeros(n, w, dtype=torch.float64, device=self.device) for _, n, _, w in self._slices()]

    def _vector(self, tables: list[torch.Tensor]) -> np.ndarray:
        result = np.zeros(self.n_weights)
        for (first, n, stride, width), table in zip(self._slices(), tables, strict=True):
            result[first : first + n * stride].reshape(n, stride)[:, :width] = table.cpu().numpy()
        return result

    # -- sums ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def at_weights(
        self,
        weights: np.ndarray,
        scale: float,
        cost_scale: float = 0.0,
        gold_scale: float = 0.0,
        hard: bool = False,
    ) -> Evaluation:
        tables, image = self._tables(weights), self._zeros()
        entropy, cost, log_total, gold = (np.zeros(self.n_examples) for _ in range(4))
        for chunk in self.chunks:
            potentials = self._potentials(chunk, tables, scale, cost_scale)
            true = self._of_truth(chunk, potentials)
            if gold_scale:
                potentials = _towards_truth(chunk, potentials, gold_scale)
            batch = ScoreBatch(self.feed.layout, potentials, chunk.lengths)
            values, *counts = compute(batch, "best" if hard else "sums")
            self._add(image, chunk, counts, -1.0)
            at = chunk.examples
            log_total[at], gold[at] = values.cpu().numpy(), true.cpu().numpy()
            if not hard:
                entropy[at] = (values - _inner(potentials, counts)).cpu().numpy()
            if self.cost.size:
                cost[at] = self._expected_cost(chunk, counts).cpu().numpy()
        v = self._vector([a + b for a, b in zip(image, self.gold_image, strict=True)])
        return Evaluation(v, entropy, cost, log_total, gold)

    def primal(self, weights: np.ndarray) -> float:
        """P(w), from the same sums."""
        beta = 1.0 if self.loss.is_hard else self.loss.beta
        point = self.at_weights(weights, beta, beta * self.loss.gamma, hard=self.loss.is_hard)
        loss = (point.log_total - point.gold) / beta
        return float(self.batch.example_weight @ loss) + self.penalty(weights)

    def inverse_of_gram(self, rows: np.ndarray, rest: np.ndarray) -> np.ndarray:
        there = torch.from_numpy(rows).to(self.device).double()
        return torch.linalg.inv(there.T @ there + torch.from_numpy(rest).to(self.device)).cpu().numpy()

    def _potentials(
        self, chunk: _Chunk, tables: list[torch.Tensor], scale: float, cost_scale: float
    ) -> tuple[torch.Tensor, ...]:
        result = []
        for each, size, fed, table, cost in zip(
            self.feed.tensors, chunk.sizes, chunk.fed, tables, chunk.cost, strict=True
        ):
            if fed is None:
                own = (scale * table).reshape(each.tail).expand(size)
            else:
                own = torch.zeros(
                    int(np.prod(size)) // each.n_entries,
                    each.n_entries,
                    dtype=torch.float64,
                    device=self.device,
                )
                found = scale * (fed.dense.double() @ table)
                if fed.column is None:
                    own.index_copy_(0, fed.place, found)
                else:
                    own[fed.place[:, None], fed.column] = found
                own = own.view(size)
            result.append(own if cost is None or not cost_scale else own + cost_scale * cost)
        return tuple(result)

    def _add(self, image: list[torch.Tensor], chunk: _Chunk, counts: list[torch.Tensor], sign: float) -> None:
        """Add sign · Σ_i weight_i (features of the counts)."""
        for each, fed, own, total in zip(self.feed.tensors, chunk.fed, counts, image, strict=True):
            if fed is None:
                total += sign * (own * as_first(chunk.weight, own)).sum(0).reshape(total.shape)
                continue
            flat = own.reshape(-1, each.n_entries)
            rows = flat[fed.place] if fed.column is None else flat[fed.place[:, None], fed.column]
            total += sign * (fed.dense.double().T @ (rows * fed.weight))

    def _of_truth(self, chunk: _Chunk, values: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Sums over the parts of the true labels, (n,)."""
        total = torch.zeros(len(chunk.examples), dtype=torch.float64, device=self.device)
        for own, (entry, example, amount) in zip(values, chunk.gold, strict=True):
            if entry.numel():
                total.index_add_(0, example, own.reshape(-1)[entry] * amount)
        return total

    def _expected_cost(self, chunk: _Chunk, counts: list[torch.Tensor]) -> torch.Tensor:
        """Σ_r (counts_r − those of the true label) cost_r, (n,)."""
        zero = torch.zeros((), dtype=torch.float64, device=self.device)
        costs = tuple(
            zero.expand(size) if cost is None else cost
            for cost, size in zip(chunk.cost, chunk.sizes, strict=True)
        )
        return _inner(costs, counts) - self._of_truth(chunk, costs)


def _towards_truth(
    chunk: _Chunk, potentials: tuple[torch.Tensor, ...], amount: float
) -> tuple[torch.Tensor, ...]:
    """Parts of the true labels raised by half the amount, others lowered, tied ones as they are: `add_gold_rows`."""
    result = []
    for own, fed, (entry, _, times) in zip(potentials, chunk.fed, chunk.gold, strict=True):
        if fed is not None:
            lowered = own.reshape(-1) - 0.5 * amount
            own = lowered.index_add_(0, entry, amount * times).view(own.shape)
        result.append(own)
    return tuple(result)


def _inner(one: tuple[torch.Tensor, ...], other: list[torch.Tensor]) -> torch.Tensor:
    """Σ over all entries of each example, (n,)."""
    total = torch.zeros(len(other[0]), dtype=torch.float64, device=other[0].device)
    for a, b in zip(one, other, strict=True):
        total += (a * b).flatten(1).sum(1) if b.ndim > 1 else a * b
    return total


# -- chunks -------------------------------------------------------------------------------------------


def _cut(problem: Problem, feed: Feed, order: np.ndarray) -> list[np.ndarray]:
    """Examples in the order of their lengths, as many at a time as fit."""
    widest = max([1, *(problem.scorer.kinds[each.number].dense.shape[1] for each in feed.fed)])
    found, first, lengths = [], 0, problem.lengths[order]
    while first < len(order):
        n = len(order) - first
        while n > 1 and _n_entries(feed, n, int(lengths[first + n - 1]), widest) > _MOST_ENTRIES:
            n = (n + 1) // 2
        found.append(order[first : first + n])
        first += n
    return found


def _n_entries(feed: Feed, n: int, longest: int, widest: int) -> int:
    return max(
        n * int(np.prod(feed.axes(each.name, longest))) * max(each.n_entries, widest) for each in feed.fed
    )


def _chunk(problem: Problem, feed: Feed, examples: np.ndarray, device: torch.device) -> _Chunk:
    lengths, shard = problem.lengths[examples], problem.shard(examples)
    longest, n, shapes = int(lengths.max()), len(examples), shard.scorer.shapes
    sizes = feed.sizes(n, longest)
    plan, places = feed.layout.arrange(sizes, lengths), feed.row_positions(shapes, longest)
    weight = torch.as_tensor(shard.example_weight, device=device)
    fed: list[_Fed | None] = []
    for each in feed.tensors:
        if each.tied:
            fed.append(None)
            continue
        runs = shard.scorer.runs[shard.scorer.runs[:, 0] == each.number]
        rows = ranges(runs[:, 1], runs[:, 2])
        example = np.repeat(np.arange(n), runs[:, 2])
        fed.append(
            _Fed(
                torch.from_numpy(problem.scorer.kinds[each.number].dense[rows]).to(device),
                torch.from_numpy(places[each.name]).to(device),
                None if each.is_whole else torch.from_numpy(each.column).to(device),
                weight[torch.from_numpy(example).to(device)][:, None],
            )
        )
    cost: list[torch.Tensor | None] = [None] * len(sizes)
    if shard.cost.size:
        spread = plan.to_tensors(shard.cost.astype(np.float64), sizes)
        cost = [torch.from_numpy(own).to(device) if own.any() else None for own in spread]
    gold = _true_entries(shard, plan, device)
    return _Chunk(examples, sizes, torch.from_numpy(lengths).to(device), fed, cost, gold, weight)


def _true_entries(
    shard: Problem, plan: Any, device: torch.device
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """For every tensor the entries of the true labels, whose they are, and how often."""
    part, example = shard.gold_indices(), block_of(shard.gold.ptr)
    amount = shard.gold.amount if shard.gold.amount.size else np.ones(len(part))
    found, n_parts = [], int(plan.part_ptr[-1])
    for places in plan.maps:
        own, entry = places.pairs()
        entry_of = np.full(n_parts, -1)
        entry_of[own] = entry
        mine = entry_of[part] >= 0
        arrays = entry_of[part[mine]], example[mine], amount[mine].astype(np.float64)
        found.append(tuple(torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays))
    return found  # type: ignore[return-value]
