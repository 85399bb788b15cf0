"""Few and long chains, parallel in time, by PyTorch's own operations on any device.

A sequence is cut into K blocks of C positions. With X = exp(E − max E) and e_t = exp(s_t − max s_t),

1. every block becomes its matrix M(i, j), the sum of all that leads from label i before the block to label j at its
   end: C products of matrices, for all blocks at once. Rows are divided by their sums, whose logarithms are kept;
2. a tree of products of these matrices, and its way back, gives the sums at all ends of blocks from the left (φ) and
   from the right (β), on logarithms;
3. every block goes forward from its φ and back from its β, all blocks at once: marginals.

The value needs steps 1 and 2. Numbers are in double precision. As in compiled code (`structures/scaling.py`), what
underflows is less than 1e-22 of all labellings, or it is noticed, and the CPU computes the batch on logarithms.
Best and random labellings are `long_paths.py`.
"""

from __future__ import annotations

from typing import Any

import torch

from partwise.structures.scaling import INVERSE_LIFT, LIFT, SMALLEST
from partwise.torch.gpu.chain import masked
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.sums import as_first, host_answer

SHORTEST = 8192  # Positions from which a few hundred launches take less time than one position after another.
MOST_WORK = (
    2**23
)  # B·L³: from there on a product of matrices for each position takes longer than a kernel's step.
_OFTEN = 8  # Steps between two divisions by sums of rows.
# No number vanishes within so many steps, two factors each, if it and all factors are above this: 1e-16^17 = 1e-272.
_TINY, _FAR = 1e-16, 36.0


def fits(batch: ScoreBatch) -> bool:
    """Whether sequences are few and long."""
    n, length, n_labels = batch.scores[0].shape
    return length >= SHORTEST and 1 <= n * n_labels**3 <= MOST_WORK


class Blocks:
    """The scores of a batch in blocks.

    Attributes
    ----------
    size, n_blocks : int
        C and K.
    valid : bool tensor (B, K, C), or None if all positions are in use
    """

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        node, edge = masked(batch, *scores)
        self.n, self.length, self.n_labels = node.shape
        # Matrices of all blocks take about as much memory as the scores. Whole blocks need no mask.
        least = max(32, 2 * self.n_labels)
        self.size = next((size for size in range(least, 2 * least) if not self.length % size), least)
        self.n_blocks = -(-self.length // self.size)
        self.per_position, self.edge = edge.ndim == 4, edge
        padding = self.n_blocks * self.size - self.length
        self.node = torch.nn.functional.pad(node, (0, 0, 0, padding)) if padding else node
        self.node = self.node.reshape(self.n, self.n_blocks, self.size, self.n_labels)
        self.valid = self._valid(batch.lengths) if padding or batch.lengths is not None else None
        self.shift = _finite(self.node.amax(3).double())
        if not self.per_position:
            own = edge[:1] if edge.stride(0) == 0 else edge
            top = _finite(own.double().amax((1, 2), keepdim=True))
            self.table, self.edge_shift = (own.double() - top).exp(), top.flatten().expand(self.n)

    def _valid(self, lengths: torch.Tensor | None) -> torch.Tensor:
        position = torch.arange(self.n_blocks * self.size, device=self.node.device)
        ends = self.length if lengths is None else lengths[:, None]
        return (position < ends).expand(self.n, -1).reshape(self.n, self.n_blocks, self.size)

    def factors(self, part: slice = slice(None)) -> torch.Tensor:
        """e_t of some blocks, by step: float64 (C, B, K, L)."""
        node = self.node[:, part].permute(2, 0, 1, 3)
        e = torch.empty(node.shape, dtype=torch.float64, device=node.device).copy_(node)
        return e.sub_(self.shift[:, part].permute(2, 0, 1)[..., None]).exp_()

    def edges_at(self, step: int, part: slice = slice(None)) -> torch.Tensor:
        """Scores of the edges into the positions of a step, (B, K, L, L); those of a first position are not used."""
        position = torch.arange(self.n_blocks, device=self.edge.device)[part] * self.size + step - 1
        return self.edge.index_select(1, position.clamp(0, self.length - 2))

    def into(self, step: int, rows: torch.Tensor, part: slice = slice(None), back: bool = False) -> Any:
        """`rows` (B, K, R, L) times X of a step, or its transpose."""
        table = self.table_at(step, part) if self.per_position else self.table
        if back:
            table = table.mT
        if self.per_position:
            return rows @ table
        return (rows.reshape(self.n, -1, self.n_labels) @ table).view(rows.shape)

    def table_at(self, step: int, part: slice = slice(None)) -> torch.Tensor:
        """X of the positions of a step, (B, K, L, L), where each position has its own."""
        scores = self.edges_at(step, part).double()
        return (scores - _finite(scores.amax((2, 3), keepdim=True))).exp()

    def total_shift(self) -> torch.Tensor:
        """The logarithms of all that was divided out of the scores, (B,)."""
        valid = torch.ones_like(self.shift, dtype=torch.bool) if self.valid is None else self.valid
        total = torch.where(valid, self.shift, 0.0).sum((1, 2))
        n_edges = valid.sum((1, 2)) - 1
        if not self.per_position:
            return total + n_edges * self.edge_shift
        used = torch.arange(self.length - 1, device=total.device) < n_edges[:, None]
        return total + torch.where(used, _finite(self.edge.amax((2, 3)).double()), 0.0).sum(1)

    def keep(self, step: int, new: torch.Tensor, old: Any, part: slice = slice(None)) -> torch.Tensor:
        """`new` (B, K, …), or `old` behind the end of a sequence."""
        if self.valid is None:
            return new
        valid = self.valid[:, part, step]
        return torch.where(valid.reshape(*valid.shape, *([1] * (new.ndim - 2))), new, old)

    def is_spread(self) -> torch.Tensor:
        """Whether some score is so far below the largest beside it that its factor is tiny, (B,)."""
        edge = self.edge[:1] if self.edge.stride(0) == 0 else self.edge
        nodes, edges = (_range(each, axes) > _FAR for each, axes in ((self.node, 3), (edge, (-2, -1))))
        return nodes.flatten(1).any(1) | edges.reshape(len(edges), -1).any(1)


class LongChainSums:
    """Sums over the label sequences of a batch."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        self.batch = batch._replace(scores=scores)
        self.blocks = Blocks(batch, scores)

    def forward(self) -> torch.Tensor:
        """Values (B,). Keeps the sums at the ends of blocks for the backward pass."""
        logs, self.lost = block_matrices(self.blocks)
        total, self.left, self.right = scan(logs, summed, torch.logsumexp)
        self.lost = self.lost | ~(total > -torch.inf)
        return (total + self.blocks.total_shift()).to(self.blocks.node.dtype)

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Whether labels may have underflowed. Waits for the device."""
        return bool(self.lost.any())

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Counts of nodes and edges, times `weight` (B,)."""
        blocks, (node, edge) = self.blocks, self.batch.scores
        n, L = blocks.n, blocks.n_labels
        node_count = torch.zeros_like(blocks.node)
        if blocks.per_position:
            edge_count = edge.new_zeros(n, blocks.length - 1, L, L)
        else:
            edge_count = edge.new_zeros(n, L, L, dtype=torch.float64)
        half = -(-blocks.n_blocks // 2)  # Half of the blocks at a time bounds the memory.
        parts = [slice(0, half), slice(half, blocks.n_blocks)][: 1 + (half < blocks.n_blocks)]
        lost = torch.stack([self._inside(part, node_count[:, part], edge_count) for part in parts])
        if bool(lost.any()):
            _, *counts = host_answer(self.batch, "sums")
        else:
            edge_count = edge_count if blocks.per_position else edge_count * blocks.table
            counts = [node_count.view(n, -1, L)[:, : blocks.length], edge_count.to(node.dtype)]
        counts = [each * as_first(weight, each) for each in counts]
        return [counts[0], counts[1].sum(0) if together else counts[1]]

    def _inside(self, part: slice, node_count: torch.Tensor, edge_count: torch.Tensor) -> torch.Tensor:
        """Write the counts of some blocks; returns whether labels may have underflowed.

        With the forward rows f, and q_t = e_t b_t / c_t, pairs have the probabilities f_{t−1}(i) X(i, j) q_t(j).
        """
        blocks = self.blocks
        q = blocks.factors(part)
        rows, sums = forward_rows(blocks, q, normal(self.left[:, part]), part)
        b = normal(self.right[:, part])
        b = b * (LIFT / (rows[-1] * b).sum(2, keepdim=True))
        for step in range(blocks.size - 1, -1, -1):
            if step in sums:
                b = b / sums[step]
            q[step].mul_(b)
            if blocks.valid is not None:
                q[step].masked_fill_(~blocks.valid[:, part, step, None], 0.0)
            if step:
                b = blocks.keep(
                    step, blocks.into(step, q[step, :, :, None], part, back=True)[:, :, 0], b, part
                )
        self._add_counts(part, rows[:-1], q.mul_(INVERSE_LIFT), node_count, edge_count)
        valid = 1.0 if blocks.valid is None else blocks.valid[:, part].double()
        near = 1e-9 if node_count.dtype == torch.float64 else 1e-4
        least = torch.stack([each.amin() for each in sums.values()]).amin()
        return ~((node_count.double().sum(3) - valid).abs() < near).all() | ~(least > SMALLEST)

    def _add_counts(
        self, part: slice, before: torch.Tensor, q: torch.Tensor, node_count: torch.Tensor, edge_count: torch.Tensor
    ) -> None:  # fmt: skip
        """Counts from f_{t−1} and q_t. X is a factor of all pairs, unless every position has its own."""
        blocks, is_first = self.blocks, part.start == 0
        if is_first:
            node_count[:, 0, 0] = q[0, :, 0]  # no edge leads to the first position
            first, q[0, :, 0] = q[0, :, 0].clone(), 0.0
        if blocks.per_position:
            for step in range(blocks.size):
                self._add_pairs(step, part, before[step], q[step], node_count, edge_count)
        else:
            edge_count += torch.einsum("cbki,cbkj->bij", before, q)
            sums = blocks.into(0, before.transpose(0, 1).reshape(blocks.n, -1, 1, blocks.n_labels))
            sums = sums.view(blocks.n, blocks.size, -1, blocks.n_labels)
            node_count.copy_(q.permute(1, 2, 0, 3).mul_(sums.transpose(1, 2)))
        if is_first:
            node_count[:, 0, 0] = first

    def _add_pairs(
        self, step: int, part: slice, before: torch.Tensor, q: torch.Tensor, node_count: Any, edge_count: Any
    ) -> None:  # fmt: skip
        """The counts of one step, where every position has its own edges."""
        blocks = self.blocks
        found = before[..., None] * blocks.table_at(step, part) * q[:, :, None]
        node_count[:, :, step] = found.sum(2)
        skipped = int(step == 0 and part.start == 0)
        here = edge_count[:, (part.start + skipped) * blocks.size + step - 1 :: blocks.size]
        here = here[:, : found.shape[1] - skipped]
        here.copy_(found[:, skipped : skipped + here.shape[1]])


def block_matrices(blocks: Blocks) -> tuple[torch.Tensor, torch.Tensor]:
    """log M of all blocks, (B, K, L, L), and whether a label may have underflowed, (B,).

    The rows of a first block are all equal: nothing is before it.
    """
    e, L = blocks.factors(), blocks.n_labels
    same = torch.eye(L, dtype=e.dtype, device=e.device)
    table = blocks.table_at(0) if blocks.per_position else blocks.table[:, None]
    table = table.expand(blocks.n, blocks.n_blocks, L, L).clone()
    table[:, 0] = 1.0
    matrices = blocks.keep(0, table.mul_(e[0][:, :, None]), same)
    faint, logs = blocks.is_spread(), torch.zeros((), dtype=e.dtype, device=e.device)
    lost = died = torch.zeros_like(faint)
    for step in range(blocks.size):
        if step:
            new = blocks.into(step, matrices).mul_(e[step][:, :, None])
            matrices = blocks.keep(step, new, matrices)
        if step % _OFTEN == 0 or step == blocks.size - 1:
            total = matrices.sum(3)
            lost = lost | ((total > 0.0) & (total < SMALLEST)).flatten(1).any(1)
            faint = faint | ((matrices > 0.0) & (matrices < _TINY)).flatten(1).any(1)
            died = died | (total == 0.0).flatten(1).any(1)
            logs = logs + total.log()
            matrices.div_(total.masked_fill_(total == 0.0, 1.0)[..., None])
    # A row without any label left is right, unless something has underflowed.
    return matrices.log_().add_(logs[..., None]), lost | (died & faint)


def forward_rows(
    blocks: Blocks, e: torch.Tensor, start: torch.Tensor, part: slice
) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
    """Forward rows of some blocks, (C + 1, B, K, L), those before the blocks first, and the sums by which rows of some
    steps were divided."""
    rows, sums = e.new_empty(len(e) + 1, *start.shape), {}
    rows[0] = start
    for step in range(blocks.size):
        new = blocks.into(step, rows[step, :, :, None], part)[:, :, 0]
        if step == 0 and part.start == 0:
            new[:, 0] = 1.0
        now = rows[step + 1]
        if blocks.valid is None:
            torch.mul(new, e[step], out=now)
        else:
            now.copy_(blocks.keep(step, new * e[step], rows[step], part))
        if step % _OFTEN == 0 or step == blocks.size - 1:
            sums[step] = now.sum(2, keepdim=True)
            now.div_(sums[step])
    return rows, sums


# -- the tree ------------------------------------------------------------------------------------------


def scan(logs: torch.Tensor, product: Any, join: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Totals (B,), and sums over all that is left and right of every block, (B, K, L), up to a constant each.

    Parameters
    ----------
    logs : Tensor (B, K, L, L)
    product : callable
        Of two tensors of matrices, pair by pair.
    join : callable
        Sum over an axis: `logsumexp`, or `amax`.
    """
    levels = [logs]
    while (n := levels[-1].shape[1]) > 1:
        now = levels[-1]
        pairs = product(now[:, 0 : n - 1 : 2], now[:, 1::2])
        levels.append(torch.cat([pairs, now[:, -1:]], 1) if n % 2 else pairs)
    root = levels.pop()
    total = join(root[:, 0, 0], 1)
    left = right = torch.zeros_like(root[:, :, 0])
    for now in reversed(levels):
        n = now.shape[1]
        even, odd, half = now[:, 0 : n - 1 : 2], now[:, 1::2], n // 2
        after_even = _less(join(left[:, :half, :, None] + even, 2))
        before_odd = _less(join(odd + right[:, :half, None], 3))
        left = _woven(left[:, :half], after_even, left[:, half:])
        right = _woven(before_odd, right[:, :half], right[:, half:])
    return total, left, right


def _woven(even: torch.Tensor, odd: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    """The rows of the first two in turn, then the rest."""
    both = torch.stack([even, odd], 2).flatten(1, 2)
    return torch.cat([both, rest], 1) if rest.shape[1] else both


def summed(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """log(exp(one) @ exp(other)), with a scale for every row."""
    top = _finite(other.amax(3, keepdim=True))
    weight = one + top.mT
    most = _finite(weight.amax(3, keepdim=True))
    return ((weight - most).exp() @ (other - top).exp()).log() + most


def normal(logs: torch.Tensor) -> torch.Tensor:
    """Exponentials whose sum is one."""
    return torch.softmax(logs, -1)


def _less(logs: torch.Tensor) -> torch.Tensor:
    return logs - _finite(logs.amax(-1, keepdim=True))


def _finite(values: torch.Tensor) -> torch.Tensor:
    return values.masked_fill(values == -torch.inf, 0.0)


def _range(values: torch.Tensor, axes: Any) -> torch.Tensor:
    """The largest value minus the smallest that is not −inf."""
    low = torch.where(values == -torch.inf, torch.inf, values).amin(axes)
    return _finite(values.amax(axes)) - low


def best(batch: ScoreBatch) -> list[torch.Tensor]:
    """Largest scores and indicators of the parts of a best labelling."""
    from partwise.torch.gpu import long_paths

    return long_paths.best(batch)


def best_labels(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """A best labelling, int64 (B, T) with −1 in the padding, and its score (B,)."""
    from partwise.torch.gpu import long_paths

    return long_paths.best_labels(batch)


def drawn(
    batch: ScoreBatch, n_samples: int, generator: torch.Generator
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Random labellings, n_samples times (B, T) with −1 in the padding, and log-partitions (B,)."""
    from partwise.torch.gpu import long_paths

    return long_paths.drawn(batch, n_samples, generator)


SUMS = LongChainSums
