"""The parts of derivations, for solvers: spans left by pruning, the encoding of true derivations, costs.

**Symbols and rules.** Symbols are 0 … N − 1. A node of a derivation is a symbol over the words `first` … `last`,
counted from 0, both included. It is built in one of three ways: over one word, from nothing (a *word node*); from two
neighbouring nodes, by a binary rule; from one node over the same words, by a unary rule. The node below a unary rule
is not itself built by one: chains of unary rules have one step, so that cycles among them are harmless and sums are
finite. A chain of several is written as a rule of its own. The whole sentence has the symbol `root`.

**Parts**, in this order:

- kind "word", one row a word, W columns, one for each of `word_symbols`: used by word nodes;
- kind "span", one row a span: the n words first, from left to right, then the spans of two or more words in order of
  length and then of first word (those that pruning left). Columns are the parents of binary rules, in ascending order
  (`binary_symbols`), then the parents of unary rules, in ascending order (`unary_symbols`). A node built by a binary
  rule uses its symbol's column of the first group, a node built by a unary rule one of the second. In the rows of
  single words only columns of the second group are ever used;
- kind "split", only with ``splits=True``, one column; one row for each (span, split): for the spans of two or more
  words in the order of their rows, each way to cut it, from left to right. Used where a node built by a binary rule
  is cut there;
- kind "rule", tied, one part for each rule: binary rules as given, then unary rules as given. Used once per use.

**Shapes** are ``[n, m, first, last, …]``, the m spans of two or more words (:meth:`GrammarParts.span_shapes`).

**Labels** of a corpus are one int64 array (n_nodes, 4), the nodes of one derivation after another, each in preorder:
a node before those below it, left before right. Columns are first, last, symbol, rule; rule is the number of the rule
that built the node, binary rules first and unary rules counted on behind them, or −1 for word nodes. A derivation of n
words ends with its n-th word node, so that nothing else says where it ends.

Users' derivations are lists of ``(first, last, symbol)`` in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.arrays import block_of, offsets, ranges, untouched
from partwise.errors import InputError
from partwise.structures.checks import checked_count
from partwise.structures.contract import PartLists, RowKind, Shapes, Structure
from partwise.structures.grammar.anchoring import (
    RuleRanks,
    all_rules,
    checked_list,
    listed_in,
    n_listed,
    positions_in_list,
    rows_of_spans,
    shapes_of_list,
)
from partwise.structures.grammar.nodes import RuleTable, children_of, find_fault, in_preorder
from partwise.structures.grammar.oracle import (
    GRAMMAR,
    GrammarSpecification,
    GrammarWorkspace,
    make_specification,
    make_workspace,
)
from partwise.structures.grammar.spans import all_spans, some_spans, spans_of

COSTS = ("hamming", "constituents", "rules", "rules_bound")


class GrammarParts(Structure):
    """Parts of derivations: see the docstring of this module."""

    oracle = GRAMMAR
    slows_when_sharp = True
    most_of_row = 2  # a span has a node built by a binary rule and one built by a unary rule on top

    def __init__(
        self,
        n_symbols: int,
        rules: Any,
        root: int = 0,
        *,
        unaries: Any = (),
        word_symbols: Any = None,
        splits: bool = False,
        anchored: bool = False,
    ):
        self.n_symbols = checked_count(n_symbols, "n_symbols")
        self.rules = _checked_rules(rules, "rules", 3, self.n_symbols)
        self.unaries = _checked_rules(unaries, "unaries", 2, self.n_symbols)
        loops = np.flatnonzero(self.unaries[:, 0] == self.unaries[:, 1])
        if loops.size:
            raise InputError(f"unaries[{loops[0]}] has the same symbol above and below")
        self.root = int(_checked_symbols([root], "root", self.n_symbols)[0])
        words = np.arange(self.n_symbols) if word_symbols is None else word_symbols
        self.word_symbols = np.unique(_checked_symbols(words, "word_symbols", self.n_symbols))
        self.splits, self.anchored = bool(splits), bool(anchored)
        self._specification = make_specification(
            self.n_symbols, self.root, self.rules, self.unaries, self.word_symbols, self.splits, self.anchored
        )
        self._ranks = RuleRanks.of(self._specification)
        self.binary_symbols, self.unary_symbols = (
            self._specification.binary_symbol,
            self._specification.unary_symbol,
        )
        self._table = RuleTable.of(self.n_symbols, self.rules, self.unaries)
        width = len(self.binary_symbols) + len(self.unary_symbols)
        kinds = [RowKind("word", len(self.word_symbols)), RowKind("span", width)]
        self.kinds = (
            *kinds, *[RowKind("split", 1)] * self.splits, *[RowKind("anchored", 1)] * self.anchored,
            RowKind("rule", self.n_rules, tied=True),
        )  # fmt: skip

    def __repr__(self) -> str:
        unary = f", {len(self.unaries)} unary" if len(self.unaries) else ""
        return f"{type(self).__name__}({self.n_symbols} symbols, {len(self.rules)} rules{unary})"

    @property
    def n_rules(self) -> int:
        """Binary and unary rules."""
        return len(self.rules) + len(self.unaries)

    def specification(self) -> GrammarSpecification:
        return self._specification

    def workspace(self, shapes: Shapes, specification: Any = None) -> GrammarWorkspace:
        most = int(n_listed(shapes).max(initial=0)) if self.anchored else 0
        return make_workspace(self._specification, int(shapes.lengths.max(initial=1)), most)

    # Shapes.

    def table_cells(self, shapes: Shapes) -> float:
        if self.anchored:
            return float(n_listed(shapes).sum())
        return len(self.rules) * float((shapes.lengths.astype(np.float64) ** 3).sum()) / 6

    def why_slow(self, shapes: Shapes) -> tuple[str, str]:
        size = f"{len(self.rules):,} rules on up to {int(shapes.lengths.max()):,} words"
        return size, "shorter sentences or fewer rules"

    def shapes(self, lengths: Any) -> Shapes:
        """Shapes with every span, and with every anchored rule that some derivation uses if these are parts."""
        spans = all_spans(np.asarray(lengths, np.int64))
        return all_rules(self._specification, spans) if self.anchored else spans

    def span_shapes(self, lengths: Any, span_ptr: Any, first: Any, last: Any) -> Shapes:
        """Shapes with the spans that pruning has left.

        Parameters
        ----------
        lengths : array_like of int (n,)
        span_ptr : array_like of int (n + 1,)
            The spans of each example.
        first, last : array_like of int (span_ptr[n],)
            Spans of two or more words, in any order within an example; single words are never pruned.
        """
        spans = some_spans(*(np.asarray(each, np.int64) for each in (lengths, span_ptr, first, last)))
        return all_rules(self._specification, spans) if self.anchored else spans

    def anchored_shapes(self, lengths: Any, ptr: Any, rule: Any, first: Any, cut: Any, last: Any) -> Shapes:
        """Shapes with exactly these anchored rules, and with the spans of their parents.

        Parameters
        ----------
        lengths : array_like of int (n,)
        ptr : array_like of int (n + 1,)
            The anchored rules of each example.
        rule, first, cut, last : array_like of int (ptr[n],)
            As in :class:`AnchoredRules`, in any order within an example.
        """
        self._need_anchored("anchored_shapes")
        lengths, ptr = np.asarray(lengths, np.int64), np.asarray(ptr, np.int64)
        rules = [np.asarray(each, np.int64) for each in (rule, first, cut, last)]
        checked_list(self.n_rules, len(self.rules), lengths, ptr, rules)
        return shapes_of_list(self._ranks, lengths, ptr, rules)

    def anchored_of(
        self, shapes: Shapes
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The anchored rules of shapes, in the order of their parts: offsets (n + 1,), rule, first, cut and last."""
        self._need_anchored("anchored_of")
        listed, (_, first, last) = listed_in(shapes), self.spans_of(shapes)
        return listed.ptr, self._ranks.rule_of[listed.rank], first[listed.row], listed.cut, last[listed.row]

    def n_anchored(self, shapes: Shapes) -> np.ndarray:
        """Anchored rules of each example, int64 (n,)."""
        return n_listed(shapes) if self.anchored else np.zeros(len(shapes.ptr) - 1, np.int64)

    def _need_anchored(self, what: str) -> None:
        if not self.anchored:
            raise InputError(f"{what} needs a grammar with anchored=True")

    def spans_of(self, shapes: Shapes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Spans of the rows of kind "span", single words included: their offsets (n + 1,), first and last words."""
        return spans_of(shapes)

    def n_spans(self, shapes: Shapes) -> np.ndarray:
        """Rows of kind "span" of each example, int64 (n,)."""
        return shapes.lengths + shapes.values[shapes.ptr[:-1] + 1]

    def n_split_rows(self, shapes: Shapes) -> np.ndarray:
        """Rows of kind "split" of each example, int64 (n,)."""
        ptr, first, last = self.spans_of(shapes)
        return np.diff(offsets(last - first)[ptr])

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        counts = [shapes.lengths, self.n_spans(shapes)]
        counts += [self.n_split_rows(shapes)] * self.splits
        return (*counts, *[self.n_anchored(shapes)] * self.anchored)

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        """A node and a rule for each of n − 1 binary and at most 2n − 1 unary steps, and n words."""
        most_unary = 2 * shapes.lengths - 1 if len(self.unaries) else 0
        n_binary = shapes.lengths - 1
        n_used = n_binary + most_unary
        return (2 + self.anchored) * n_used + shapes.lengths + (n_binary if self.splits else 0)

    def most_tied(self, shapes: Shapes) -> np.ndarray:
        return shapes.lengths - 1 + (2 * shapes.lengths - 1 if len(self.unaries) else 0)

    # Labels.

    def _node_ptr(self, labels: np.ndarray, shapes: Shapes) -> np.ndarray:
        """The nodes of each example, int64 (n + 1,): a derivation ends with its last word."""
        lengths = shapes.lengths
        if labels.ndim != 2 or labels.shape[1] != 4:
            raise InputError(
                f"labels has shape {labels.shape}, expected (nodes, 4): first, last, symbol, rule"
            )
        if lengths.size and lengths.min() < 1:
            raise InputError(f"lengths: example {int(lengths.argmin())} has no positions")
        leaves = np.flatnonzero(labels[:, 3] == -1)
        ends = np.append(0, leaves + 1)
        if len(leaves) != lengths.sum() or (ends[-1] != len(labels)):
            raise InputError(f"labels has {len(leaves)} word nodes, but lengths add up to {lengths.sum()}")
        return ends[np.append(0, np.cumsum(lengths))]

    def check_gold(self, labels: Any, shapes: Shapes) -> tuple[np.ndarray, np.ndarray]:
        """Labels as int64 and the nodes of each example; raises at the first node that is wrong."""
        labels = np.asarray(labels, np.int64)
        ptr = self._node_ptr(labels, shapes)
        fault = find_fault(
            labels, ptr, shapes.lengths, self.root, self._table, self._specification.word_column
        )
        if fault is not None:
            example, node, what = fault
            first, last, symbol, _ = labels[node].tolist()
            raise InputError(f"labels: example {example}, symbol {symbol} over {first} … {last} {what}")
        return labels, ptr

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        """Parts in ascending order, rules as often as they are used."""
        labels, ptr = self.check_gold(labels, shapes)
        return self.parts_of_nodes(labels, ptr, shapes)

    def parts_of_nodes(self, labels: np.ndarray, ptr: np.ndarray, shapes: Shapes) -> PartLists:
        """As :meth:`encode_all`, of derivations known to be right; their spans must not be pruned."""
        example, s = block_of(ptr), self._specification
        first, last, _, rule = labels.T
        own = self._own_parts(labels, example, shapes)
        part_ptr, built = self.n_parts(shapes) - self.n_rules, rule >= 0
        owners, parts = [example, example[built]], [own, part_ptr[example[built]] + rule[built]]
        if self.anchored:
            owners.append(example[built])
            parts.append(part_ptr[example[built]] + self._anchored_of(labels, ptr, shapes))
        if self.splits:
            node = np.flatnonzero((rule >= 0) & (rule < len(self.rules)))
            at = self._split_rows(labels, example, shapes)[node] + last[children_of(labels, ptr)[0][node]]
            base = shapes.lengths * len(s.word_symbol) + self.n_spans(shapes) * self.kinds[1].width
            owners.append(example[node])
            parts.append(base[example[node]] + at - first[node])
        owner, part = np.concatenate(owners), np.concatenate(parts)
        order = np.lexsort((part, owner))
        return PartLists(offsets(np.bincount(owner, minlength=len(shapes.ptr) - 1)), part[order])

    def _anchored_of(self, labels: np.ndarray, ptr: np.ndarray, shapes: Shapes) -> np.ndarray:
        """The "anchored" part of every node that a rule built, counted from the first rule of its example: negative."""
        built, example = labels[:, 3] >= 0, block_of(ptr)
        first, last, _, rule = labels[built].T
        cut = np.where(rule < len(self.rules), labels[children_of(labels, ptr)[0][built], 1], last)
        listed, row = listed_in(shapes), rows_of_spans(shapes, example[built], first, last)
        at = positions_in_list(listed, row, self._ranks.rank_of[rule], cut)
        if (at < 0).any():
            k = int((at < 0).argmax())
            raise InputError(
                f"labels: example {example[built][k]}: rule {rule[k]} over {first[k]} … {last[k]} is not among the "
                "example's anchored rules (pruning removed it)"
            )
        return at - listed.ptr[1:][example[built]]

    def _own_parts(self, labels: np.ndarray, example: np.ndarray, shapes: Shapes) -> np.ndarray:
        """The "word" or "span" part of every node."""
        first, _, symbol, rule = labels.T
        s, n_words, n_binary = self._specification, len(self.word_symbols), len(self.binary_symbols)
        row = self._rows_of(labels, example, shapes)
        column = np.where(rule < len(self.rules), s.binary_column[symbol], n_binary + s.unary_column[symbol])
        span = shapes.lengths[example] * n_words + row * self.kinds[1].width + column
        return np.where(rule < 0, first * n_words + s.word_column[symbol], span)

    def _rows_of(self, labels: np.ndarray, example: np.ndarray, shapes: Shapes) -> np.ndarray:
        """The row of kind "span" of every node, within its example."""
        at = rows_of_spans(shapes, example, labels[:, 0], labels[:, 1])
        missing = np.flatnonzero(at < 0)
        if missing.size:
            k = int(missing[0])
            raise InputError(
                f"labels: example {example[k]}: the span {labels[k, 0]} … {labels[k, 1]} is not among the "
                "example's spans (pruning removed it)"
            )
        return at - offsets(self.n_spans(shapes))[:-1][example]

    def _split_rows(self, labels: np.ndarray, example: np.ndarray, shapes: Shapes) -> np.ndarray:
        """The first "split" row of every node's span, within its example."""
        ptr, first, last = self.spans_of(shapes)
        starts = offsets(last - first)
        row = ptr[:-1][example] + self._rows_of(labels, example, shapes)
        return starts[row] - starts[ptr[:-1]][example]

    def decode_all(self, found: PartLists, shapes: Shapes) -> np.ndarray:
        """Nodes in preorder, int64 (n_nodes, 4), from the distinct parts of derivations."""
        example = block_of(found.ptr)
        n_words, width = len(self.word_symbols), self.kinds[1].width
        n_binary, words = len(self.binary_symbols), shapes.lengths[example] * n_words
        is_word, is_node = found.part < words, found.part < words + self.n_spans(shapes)[example] * width
        ptr, first, last = self.spans_of(shapes)
        within = np.where(is_word, found.part, found.part - words)[is_node]
        is_word, example = is_word[is_node], example[is_node]
        column = within % np.where(is_word, n_words, max(width, 1))
        span = ptr[:-1][example] + within // np.where(is_word, n_words, max(width, 1))
        is_unary = ~is_word & (column >= n_binary)
        columns = np.concatenate([self.word_symbols, self.binary_symbols, self.unary_symbols])
        symbol = columns[np.where(is_word, column, n_words + column)]
        return in_preorder(example, first[span], last[span], symbol, is_word, is_unary, self._table)

    # Costs.

    def checked_cost(self, cost: Any) -> str:
        """ "constituents" (or "hamming"), "rules" or "rules_bound"."""
        if not isinstance(cost, str) or cost not in COSTS:
            raise InputError(f"cost must be one of {', '.join(map(repr, COSTS))} for {self!r}, not {cost!r}")
        if cost == "rules" and not self.anchored:
            raise InputError(
                "cost='rules' counts wrong anchored rules, which are parts with anchored=True only; 'rules_bound' is "
                "an upper bound of it that needs none"
            )
        return cost

    def part_costs(self, labels: Any, shapes: Shapes, cost: Any) -> np.ndarray:
        """Costs of wrong constituents, or of wrong anchored rules (Bartlett et al. 2004, example 2).

        "constituents" counts half of what is wrong and half of what is missing: ½ for every node, −½ for true ones. If
        two derivations have equally many nodes, that is the number of wrong nodes, their constituent errors. "rules"
        is the number of wrong anchored rules, which must be parts: each costs 1 unless it is true.

        "rules_bound" is an upper bound of "rules" without these parts, up to three times as large. Each node counts
        once for each rule that it is part of: nodes that a rule built for that rule and the one above it, word nodes
        for the one above.
        """
        labels, ptr = self.check_gold(labels, shapes)
        if cost == "rules":
            return self._costs_of_anchored(labels, ptr, shapes)
        part_ptr, result = (
            offsets(self.n_parts(shapes)),
            untouched(int(self.n_parts(shapes).sum()), np.float32),  # rules cost nothing
        )
        n_words, n_spans = shapes.lengths * len(self.word_symbols), self.n_spans(shapes) * self.kinds[1].width
        result[ranges(part_ptr[:-1], n_words)] = 0.5
        result[ranges(part_ptr[:-1] + n_words, n_spans)] = 1.0 if cost == "rules_bound" else 0.5
        example = block_of(ptr)
        true = part_ptr[:-1][example] + self._own_parts(labels, example, shapes)
        result[true] = -result[true]
        return result

    def _costs_of_anchored(self, labels: np.ndarray, ptr: np.ndarray, shapes: Shapes) -> np.ndarray:
        """One for every anchored rule that is not true."""
        ends = offsets(self.n_parts(shapes))[1:] - self.n_rules
        result, counts = untouched(int(self.n_parts(shapes).sum()), np.float32), self.n_anchored(shapes)
        result[ranges(ends - counts, counts)] = 1.0
        built = labels[:, 3] >= 0
        result[ends[block_of(ptr)[built]] + self._anchored_of(labels, ptr, shapes)] = 0.0
        return result


def _checked_symbols(values: Any, name: str, n_symbols: int) -> np.ndarray:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold integers")
    if array.size and (array.min() < 0 or array.max() >= n_symbols):
        wrong = array[(array < 0) | (array >= n_symbols)].flat[0]
        raise InputError(f"{name} holds symbol {wrong}; symbols run from 0 to {n_symbols - 1}")
    return array.astype(np.int64)


def _checked_rules(rules: Any, name: str, width: int, n_symbols: int) -> np.ndarray:
    """`rules` as int64 (n, width), all different."""
    array = np.asarray(rules)
    if array.size == 0:
        return np.zeros((0, width), np.int64)
    if array.ndim != 2 or array.shape[1] != width:
        what = "parent, left, right" if width == 3 else "parent, child"
        raise InputError(f"{name} has shape {array.shape}, expected (rules, {width}): {what}")
    array = _checked_symbols(array, name, n_symbols)
    _, first, inverse = np.unique(array, axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse.ravel()] != np.arange(len(array)))
    if again.size:
        k = int(again[0])
        raise InputError(f"{name}[{k}] is the same rule as {name}[{first[inverse.ravel()[k]]}]")
    return array
