"""Span pruning: a larger grammar gets only spans with enough expected counts under a first, smaller grammar.

A span stays if the probability that it is a constituent under the first grammar is not below a threshold. Shapes name
spans only, no symbols: what is left serves any grammar whose binary form cuts trees into the same spans.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import block_of, offsets, ranges
from partwise.structures.contract import Shapes
from partwise.structures.grammar.parts import GrammarParts


class SpanRecord(NamedTuple):
    """The result of pruning some sentences; spans have two or more words.

    Attributes
    ----------
    n_spans, n_kept : int
        Spans there were, and those left.
    n_true, n_found : int
        Spans of the true derivations, and those of them that were left by themselves.
    n_sentences, n_whole : int
        Sentences with a true derivation, and those of which all true spans were.
    """

    n_spans: int
    n_kept: int
    n_true: int
    n_found: int
    n_sentences: int
    n_whole: int

    @property
    def recall(self) -> float:
        """Share of the true spans that are kept."""
        return self.n_found / self.n_true if self.n_true else 1.0

    def as_dict(self) -> dict[str, float]:
        """The shares, for JSON."""
        whole = self.n_whole / self.n_sentences if self.n_sentences else 1.0
        left = self.n_kept / self.n_spans if self.n_spans else 1.0
        return {"recall": self.recall, "whole_sentences": whole, "spans_left": left}

    def __str__(self) -> str:
        return f"pruning left {self.n_kept:,} of {self.n_spans:,} spans and {100 * self.recall:.2f} % of the true ones"


def span_probabilities(structure: GrammarParts, shapes: Shapes, counts: np.ndarray) -> np.ndarray:
    """Probability that a binary rule builds a node over each span.

    Parameters
    ----------
    counts : float array (n_parts.sum(),)
        Expected counts of all parts of all examples under `structure`.

    Returns
    -------
    float64 array (n_spans.sum(),)
        For every row of kind "span"; zero for single words.
    """
    first = offsets(structure.n_parts(shapes))[:-1] + shapes.lengths * len(structure.word_symbols)
    n_rows, width = structure.n_spans(shapes), structure.kinds[1].width
    rows = counts[ranges(first, n_rows * width)].reshape(-1, width)
    return np.asarray(rows[:, : len(structure.binary_symbols)].sum(axis=1), np.float64)


def prune_spans(
    structure: GrammarParts,
    shapes: Shapes,
    counts: np.ndarray,
    least: float,
    *,
    best: Any = None,
    gold: Any = None,
    keep_gold: bool = False,
) -> tuple[Shapes, SpanRecord]:
    """Shapes with the spans whose probability is at least `least`, and how many that are.

    Parameters
    ----------
    structure, shapes, counts
        Of the first grammar, see :func:`span_probabilities`.
    least : float
        Between 0 and 1.
    best : labels (n_nodes, 4), optional
        Derivations whose spans stay in any case, such as the first grammar's best ones, so that one is left.
    gold : labels (n_nodes, 4), optional
        True derivations under any grammar that cuts them into the same spans; the record counts those left.
    keep_gold : bool
        Whether true spans stay in any case, as training needs; the record does not count these.
    """
    ptr, first, last = structure.spans_of(shapes)
    is_long = last > first
    kept = is_long & (span_probabilities(structure, shapes, counts) >= least)
    if best is not None:
        kept |= _is_in(structure, best, shapes)
    true = _is_in(structure, gold, shapes) if gold is not None else np.zeros(len(first), bool)
    example, n = block_of(ptr), len(ptr) - 1
    missed = np.bincount(example[true & ~kept], minlength=n)
    n_whole = int((missed == 0).sum()) if gold is not None else 0
    record = SpanRecord(
        int(is_long.sum()), int((kept & is_long).sum()), int(true.sum()), int((true & kept).sum()),
        n if gold is not None else 0, n_whole,
    )  # fmt: skip
    if keep_gold:
        kept |= true
    kept &= is_long
    counts_left = np.bincount(example[kept], minlength=n)
    return structure.span_shapes(shapes.lengths, offsets(counts_left), first[kept], last[kept]), record


def _is_in(structure: GrammarParts, labels: Any, shapes: Shapes) -> np.ndarray:
    """Which rows are spans of two or more words that the derivations have; they must be among the spans."""
    labels = np.asarray(labels, np.int64)
    ptr = structure._node_ptr(labels, shapes)
    found = np.zeros(int(structure.n_spans(shapes).sum()), bool)
    long = labels[:, 1] > labels[:, 0]
    example = block_of(ptr)[long]
    rows = structure._rows_of(labels[long], example, shapes)
    found[offsets(structure.n_spans(shapes))[:-1][example] + rows] = True
    return found
