"""Pruning: a larger grammar gets only spans, or anchored rules, that are likely enough under a first, smaller grammar.

A span stays if the probability that it is a constituent under the first grammar is not below a threshold. What is left
serves any grammar whose binary form cuts trees into the same spans. Anchored rules stay if their parent and children
are likely enough, so that both grammars must have the same symbols and rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import block_of, offsets, ranges
from partwise.errors import InputError
from partwise.structures.contract import Shapes
from partwise.structures.grammar.anchoring import all_rules
from partwise.structures.grammar.parts import GrammarParts
from partwise.structures.grammar.spans import some_spans


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


def prune_rules(
    structure: GrammarParts,
    shapes: Shapes,
    counts: np.ndarray,
    least: float,
    anchored: GrammarParts,
    *,
    gold: Any = None,
    best: Any = None,
) -> Shapes:
    """Shapes of `anchored` with the rules whose parent and children have at least the probability `least`.

    Parts with a count of zero are always left out, and so are rules that no derivation can then use.

    Parameters
    ----------
    structure, shapes, counts
        The first grammar, without anchored rules, and its expected counts, see :func:`span_probabilities`.
    least : float
        Between 0 and 1.
    anchored : Grammar
        With the same symbols and rules, and ``anchored=True``.
    gold, best : labels (n_nodes, 4), optional
        Derivations whose rules stay in any case: true ones, as training needs, and the first grammar's best ones.
    """
    same = np.array_equal(structure.rules, anchored.rules) and np.array_equal(
        structure.unaries, anchored.unaries
    )
    if structure.anchored or not anchored.anchored or not same:
        raise InputError(
            "prune_rules needs a first grammar without anchored rules, and one of the same rules with anchored=True"
        )
    built, unary = _likely(structure, shapes, counts, least)
    for labels in (gold, best):
        if labels is not None and len(labels):
            row, symbol, rule = _nodes(structure, labels, shapes)
            is_unary = rule >= len(structure.rules)
            built[row[~is_unary], symbol[~is_unary]] = True
            unary[row[is_unary], symbol[is_unary]] = True
    ptr, first, last = structure.spans_of(shapes)
    kept = (built | unary).any(axis=1) | (last == first)
    long = kept & (last > first)
    sizes = np.bincount(block_of(ptr)[long], minlength=len(shapes.ptr) - 1)
    spans = some_spans(shapes.lengths, offsets(sizes), first[long], last[long])
    return all_rules(anchored.specification(), spans, built[kept], unary[kept])


def _likely(
    structure: GrammarParts, shapes: Shapes, counts: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """Which symbols are likely enough over each row, without a unary rule on top and built by one: (n_rows, N)."""
    n_rows, lengths, width = structure.n_spans(shapes), shapes.lengths, structure.kinds[1].width
    n_words, first = len(structure.word_symbols), offsets(structure.n_parts(shapes))[:-1]
    likely = (counts > 0.0) & (counts >= least)
    built, unary = np.zeros((2, int(n_rows.sum()), structure.n_symbols), bool)
    rows = likely[ranges(first + lengths * n_words, n_rows * width)].reshape(-1, width)
    n_binary = len(structure.binary_symbols)
    built[:, structure.binary_symbols] = rows[:, :n_binary]
    unary[:, structure.unary_symbols] = rows[:, n_binary:]
    words = ranges(offsets(n_rows)[:-1], lengths)
    own = likely[ranges(first, lengths * n_words)].reshape(-1, n_words)
    built[np.ix_(words, structure.word_symbols)] = own
    return built, unary


def _nodes(structure: GrammarParts, labels: Any, shapes: Shapes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The row over all examples, the symbol and the rule of the nodes of derivations; their spans must be there."""
    labels = np.asarray(labels, np.int64)
    example = block_of(structure._node_ptr(labels, shapes))
    row = structure._rows_of(labels, example, shapes) + offsets(structure.n_spans(shapes))[:-1][example]
    return row, labels[:, 2], labels[:, 3]


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
