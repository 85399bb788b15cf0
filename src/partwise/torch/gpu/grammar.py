"""Grammars on a GPU: two launches per width of spans forward, two backward."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import triton

from partwise.structures.grammar.grammar import Grammar
from partwise.torch.gpu import inside_kernel, outside_kernel
from partwise.torch.gpu.launch import RepeatedLaunch
from partwise.torch.layouts.base import ScoreBatch

MOST_WEIGHTS = 1 << 22  # Entries of a table of rules by [left, right, parent]: bounds its memory to 32 MiB.
_MOST_NUMBERS = 1 << 26  # Numbers of the matrices M of many spans at a time: bounds their memory to 512 MiB.
# Expected counts of raised rules that do not change the result in each precision.
_NEGLIGIBLE = {torch.float32: 1e-7, torch.float64: 1e-13}


class _Tables(NamedTuple):
    """Symbols of the columns. For binary and unary rules: the index of each rule in a table of weights, and the rule of
    each entry, −1 for none. All int32."""

    parents: torch.Tensor
    words: torch.Tensor
    binary: tuple[torch.Tensor, torch.Tensor]
    unary: tuple[torch.Tensor, torch.Tensor]


@lru_cache(maxsize=16)
def _tables(structure: Grammar, device: torch.device) -> _Tables:
    N, P = structure.n_symbols, len(structure.binary_symbols)
    parent, left, right = structure.rules.T
    column = np.searchsorted(structure.binary_symbols, parent)
    symbols = structure.binary_symbols, structure.word_symbols
    unary = structure.unaries[:, 0] * N + structure.unaries[:, 1]

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values, np.int32)).to(device)

    def both(place: np.ndarray, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        rule = np.full(size, -1)
        rule[place] = np.arange(len(place))
        return tensor(place), tensor(rule)

    binary = (left * N + right) * padded(P) + column
    parents, words = map(tensor, symbols)
    return _Tables(parents, words, both(binary, N * N * padded(P)), both(unary, N * N))


@lru_cache(maxsize=16)
def _spans(length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """First words and widths − 1, int32, of all spans of two words or more, the narrowest first."""
    widths = np.repeat(np.arange(length, dtype=np.int32), length - np.arange(length))[length:]
    first = np.concatenate([np.arange(length - d, dtype=np.int32) for d in range(1, length + 1)])[
        : len(widths)
    ]
    return torch.from_numpy(first).to(device), torch.from_numpy(widths).to(device)


def padded(count: int) -> int:
    """`count` padded to the size of a program's vectors."""
    return max(16, triton.next_power_of_2(count))


def fits(batch: ScoreBatch) -> bool:
    """Whether the kernels take this batch."""
    structure: Any = batch.layout.structure
    size = structure.n_symbols**2 * len(structure.binary_symbols)
    return batch.n_examples > 0 and batch.scores[0].shape[1] > 0 and 0 < size <= MOST_WEIGHTS


class _Weights:
    """exp(rule − largest rule of its example) as a dense table; possible rules are raised to a floor."""

    def __init__(self, scores: torch.Tensor, places: tuple[torch.Tensor, torch.Tensor], small: torch.Tensor):
        (self.place, rule), self.n_rules = places, scores.shape[1]
        n, size = len(scores), len(rule)
        self.lift = scores.amax(1).double().clamp(min=torch.finfo(torch.float64).min)
        self.table = scores.new_empty(n, size, dtype=torch.float64)
        self.stride = size if n > 1 else 0
        inside_kernel.weigh[(triton.cdiv(size, 1024), n)](
            scores, scores.stride(0), self.lift, rule, self.table, small, size, BLOCK=1024
        )

    def counts(self, table: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Fill `out` (B, R) from derivatives (B, size) by the weights. Returns counts (B,) of raised rules."""
        n_blocks = triton.cdiv(self.n_rules, 1024)
        doubt = table.new_empty(len(out), n_blocks)
        outside_kernel.rule_counts[(n_blocks, len(out))](
            table, table.stride(0), self.table, self.stride, self.place, out, out.stride(0), doubt, self.n_rules,
            BLOCK=1024,
        )  # fmt: skip
        return doubt.sum(1)


class _Outside:
    """The workspace of the backward pass: shares of cells as left and right parts, sums of rules, counts, doubt."""

    def __init__(self, sums: GrammarSums):
        n, T, N, chart = sums.n, sums.length, sums.N, sums.chart
        shares = chart.new_zeros(2 if sums.unary is None else 3, n, T, T, N)
        self.left, self.right, self.above = (
            shares[0],
            shares[1],
            shares[-1],
        )  # `above` is used with unary rules only
        self.doubt = chart.new_zeros(n, T, T)
        self.parents = chart.new_empty(n, T * (T - 1) // 2, sums.columns)
        self.matrices = chart.new_empty(n * (T - 1) * N * N)
        self.word_count = torch.zeros_like(sums.word)
        self.span_count = None if sums.span is None else torch.zeros_like(sums.span)


class GrammarSums:
    """Sums over derivations."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        structure: Any = batch.layout.structure
        word, rule = scores[:2]
        self.word, self.lengths = word.contiguous(), batch.lengths
        self.span = scores[2].contiguous() if len(scores) > 2 else None
        self.n, self.length, self.N = word.shape
        self.n_rules, self.root = rule.shape[1], structure.root
        self.tables = _tables(structure, word.device)
        self.P, n_binary = len(self.tables.parents), len(structure.rules)
        self.columns = padded(self.P)
        self.small = torch.zeros(1, dtype=torch.int32, device=word.device)
        own = (rule[:1] if rule.stride(0) == 0 else rule).contiguous()
        self.binary = _Weights(own[:, :n_binary], self.tables.binary, self.small)
        self.unary = None
        if len(structure.unaries):
            self.unary = _Weights(own[:, n_binary:], self.tables.unary, self.small)
        self.common = {"RAGGED": batch.lengths is not None}
        self.spans = {"SPANS": self.span is not None, **self.common}
        self.all = padded(self.N)
        self.tile = min(64, self.all)
        self.n_tiles = triton.cdiv(self.N, self.tile) ** 2
        self.all_spans = _spans(self.length, word.device)
        self.word_columns = padded(len(self.tables.words))

    def forward(self) -> torch.Tensor:
        """Values (B,). Keeps the charts for the backward pass."""
        n, T, N, tables = self.n, self.length, self.N, self.tables
        levels = 1 if self.unary is None else 2  # cells, and what is below unary rules
        charts = self.word.new_zeros(levels, n, T, T, N, dtype=torch.float64)
        scales = charts.new_empty(levels + 1, n, T, T)
        self.chart, self.below, self.scale, self.lower = charts[0], charts[-1], scales[0], scales[levels - 1]
        self.tops = scales[levels]
        # Matrices M of all spans are kept for the backward pass if they fit, else those of one width at a time.
        n_spans, start = T * (T - 1) // 2, 0
        self.kept = n * n_spans * N * N <= _MOST_NUMBERS
        self.matrices = charts.new_empty(n * (n_spans if self.kept else T - 1) * N * N)
        inside_kernel.words[(n, T)](
            self.word, tables.words, self.lengths, self.below, self.lower, self.small, T, N, len(tables.words),
            COLUMNS=self.word_columns, **self.common,
        )  # fmt: skip
        self._unaries(0)
        pairs = self._pairs()
        parents = RepeatedLaunch(inside_kernel.parents, ROWS=16, TILE=128, COLUMNS=self.columns, **self.spans)
        for d in range(1, T):
            place = (n_spans, start) if self.kept else (T - d, 0)
            pairs(
                (T - d, n, self.n_tiles), *self.all_spans, start, self.lengths, self.chart, self.scale,
                self.tops, self.matrices, self.small, *place, T, N,
            )  # fmt: skip
            parents(
                (n, triton.cdiv(T - d, 16)), self.matrices, self.binary.table, self.binary.stride,
                tables.parents, self.span, self.tops, self.lengths, self.below, self.lower, self.small, *place,
                d, T, N, N * N, self.P,
            )  # fmt: skip
            self._unaries(d)
            start += T - d
        value = self.word.new_empty(n)
        inside_kernel.totals[(n,)](
            self.lengths, self.chart, self.scale, self.binary.lift, int(self.binary.stride > 0), value,
            self.root, T, N, **self.common,
        )  # fmt: skip
        return value

    def _pairs(self) -> RepeatedLaunch:
        return RepeatedLaunch(inside_kernel.pairs, SPLITS=16, TILE=self.tile, num_stages=2, **self.common)

    def _unaries(self, d: int) -> None:
        if self.unary is not None:
            inside_kernel.unaries[(self.length - d, self.n)](
                self.below, self.lower, self.unary.table, self.unary.stride, self.unary.lift, self.span,
                self.lengths, self.chart, self.scale, self.small, d, self.length, self.N,
                TILE=self.all, **self.spans,
            )  # fmt: skip

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Counts of words, rules and spans, times `weight` (B,). Sets `doubt` (B,), the counts of raised rules."""
        n, T, N = self.n, self.length, self.N
        outside = _Outside(self)
        outside_kernel.roots[(n,)](
            self.lengths,
            self.chart,
            value,
            weight,
            weight.stride(0),
            outside.left,
            self.root,
            T,
            N,
            **self.common,
        )
        self._shares(outside)
        outside_kernel.word_counts[(n, T)](
            self.tables.words, self.lengths, self.below, outside.left, outside.right, outside.word_count,
            outside.doubt, T, N, len(self.tables.words), COLUMNS=self.word_columns, **self.common,
        )  # fmt: skip
        n_binary, rules = self.binary.n_rules, self.word.new_empty(n, self.n_rules)
        self.doubt = outside.doubt.flatten(1).sum(1) + self._binary_counts(
            outside.parents, rules[:, :n_binary]
        )
        if self.unary is not None:
            table = torch.bmm(outside.above.view(n, T * T, N).transpose(1, 2), self.below.view(n, T * T, N))
            self.doubt += self.unary.counts(table.view(n, N * N), rules[:, n_binary:])
        counts = [outside.word_count, rules.sum(0) if together else rules]
        return counts if outside.span_count is None else [*counts, outside.span_count]

    def _shares(self, outside: _Outside) -> None:
        """Derivatives by the cells, from the widest span down."""
        n, T, N = self.n, self.length, self.N
        n_tiles, start = triton.cdiv(N * N, 64), T * (T - 1) // 2
        per_program = triton.cdiv(n_tiles, 8)
        pair_shares = RepeatedLaunch(
            outside_kernel.pair_shares,
            ROWS=16,
            TILE=64,
            TILES=per_program,
            COLUMNS=self.columns,
            **self.spans,
        )
        children = RepeatedLaunch(
            outside_kernel.children, SPLITS=16, TILE=self.tile, num_stages=1, **self.common
        )
        self._unary_shares(outside, T - 1)
        for d in range(T - 1, 0, -1):
            start -= T - d
            pair_shares(
                (n, triton.cdiv(T - d, 16), triton.cdiv(n_tiles, per_program)), self.binary.table, self.binary.stride,
                self.tables.parents, self.span, self.tops, self.lengths, self.below, self.lower, outside.left,
                outside.right, outside.matrices, outside.parents, outside.span_count, outside.doubt, d, start,
                outside.parents.shape[1], T, N, N * N, self.P,
            )  # fmt: skip
            children(
                (T - d, n), outside.matrices, self.lengths, self.chart, self.scale, self.tops, outside.left,
                outside.right, outside.doubt, self.small, d, T, N,
            )  # fmt: skip
            self._unary_shares(outside, d - 1)

    def _unary_shares(self, outside: _Outside, d: int) -> None:
        if self.unary is not None:
            outside_kernel.unary_shares[(self.length - d, self.n)](
                self.below, self.lower, self.unary.table, self.unary.stride, self.unary.lift, self.span,
                self.lengths, self.chart, self.scale, outside.left, outside.right, outside.above, outside.span_count,
                outside.doubt, d, self.length, self.N, TILE=self.all, **self.spans,
            )  # fmt: skip

    def _binary_counts(self, parent_share: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Fill `out` (B, R) from Σ M γ over all spans. Returns counts (B,) of raised rules."""
        n, N = self.n, self.N
        n_spans = parent_share.shape[1]
        if self.kept:
            table = torch.bmm(self.matrices.view(n, n_spans, N * N).transpose(1, 2), parent_share)
            return self.binary.counts(table.view(n, -1), out)
        step = max(1, _MOST_NUMBERS // (n_spans * N * N))
        matrices, found = parent_share.new_empty(min(step, n), n_spans, N * N), []
        for begin in range(0, n, step):
            end = min(begin + step, n)
            lengths = None if self.lengths is None else self.lengths[begin:]
            self._pairs()(
                (n_spans, end - begin, self.n_tiles), *self.all_spans, 0, lengths, self.chart[begin:],
                self.scale[begin:], self.tops[begin:], matrices, self.small, n_spans, 0, self.length, N,
            )  # fmt: skip
            found.append(torch.bmm(matrices[: end - begin].transpose(1, 2), parent_share[begin:end]))
        return self.binary.counts(torch.cat(found).view(n, -1), out)

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Whether raised rules change the result. Waits for the device."""
        if (self.word.is_cuda and torch.cuda.is_current_stream_capturing()) or not bool(self.small):
            return False
        self.backward(value, torch.ones_like(value))
        return bool((self.doubt > _NEGLIGIBLE[self.word.dtype]).any())


SUMS = GrammarSums
