"""Grammars on a GPU: two launches a width of spans forward, two backward; what the kernels are given."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import triton

from partwise.structures.grammar.grammar import Grammar
from partwise.torch.kernels import inside_kernel, outside_kernel
from partwise.torch.layouts.base import Batch

MOST_WEIGHTS = 1 << 22  # of a table of rules by [left, right, parent]
_ROOM = 1 << 26  # numbers that matrices M of many spans may take at a time
_NEGLIGIBLE = {torch.float32: 1e-7, torch.float64: 1e-13}
_FLOOR = inside_kernel.FLOOR.value


class _Tables(NamedTuple):
    """Symbols of the columns, int32, and where rules lie in the tables of weights, int64."""

    parents: torch.Tensor
    words: torch.Tensor
    binary: torch.Tensor
    unary: torch.Tensor


@lru_cache(maxsize=16)
def _tables(structure: Grammar, device: torch.device) -> _Tables:
    N, P = structure.n_symbols, len(structure.binary_symbols)
    parent, left, right = structure.rules.T
    column = np.searchsorted(structure.binary_symbols, parent)
    symbols = [np.asarray(each, np.int32) for each in (structure.binary_symbols, structure.word_symbols)]
    places = [(left * N + right) * P + column, structure.unaries[:, 0] * N + structure.unaries[:, 1]]
    return _Tables(*(torch.from_numpy(each).to(device) for each in (*symbols, *places)))


@lru_cache(maxsize=16)
def _spans(length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """First words and widths less one, int32, of all spans of two words or more, the narrowest first."""
    widths = np.repeat(np.arange(length, dtype=np.int32), length - np.arange(length))[length:]
    first = np.concatenate([np.arange(length - d, dtype=np.int32) for d in range(1, length + 1)])[: len(widths)]
    return torch.from_numpy(first).to(device), torch.from_numpy(widths).to(device)


def fits(batch: Batch) -> bool:
    """Whether the kernels take this batch."""
    structure: Any = batch.layout.structure
    size = structure.n_symbols**2 * len(structure.binary_symbols)
    return batch.n_examples > 0 and batch.scores[0].shape[1] > 0 and 0 < size <= MOST_WEIGHTS


class _Weights:
    """exp( rule − the largest of its example ), at least the floor where a rule is possible, and as a dense table."""

    def __init__(self, scores: torch.Tensor, place: torch.Tensor, size: int):
        self.lift = scores.amax(1).clamp(min=torch.finfo(torch.float64).min)
        weights = (scores - self.lift[:, None]).exp().clamp(min=_FLOOR)
        self.weights = torch.where(scores > -torch.inf, weights, torch.zeros_like(weights))
        self.table = scores.new_zeros(len(scores), size)
        self.table.index_copy_(1, place, self.weights)
        self.stride = size if len(scores) > 1 else 0
        self.is_small = self.weights == _FLOOR


class Given:
    """Scores, weights of rules and charts: what all launches share."""

    def __init__(self, batch: Batch, scores: tuple[torch.Tensor, ...]):
        structure: Any = batch.layout.structure
        word, rule = scores[:2]
        self.word, self.lengths = word.contiguous(), batch.lengths
        self.span = scores[2].contiguous() if len(scores) > 2 else None
        self.n, self.length, self.N = word.shape
        self.n_rules, self.root = rule.shape[1], structure.root
        self.tables = _tables(structure, word.device)
        self.P, n_binary = len(self.tables.parents), len(self.tables.binary)
        own = (rule[:1] if rule.stride(0) == 0 else rule).double()
        self.binary = _Weights(own[:, :n_binary], self.tables.binary, self.N**2 * self.P)
        self.small = self.binary.is_small.any().int().reshape(1)
        self.unary = None
        if len(structure.unaries):
            self.unary = _Weights(own[:, n_binary:], self.tables.unary, self.N**2)
            self.small += self.unary.is_small.any()
        self.common = {"RAGGED": batch.lengths is not None}
        self.spans = {"SPANS": self.span is not None, **self.common}
        self.all = max(16, triton.next_power_of_2(self.N))
        self.tile = min(64, self.all)
        self.columns = max(16, triton.next_power_of_2(self.P))
        self.word_columns = triton.next_power_of_2(len(self.tables.words))

    def forward(self) -> torch.Tensor:
        """Values (B,); fills the charts."""
        n, T, N, tables = self.n, self.length, self.N, self.tables
        levels = 1 if self.unary is None else 2  # cells, and what is below unary rules
        charts = self.word.new_zeros(levels, n, T, T, N, dtype=torch.float64)
        scales = charts.new_empty(levels + 1, n, T, T)
        self.chart, self.below, self.scale, self.lower = charts[0], charts[-1], scales[0], scales[levels - 1]
        self.tops = scales[levels]
        matrices, start = charts.new_empty(n * (T - 1) * N * N), 0
        inside_kernel.words[(n, T)](
            self.word, tables.words, self.lengths, self.below, self.lower, self.small, T, N, len(tables.words),
            COLUMNS=self.word_columns, **self.common,
        )  # fmt: skip
        self._unaries(0)
        for d in range(1, T):
            self._pairs(0, n, start, T - d, matrices)
            inside_kernel.parents[(n, triton.cdiv(T - d, 16))](
                matrices, self.binary.table, self.binary.stride, tables.parents, self.span, self.tops,
                self.lengths, self.below, self.lower, self.small, d, T, N, self.P,
                ROWS=16, TILE=64, COLUMNS=self.columns, **self.spans,
            )  # fmt: skip
            self._unaries(d)
            start += T - d
        value = self.word.new_empty(n)
        inside_kernel.totals[(n,)](
            self.lengths, self.chart, self.scale, self.binary.lift, int(self.binary.stride > 0), value,
            self.root, T, N, **self.common,
        )  # fmt: skip
        return value

    def _pairs(self, begin: int, end: int, start: int, count: int, out: torch.Tensor) -> None:
        """Matrices M of `count` spans from the span `start` on, of the examples `begin` … `end`."""
        lengths = None if self.lengths is None else self.lengths[begin:]
        first, widths = _spans(self.length, self.word.device)
        inside_kernel.pairs[(count, end - begin, triton.cdiv(self.N, self.tile) ** 2)](
            first, widths, start, lengths, self.chart[begin:], self.scale[begin:], self.tops[begin:], out,
            self.small, count, self.length, self.N, SPLITS=16, TILE=self.tile, **self.common,
        )  # fmt: skip

    def _unaries(self, d: int) -> None:
        if self.unary is not None:
            inside_kernel.unaries[(self.length - d, self.n)](
                self.below, self.lower, self.unary.table, self.unary.stride, self.unary.lift, self.span,
                self.lengths, self.chart, self.scale, self.small, d, self.length, self.N,
                TILE=self.all, **self.spans,
            )  # fmt: skip

    def backward(self, value: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        """Counts of words, rules and spans, times `weight` (B,); sets `doubt` (B,), counts of what was raised."""
        n, T, N, P = self.n, self.length, self.N, self.P
        shares = self.chart.new_zeros(2, n, T, T, N)
        left, right = shares[0], shares[1]
        n_spans = T * (T - 1) // 2
        parent_share = self.chart.new_empty(n, n_spans, P)
        doubt, above = self.chart.new_zeros(n, T, T), torch.zeros_like(self.chart) if self.unary else None
        word_count = torch.zeros_like(self.word)
        span_count = None if self.span is None else torch.zeros_like(self.span)
        matrices = self.chart.new_empty(n * (T - 1) * N * N)
        outside_kernel.roots[(n,)](
            self.lengths, self.chart, value, weight, weight.stride(0), left, self.root, T, N, **self.common
        )
        start = n_spans
        n_tiles = triton.cdiv(N * N, 64)
        per_program = triton.cdiv(n_tiles, 8)
        for d in range(T - 1, -1, -1):
            if self.unary is not None:
                outside_kernel.unary_shares[(T - d, n)](
                    self.below, self.lower, self.unary.table, self.unary.stride, self.unary.lift, self.span,
                    self.lengths, self.chart, self.scale, left, right, above, span_count, doubt, d, T, N,
                    TILE=self.all, **self.spans,
                )  # fmt: skip
            if d == 0:
                break
            start -= T - d
            outside_kernel.pair_shares[(n, triton.cdiv(T - d, 16), triton.cdiv(n_tiles, per_program))](
                self.binary.table, self.binary.stride, self.tables.parents, self.span, self.tops, self.lengths,
                self.below, self.lower, left, right, matrices, parent_share, span_count, doubt, d, start,
                n_spans, T, N, P, ROWS=16, TILE=64, TILES=per_program, COLUMNS=self.columns, **self.spans,
            )  # fmt: skip
            outside_kernel.children[(T - d, n)](
                matrices, self.lengths, self.chart, self.scale, self.tops, left, right, doubt, self.small, d, T, N,
                SPLITS=16, TILE=self.tile, **self.common,
            )  # fmt: skip
        outside_kernel.word_counts[(n, T)](
            self.tables.words, self.lengths, self.below, left, right, word_count, doubt, T, N,
            len(self.tables.words), COLUMNS=self.word_columns, **self.common,
        )  # fmt: skip
        rules = [self._rule_counts(parent_share)]
        self.doubt = doubt.flatten(1).sum(1) + (rules[0] * self.binary.is_small).sum(1)
        if self.unary is not None:
            assert above is not None
            table = torch.bmm(above.view(n, T * T, N).transpose(1, 2), self.below.view(n, T * T, N))
            rules.append(table.view(n, N * N)[:, self.tables.unary] * self.unary.weights)
            self.doubt += (rules[1] * self.unary.is_small).sum(1)
        counts = [word_count, torch.cat(rules, 1).to(self.word.dtype)]
        return counts if span_count is None else [*counts, span_count]

    def _rule_counts(self, parent_share: torch.Tensor) -> torch.Tensor:
        """Σ M γ of every binary rule over all spans, times its weight: (B, R), float64."""
        n, T, N = self.n, self.length, self.N
        n_spans = parent_share.shape[1]
        step = max(1, _ROOM // max(n_spans * N * N, 1))
        matrices = parent_share.new_empty(min(step, n), n_spans, N * N)
        found = []
        for begin in range(0, n, step):
            end = min(begin + step, n)
            if n_spans:
                self._pairs(begin, end, 0, n_spans, matrices)
            table = torch.bmm(matrices[: end - begin].transpose(1, 2), parent_share[begin:end])
            found.append(table.view(end - begin, N * N * self.P)[:, self.tables.binary])
        return torch.cat(found) * self.binary.weights

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Whether numbers that were raised make a difference; asking waits for the device."""
        if self.word.is_cuda and torch.cuda.is_current_stream_capturing() or not bool(self.small):
            return False
        self.backward(value, torch.ones_like(value))
        return bool((self.doubt > _NEGLIGIBLE[self.word.dtype]).any())
