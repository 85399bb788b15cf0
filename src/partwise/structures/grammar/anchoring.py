"""Lists of anchored rules: which rules derivations may use at which places of a sentence.

An example's shape lists them (`cells.py` says how). A rule that no derivation can use is not listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import block_of, offsets, ranges
from partwise.core.memory_limits import machine_bytes
from partwise.errors import InputError
from partwise.structures.contract import Shapes
from partwise.structures.grammar.spans import some_spans, spans_of

# Bytes of memory for each anchored rule while a sentence is parsed: 8 in the list, 8 each for score, weight and count.
BYTES_OF_RULE = 32


class AnchoredRules(NamedTuple):
    """Rules at places of one sentence, ⟨A → B C, first, cut, last⟩.

    Attributes
    ----------
    rule : int64 array, shape (n,)
        Binary rules first; unary rules count on behind them.
    first, last : int64 arrays, shape (n,)
        The words that the parent spans.
    cut : int64 array, shape (n,)
        The last word of the left child; `last` for unary rules.
    score : float64 array, shape (n,)
        In marginals, the expected number of uses.
    """

    rule: np.ndarray
    first: np.ndarray
    cut: np.ndarray
    last: np.ndarray
    score: np.ndarray


class RuleRanks(NamedTuple):
    """The rules of a grammar in the order of lists.

    Attributes
    ----------
    rule_of, rank_of : int64 arrays, shape (R + U,)
        The rule of each rank, and the rank of each rule.
    """

    rule_of: np.ndarray
    rank_of: np.ndarray

    @classmethod
    def of(cls, s: Any) -> RuleRanks:
        """The ranks of a specification's rules."""
        rule_of = np.concatenate([s.rule[s.by_parent], len(s.rule) + s.unary_by_parent]).astype(np.int64)
        rank_of = np.empty_like(rule_of)
        rank_of[rule_of] = np.arange(len(rule_of))
        return cls(rule_of, rank_of)


class Listed(NamedTuple):
    """The anchored rules of some examples, in the order of their parts.

    Attributes
    ----------
    ptr : int64 array, shape (n_examples + 1,)
    row : int64 array, shape (ptr[n],)
        The row of kind "span", counted over all examples.
    rank, cut : int64 arrays, shape (ptr[n],)
    """

    ptr: np.ndarray
    row: np.ndarray
    rank: np.ndarray
    cut: np.ndarray


def n_listed(shapes: Shapes) -> np.ndarray:
    """The number of anchored rules of each example, int64 (n,)."""
    if not len(shapes.ptr) - 1:
        return np.zeros(0, np.int64)
    n_rows = shapes.lengths + shapes.values[shapes.ptr[:-1] + 1]
    return shapes.values[_list_at(shapes) + n_rows].astype(np.int64)


def _list_at(shapes: Shapes) -> np.ndarray:
    """Where the offsets of each example begin."""
    return shapes.ptr[:-1] + 2 + 2 * shapes.values[shapes.ptr[:-1] + 1].astype(np.int64)


def listed_in(shapes: Shapes) -> Listed:
    """What shapes list."""
    counts, at = n_listed(shapes), _list_at(shapes)
    n_rows = shapes.lengths + shapes.values[shapes.ptr[:-1] + 1]
    starts = shapes.values[ranges(at, n_rows)]
    ends = shapes.values[ranges(at + 1, n_rows)]
    pairs = shapes.values[ranges(at + n_rows + 1, 2 * counts)].reshape(-1, 2).astype(np.int64)
    row = np.repeat(np.arange(len(starts)), ends - starts)
    return Listed(offsets(counts), row, pairs[:, 0], pairs[:, 1])


def with_list(spans: Shapes, row: np.ndarray, rank: np.ndarray, cut: np.ndarray) -> Shapes:
    """Shapes of spans, and anchored rules in any order; `row` counts over all examples."""
    order = np.lexsort((cut, rank, row))
    row, rank, cut = row[order], rank[order], cut[order]
    n_rows = spans.lengths + spans.values[spans.ptr[:-1] + 1]
    row_ptr = offsets(n_rows)
    starts = offsets(np.bincount(row, minlength=int(row_ptr[-1])))
    counts = np.diff(starts[row_ptr])
    old = np.diff(spans.ptr)
    ptr = offsets(old + n_rows + 1 + 2 * counts)
    values = np.empty(ptr[-1], np.int32)
    values[ranges(ptr[:-1], old)] = spans.values
    own_starts = starts[ranges(row_ptr[:-1], n_rows + 1)] - np.repeat(starts[row_ptr[:-1]], n_rows + 1)
    values[ranges(ptr[:-1] + old, n_rows + 1)] = own_starts
    values[ranges(ptr[:-1] + old + n_rows + 1, 2 * counts)] = np.stack([rank, cut], axis=1).ravel()
    return Shapes(ptr, values)


def all_rules(
    s: Any, spans: Shapes, built: np.ndarray | None = None, unary: np.ndarray | None = None
) -> Shapes:
    """Shapes with the anchored rules that some derivation of its example uses.

    Parameters
    ----------
    s : GrammarSpecification
    spans : Shapes
        Without anchored rules.
    built, unary : bool arrays, shape (n_rows, n_symbols), optional
        Symbols that may stand over each row of kind "span" without a unary rule, and those that one may build.
    """
    from partwise.structures.grammar.listing import list_rules

    n, n_rows = len(spans.ptr) - 1, spans.lengths + spans.values[spans.ptr[:-1] + 1]
    row_ptr, found = offsets(n_rows), []
    check_room(
        float(n_rows.max(initial=0)) * s.n_symbols / BYTES_OF_RULE, spans.lengths, "symbols over spans"
    )
    nothing, total = np.zeros(0, np.int32), 0
    for e in range(n):
        shape = np.ascontiguousarray(spans.values[spans.ptr[e] : spans.ptr[e + 1]])
        here, length = slice(row_ptr[e], row_ptr[e + 1]), int(shape[0])
        own = _allowed(s, built, here), _allowed(s, unary, here)
        own[0][:length] &= s.word_column >= 0
        work = [each.astype(np.uint8).ravel() for each in own]
        needed, row_of = np.zeros((2, len(work[0])), np.uint8), np.empty(length * (length + 1) // 2, np.int64)
        count = list_rules(s, shape, *work, *needed, row_of, nothing)
        total += count
        check_room(total, spans.lengths[: e + 1], "anchored rules")
        out = np.empty(int(n_rows[e]) + 1 + 2 * count, np.int32)
        list_rules(s, shape, *work, *needed, row_of, out)
        found += [shape, out]
    values = np.concatenate([nothing, *found])
    sizes = [len(a) + len(b) for a, b in zip(found[::2], found[1::2], strict=True)]
    return Shapes(offsets(sizes), values)


def _allowed(s: Any, table: np.ndarray | None, here: slice) -> np.ndarray:
    if table is None:
        return np.ones((here.stop - here.start, s.n_symbols), bool)
    return table[here].copy()


def check_room(n_rules: float, lengths: np.ndarray, what: str) -> None:
    """Raise if lists of anchored rules do not fit into the machine's memory."""
    n_bytes = BYTES_OF_RULE * n_rules
    if n_bytes > machine_bytes():
        raise InputError(
            f"{len(lengths):,} sentences of up to {int(lengths.max()):,} words have {n_rules:,.0f} {what} or more, "
            f"which take {n_bytes / 1e9:.1f} GB: prune rules (prune_rules; rule_threshold of a parser), or use shorter "
            "sentences or fewer rules"
        )


def checked_list(
    n_rules: int, n_binary: int, lengths: np.ndarray, ptr: np.ndarray, rules: Sequence[np.ndarray]
) -> None:
    """Raise unless (rule, first, cut, last) are anchored rules of these examples, each once."""
    rule, first, cut, last = rules
    if len(ptr) != len(lengths) + 1 or any(len(each) != ptr[-1] for each in rules):
        raise InputError("anchored rules: ptr, rule, first, cut and last do not belong together")
    example = block_of(ptr)
    is_unary = rule >= n_binary
    wrong = (rule < 0) | (rule >= n_rules) | (first < 0) | (last >= lengths[example])
    wrong |= np.where(is_unary, (cut != last) | (last < first), (cut < first) | (cut >= last))
    if wrong.any():
        k = int(wrong.argmax())
        raise InputError(
            f"anchored rules: example {example[k]} has rule {rule[k]} over the words {first[k]} … {last[k]} with its "
            f"left node up to {cut[k]}; there are {n_rules} rules and {lengths[example[k]]} words, and a unary rule's "
            "only node ends with its last word"
        )
    keys = np.stack([example, *rules], axis=1)
    if len(np.unique(keys, axis=0)) != len(keys):
        raise InputError("anchored rules: an example has an anchored rule twice")


def shapes_of_list(
    ranks: RuleRanks, lengths: np.ndarray, ptr: np.ndarray, rules: Sequence[np.ndarray]
) -> Shapes:
    """Shapes with exactly these anchored rules, and with the spans of their parents."""
    rule, first, cut, last = rules
    example = block_of(ptr)
    long = last > first
    wide = np.unique(np.stack([example, first, last], axis=1)[long], axis=0)
    counts = np.bincount(wide[:, 0], minlength=len(lengths))
    spans = some_spans(lengths, offsets(counts), wide[:, 1], wide[:, 2])
    return with_list(spans, rows_of_spans(spans, example, first, last), ranks.rank_of[rule], cut)


def rows_of_spans(shapes: Shapes, example: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The rows of kind "span", counted over all examples, of spans; −1 if they were pruned."""
    ptr, own_first, own_last = spans_of(shapes)
    base = int(shapes.lengths.max(initial=1)) + 1

    def keys(example: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        return (example * base + last - first) * base + first

    known, wanted = keys(block_of(ptr), own_first, own_last), keys(example, first, last)
    if not len(known):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, at, -1)


def positions_in_list(listed: Listed, row: np.ndarray, rank: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Where anchored rules stand in the list of all examples; −1 if they are not listed."""
    if not len(listed.row):
        return np.full(len(row), -1)
    n_ranks = int(max(listed.rank.max(), rank.max(initial=0))) + 1
    longest = int(max(listed.cut.max(), cut.max(initial=0))) + 1

    def keys(row: np.ndarray, rank: np.ndarray, cut: np.ndarray) -> np.ndarray:
        return (row * n_ranks + rank) * longest + cut

    known, wanted = keys(listed.row, listed.rank, listed.cut), keys(row, rank, cut)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, at, -1)
