"""Grammars: `word_scores` (B, n, N), `rule_scores` (R,) or (B, R), and optional `span_scores` (B, n, n, N)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch

from partwise.core.arrays import block_of, offsets
from partwise.errors import InputError
from partwise.structures.grammar.grammar import Grammar
from partwise.torch.layouts.arrangement import Arrangement
from partwise.torch.layouts.base import Layout, ScoreBatch, blocks, require_tensor
from partwise.torch.layouts.part_map import PartMap


class GrammarLayout(Layout):
    """A batch of derivations is a list of lists of nodes (first word, last word, symbol)."""

    names = ("word_scores", "rule_scores", "span_scores")
    structure: Grammar

    def __init__(self, structure: Grammar):
        if structure.splits or structure.anchored:
            raise InputError(
                "layers are for grammars without scores of splits or anchored rules (splits=False, anchored=False)"
            )
        super().__init__(structure)

    def read(self, scores: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], int, bool]:
        if not 2 <= len(scores) <= 3:
            raise InputError(
                f"{self.structure!r} takes word_scores and rule_scores, and may take span_scores"
            )
        N, R = self.structure.n_symbols, self.structure.n_rules
        word = require_tensor(scores[0], "word_scores", (None, None, N), f"(batch, words, {N})")
        n, length = word.shape[:2]
        rule = scores[1]
        if isinstance(rule, torch.Tensor) and rule.ndim == 2:
            rule = require_tensor(rule, "rule_scores", (n, R), f"({n}, {R})")
        else:
            rule = require_tensor(rule, "rule_scores", (R,), f"({R},) or ({n}, {R})")
        if len(scores) == 2 or scores[2] is None:
            return (word, rule), n, rule.ndim == 1
        shape = (n, length, length, N)
        return (word, rule, require_tensor(scores[2], "span_scores", shape, str(shape))), n, rule.ndim == 1

    def arrange(self, sizes: tuple[tuple[int, ...], ...], lengths: np.ndarray) -> Arrangement:
        structure, (n, longest, N) = self.structure, sizes[0]
        shapes, symbols = structure.shapes(lengths), structure.word_symbols
        columns = np.concatenate([structure.binary_symbols, structure.unary_symbols])
        ptr, first, last = structure.spans_of(shapes)
        n_rules = np.full(n, structure.n_rules)
        part_ptr, (word_part, span_part, rule_part) = blocks(
            [lengths * len(symbols), np.diff(ptr) * len(columns), n_rules]
        )
        word = block_of(offsets(lengths))
        at = np.arange(len(word)) - offsets(lengths)[word]
        span = block_of(ptr)
        row = (word_part[word] + at * len(symbols))[:, None] + np.arange(len(symbols))
        rules = np.arange(structure.n_rules)
        places = [
            PartMap.of(row.ravel(), (((word * longest + at) * N)[:, None] + symbols).ravel()),
            PartMap.of(
                (rule_part[:, None] + rules).ravel(),
                (np.arange(n)[:, None] * structure.n_rules + rules).ravel(),
            ),
        ]
        if len(sizes) == 3:
            begins = span_part[span] + (np.arange(len(span)) - ptr[span]) * len(columns)
            entry = ((span * longest + first) * longest + last) * N
            part = begins[:, None] + np.arange(len(columns))
            # A symbol above two others and above one alone has two parts, which a span scores alike.
            places.append(PartMap(part.ravel(), (entry[:, None] + columns).ravel(), repeated=True))
        return Arrangement(structure, structure.specification(), shapes, part_ptr, tuple(places))

    def has_entry_costs(self, batch: ScoreBatch) -> bool:
        """False if spans have no scores, or if one score is of two parts, of which one may be wrong."""
        return len(batch.scores) == 3 and not len(self.structure.unaries)

    def flat_labels(self, target: Any, lengths: np.ndarray) -> np.ndarray:
        if len(target) != len(lengths):
            raise InputError(f"target has {len(target)} derivations for {len(lengths)} examples")
        labels = [self.structure.labels_of(each) for each in target]
        return np.concatenate([np.zeros((0, 4), np.int64), *labels])

    def labels(self, found: Any, lengths: np.ndarray, device: torch.device) -> list[Any]:
        ends = np.append(0, np.flatnonzero(found[:, 3] == -1) + 1)[np.append(0, np.cumsum(lengths))]
        return [[tuple(node) for node in found[a:b, :3].tolist()] for a, b in pairwise(ends.tolist())]

    def example(self, arrays: list[np.ndarray], i: int, length: int) -> tuple[Any, ...]:
        spans = (arrays[2][i, :length, :length],) if len(arrays) == 3 else ()
        return (arrays[0][i, :length], arrays[1][i], *spans)

    def stacked(self, given: list[Any], lengths: np.ndarray, device: torch.device) -> list[Any]:
        return given
