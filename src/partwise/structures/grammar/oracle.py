# mypy: ignore-errors
"""What compiled code knows of a grammar, room for its charts, and the oracle.

Rules are grouped by their pair of children: sums over splits belong to pairs, and each pair then serves all its
parents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, padded
from partwise.core.arrays import offsets
from partwise.structures.grammar.best import grammar_best
from partwise.structures.grammar.inside_outside import grammar_expectations, grammar_log_partition


class GrammarSpecification(NamedTuple):
    """Rules as loops read them.

    Attributes
    ----------
    n_symbols, stride, root : int
        Symbols, a chart row's padded width, and the symbol over the whole sentence.
    has_splits : bool
        Whether anchored splits are parts.
    word_symbol, binary_symbol, unary_symbol : ndarray
        The symbol of each column of "word" rows; of "span" rows, those built by binary rules, then by unary ones.
    word_column, binary_column, unary_column : ndarray (n_symbols,)
        The columns of each symbol, −1 where it has none.
    left_ptr, pair_left, pair_right : ndarray (n_symbols + 1,), (n_pairs,), (n_pairs,)
        The pairs of each left symbol, and the symbols of each pair.
    pair_ptr, parent, rule : ndarray (n_pairs + 1,), (n_rules,), (n_rules,)
        The binary rules of each pair: parent symbol, and number as users count.
    unary_parent, unary_child : ndarray (n_unaries,)
    parent_ptr, by_parent, pair_of : ndarray (n_symbols + 1,), (n_rules,), (n_rules,)
        The rules of each parent, as numbers in the order of pairs, and the pair of each rule.
    """

    n_symbols: int
    stride: int
    root: int
    has_splits: bool
    word_symbol: Integers
    binary_symbol: Integers
    unary_symbol: Integers
    word_column: Integers
    binary_column: Integers
    unary_column: Integers
    left_ptr: Integers
    pair_left: Integers
    pair_right: Integers
    pair_ptr: Integers
    parent: Integers
    rule: Integers
    unary_parent: Integers
    unary_child: Integers
    parent_ptr: Integers
    by_parent: Integers
    pair_of: Integers


class GrammarWorkspace(NamedTuple):
    """Charts with one row of symbols a cell, and single rows.

    Attributes
    ----------
    inside, below, outside : ndarray
        Sums with and without a unary rule on top, and derivatives by them; scaled, or logarithms.
    scale, binary_norm, unary_norm : ndarray (n_cells,)
        Logarithm taken out of a cell, and the maxima that its rows were divided by.
    row_of : ndarray (n_cells,) of int64
        The row of kind "span" of a cell; −1 where the span was pruned.
    split_weight : ndarray (n_cells · longest,)
        Scaled weights of the splits of each cell.
    weight, rule_count : ndarray
        Of rules in the order of pairs, then of unary rules.
    pair_sum, pair_outside : ndarray
        Sums over the splits of one span for each pair of children, and their derivatives.
    sums, factors, shares, totals : ndarray
        Rows in the making.
    nodes : ndarray
        Room for the nodes still to be opened of a derivation.
    state : ndarray (2,) of int64
        Whether small numbers are dropped instead of raised, and whether any was.
    """

    inside: Reals
    below: Reals
    outside: Reals
    scale: Reals
    binary_norm: Reals
    unary_norm: Reals
    row_of: Integers
    split_weight: Reals
    weight: Reals
    rule_count: Reals
    pair_sum: Reals
    pair_outside: Reals
    sums: Reals
    factors: Reals
    shares: Reals
    totals: Reals
    nodes: Integers
    state: Integers


def make_specification(n_symbols, root, rules, unaries, word_symbols, has_splits):
    """The specification of checked rules (R, 3) and unary rules (U, 2)."""
    order = np.lexsort((rules[:, 0], rules[:, 2], rules[:, 1]))
    parent, left, right = rules[order].T
    is_new = np.ones(len(rules), bool)
    is_new[1:] = (np.diff(left) != 0) | (np.diff(right) != 0)
    starts = np.flatnonzero(is_new)
    by_parent = np.argsort(parent, kind="stable")

    def integers(values):
        return np.ascontiguousarray(values, np.int64)

    def columns(symbols):
        result = np.full(n_symbols, -1)
        result[symbols] = np.arange(len(symbols))
        return integers(result)

    symbols = [integers(each) for each in (word_symbols, np.unique(parent), np.unique(unaries[:, 0]))]
    return GrammarSpecification(
        n_symbols, padded(n_symbols), root, has_splits, *symbols, *map(columns, symbols),
        offsets(np.bincount(left[starts], minlength=n_symbols)), integers(left[starts]), integers(right[starts]),
        integers(np.append(starts, len(rules))), integers(parent), integers(order), integers(unaries[:, 0]),
        integers(unaries[:, 1]), offsets(np.bincount(parent, minlength=n_symbols)), integers(by_parent),
        np.cumsum(is_new, dtype=np.int64) - 1,
    )  # fmt: skip


def make_workspace(s, longest):
    """Room for sentences up to `longest` words under the specification `s`."""
    n_cells, n_rules = longest * (longest + 1) // 2, len(s.parent) + len(s.unary_parent)
    chart, n_pairs = n_cells * s.stride + LANES, len(s.pair_right)
    rooms = [np.zeros(chart), np.zeros(chart), np.zeros(chart), np.zeros(n_cells), np.zeros(n_cells)]
    return GrammarWorkspace(
        *rooms, np.zeros(n_cells), np.zeros(n_cells, np.int64), np.zeros(n_cells * longest),
        np.zeros(n_rules + LANES),
        np.zeros(n_rules + LANES), np.zeros(n_pairs + LANES), np.zeros(n_pairs + LANES), np.zeros(s.stride),
        np.zeros(s.stride + LANES), np.zeros(s.stride + LANES), np.zeros(s.stride), np.zeros(6 * longest + 6, np.int64),
        np.zeros(2, np.int64),
    )  # fmt: skip


GRAMMAR = Oracle(
    "grammar",
    GrammarSpecification,
    GrammarWorkspace,
    grammar_expectations,
    grammar_log_partition,
    grammar_best,
)
