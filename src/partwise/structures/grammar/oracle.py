"""The records of compiled code for grammars, and the oracle.

Rules are grouped by their pair of children. Sums over splits are taken once per pair, for all parents of the pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, padded
from partwise.core.arrays import offsets
from partwise.structures.grammar.dense import BATCH
from partwise.structures.grammar.inside import grammar_log_partition
from partwise.structures.grammar.outside import grammar_expectations
from partwise.structures.grammar.recursion import grammar_best

_FULL = 4  # A grammar is dense if it has at least 1 / _FULL of all possible binary rules.


class GrammarSpecification(NamedTuple):
    """Rules as loops read them.

    Attributes
    ----------
    n_symbols, stride, root : int
        Symbols, a chart row's padded width, and the symbol over the whole sentence.
    parent_stride : int
        The padded number of symbols that binary rules build.
    has_splits : bool
        Whether anchored splits are parts.
    is_dense : bool
        Whether a large share of all possible rules exists, so that sums are products of matrices.
    is_anchored : bool
        Whether anchored rules are parts, and derivations use those that their example lists.
    word_symbol, binary_symbol, unary_symbol : ndarray
        The symbol of each column of "word" rows; of "span" rows, those built by binary rules, then by unary ones.
    word_column, binary_column, unary_column : ndarray (n_symbols,)
        The columns of each symbol, −1 if it has none.
    left_symbol, left_ptr, pair_left, pair_right : ndarray (n_left,), (n_left + 1,), (n_pairs,), (n_pairs,)
        Symbols that are left children, the pairs of each, and the symbols of each pair.
    pair_ptr, parent, parent_column, rule : ndarray (n_pairs + 1,), then (n_rules,)
        The binary rules of each pair: parent symbol, its column, and number as users count.
    place : ndarray (n_rules,)
        Where the rule stands in the tensor of a dense grammar; empty for others.
    unary_parent, unary_child : ndarray (n_unaries,)
    unary_ptr, unary_by_parent : ndarray (n_symbols + 1,), (n_unaries,)
        The unary rules of each parent.
    parent_ptr, by_parent, pair_of : ndarray (n_symbols + 1,), (n_rules,), (n_rules,)
        The rules of each parent, as numbers in the order of pairs, and the pair of each rule.
    """

    n_symbols: int
    stride: int
    root: int
    parent_stride: int
    has_splits: bool
    is_dense: bool
    is_anchored: bool
    word_symbol: Integers
    binary_symbol: Integers
    unary_symbol: Integers
    word_column: Integers
    binary_column: Integers
    unary_column: Integers
    left_symbol: Integers
    left_ptr: Integers
    pair_left: Integers
    pair_right: Integers
    pair_ptr: Integers
    parent: Integers
    parent_column: Integers
    rule: Integers
    place: Integers
    unary_parent: Integers
    unary_child: Integers
    unary_ptr: Integers
    unary_by_parent: Integers
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
        The row of kind "span" of a cell; −1 if the span was pruned.
    split_weight : ndarray (n_cells · longest,)
        Scaled weights of the splits of each cell.
    anchored_weight : ndarray (n_anchored,)
        Scaled weights of anchored rules.
    unary_top : ndarray (n_cells,)
        The logarithm taken out of a cell's unary anchored rules.
    weight, rule_count : ndarray
        Of rules in the order of pairs, then of unary rules.
    pair_sum, pair_outside : ndarray
        Sums over the splits of one span for each pair of children, and their derivatives.
    sums, factors, shares : ndarray
        Rows in the making.
    ways : ndarray
        The ways to build one node.
    parents : ndarray
        Sums of (or derivatives by) the symbols that binary rules build over some spans.
    tensor, by_parent, tensor_count : ndarray
        Weights of a dense grammar's rules by [left, right, parent], by [parent, left, right], and their counts.
    pairs, pair_derivatives, transposed, rights : ndarray
        Matrices of pairs of some spans, and derivatives by them; one of these transposed; rows of right nodes.
    first_split : ndarray of int64
        The first split part of some spans.
    nodes, derivation : ndarray of int64
        The nodes still to be opened of a derivation, and those that were.
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
    anchored_weight: Reals
    unary_top: Reals
    weight: Reals
    rule_count: Reals
    pair_sum: Reals
    pair_outside: Reals
    sums: Reals
    factors: Reals
    shares: Reals
    ways: Reals
    parents: Reals
    tensor: Reals
    by_parent: Reals
    tensor_count: Reals
    pairs: Reals
    pair_derivatives: Reals
    transposed: Reals
    rights: Reals
    first_split: Integers
    nodes: Integers
    derivation: Integers
    state: Integers


def make_specification(n_symbols, root, rules, unaries, word_symbols, has_splits, is_anchored):
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
    word_column, binary_column, unary_column = map(columns, symbols)
    stride, n_parents = padded(n_symbols), len(symbols[1])
    is_dense = not is_anchored and 0 < n_parents * n_symbols**2 <= _FULL * len(rules)
    place = (left * stride + right) * padded(n_parents) + binary_column[parent]
    return GrammarSpecification(
        n_symbols=n_symbols,
        stride=stride,
        root=root,
        parent_stride=padded(n_parents),
        has_splits=has_splits,
        is_dense=is_dense,
        is_anchored=is_anchored,
        word_symbol=symbols[0],
        binary_symbol=symbols[1],
        unary_symbol=symbols[2],
        word_column=word_column,
        binary_column=binary_column,
        unary_column=unary_column,
        left_symbol=np.unique(left),
        left_ptr=offsets(np.unique(left[starts], return_counts=True)[1]),
        pair_left=integers(left[starts]),
        pair_right=integers(right[starts]),
        pair_ptr=integers(np.append(starts, len(rules))),
        parent=integers(parent),
        parent_column=integers(binary_column[parent]),
        rule=integers(order),
        place=integers(place if is_dense else []),
        unary_parent=integers(unaries[:, 0]),
        unary_child=integers(unaries[:, 1]),
        unary_ptr=offsets(np.bincount(unaries[:, 0], minlength=n_symbols)),
        unary_by_parent=integers(np.argsort(unaries[:, 0], kind="stable")),
        parent_ptr=offsets(np.bincount(parent, minlength=n_symbols)),
        by_parent=integers(by_parent),
        pair_of=np.cumsum(is_new, dtype=np.int64) - 1,
    )


def make_workspace(s, longest, n_anchored=0):
    """Room for sentences up to `longest` words, and `n_anchored` anchored rules, under the specification `s`."""
    n_cells, n_rules = longest * (longest + 1) // 2, len(s.parent) + len(s.unary_parent)
    n_pairs, block = len(s.pair_right) + LANES, s.n_symbols * s.stride * s.is_dense
    most_ways = 1 + max(np.diff(s.unary_ptr).max(), np.diff(s.parent_ptr).max() * (longest - 1))

    def room(size):
        return np.zeros(size + LANES)

    return GrammarWorkspace(
        inside=room(n_cells * s.stride),
        below=room(n_cells * s.stride),
        outside=room(n_cells * s.stride),
        scale=room(n_cells),
        binary_norm=room(n_cells),
        unary_norm=room(n_cells),
        row_of=np.zeros(n_cells, np.int64),
        split_weight=room(n_cells * longest),
        anchored_weight=room(n_anchored),
        unary_top=room(n_cells * s.is_anchored),
        weight=room(n_rules),
        rule_count=room(n_rules),
        pair_sum=room(n_pairs),
        pair_outside=room(n_pairs),
        sums=room(s.stride),
        factors=room(s.stride),
        shares=room(s.stride),
        ways=room(most_ways),
        parents=room(BATCH * s.parent_stride),
        tensor=room(block * s.parent_stride),
        by_parent=room(block * s.parent_stride),
        tensor_count=room(block * s.parent_stride),
        pairs=room(BATCH * block),
        pair_derivatives=room(BATCH * block),
        transposed=room(s.stride * s.stride * s.is_dense),
        rights=room(longest * s.stride * s.is_dense),
        first_split=np.zeros(BATCH, np.int64),
        nodes=np.zeros(6 * longest + 6, np.int64),
        derivation=np.zeros(12 * longest, np.int64),
        state=np.zeros(2, np.int64),
    )


GRAMMAR = Oracle(
    "grammar",
    GrammarSpecification,
    GrammarWorkspace,
    grammar_expectations,
    grammar_log_partition,
    grammar_best,
)
