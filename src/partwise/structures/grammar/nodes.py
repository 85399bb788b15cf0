"""Flat arrays of the nodes of derivations, in preorder: children, rules, and checks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.core.arrays import block_of


class RuleTable(NamedTuple):
    """Rules, and the numbers of rules by their symbols.

    Attributes
    ----------
    rules, unaries : int64 arrays (R, 3), (U, 2)
    keys, numbers : int64 arrays (R + U,)
        Codes of all rules in ascending order, and which rule each is.
    n_symbols : int
    """

    rules: np.ndarray
    unaries: np.ndarray
    keys: np.ndarray
    numbers: np.ndarray
    n_symbols: int

    @classmethod
    def of(cls, n_symbols: int, rules: np.ndarray, unaries: np.ndarray) -> RuleTable:
        binary = _codes(n_symbols, rules[:, 0], rules[:, 1], rules[:, 2])
        unary = _codes(n_symbols, unaries[:, 0], unaries[:, 1], np.full(len(unaries), n_symbols))
        codes = np.concatenate([binary, unary])
        order = np.argsort(codes)
        return cls(rules, unaries, codes[order], order, n_symbols)

    def find(self, parent: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Rule numbers, −1 if there is none; for unary rules `right` is n_symbols."""
        if not len(self.keys):
            return np.full(len(parent), -1)
        wanted = _codes(self.n_symbols, parent, left, right)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, self.numbers[at], -1)


def _codes(n_symbols: int, parent: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (parent * n_symbols + left) * (n_symbols + 1) + right


def _next_with_same_end(example: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The next node of the same derivation that ends with the same word; its own number if there is none.

    Below a node built by a unary rule that is its child, below one built by a binary rule its right child.
    """
    order = np.lexsort((np.arange(len(last)), last, example))
    result = np.arange(len(last))
    same = (np.diff(last[order]) == 0) & (np.diff(example[order]) == 0)
    result[order[:-1][same]] = order[1:][same]
    return result


def children_of(labels: np.ndarray, ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last child of every node; of word nodes whatever comes next."""
    left = np.minimum(np.arange(len(labels)) + 1, max(len(labels) - 1, 0))
    return left, _next_with_same_end(block_of(ptr), labels[:, 1])


def find_fault(
    labels: np.ndarray,
    ptr: np.ndarray,
    lengths: np.ndarray,
    root: int,
    table: RuleTable,
    word_column: np.ndarray,
) -> tuple[int, int, str] | None:
    """The first wrong node (example, node, what is wrong), or None.

    Each condition looks at a node and its children. Together they leave every node but the first one parent: nodes
    behind a node with children are left children, those behind a word are right children, and of both there are as
    many as nodes to have them.
    """
    first, last, symbol, rule = labels.T
    example, n_binary, n_rules = block_of(ptr), len(table.rules), len(table.rules) + len(table.unaries)
    is_word, is_unary = rule == -1, rule >= n_binary
    is_binary = ~is_word & ~is_unary
    left, right = children_of(labels, ptr)
    in_example = np.append(example[1:] == example[:-1], False)
    is_right = np.zeros(len(labels), bool)
    is_right[right[is_binary & (right != np.arange(len(labels)))]] = True
    after_word = np.append(False, is_word[:-1] & in_example[:-1])
    starts = ptr[:-1]
    tests = [
        (
            "is not a node over words of the sentence",
            (first < 0) | (last < first) | (last >= lengths[example]),
        ),
        (f"has no symbol between 0 and {table.n_symbols - 1}", (symbol < 0) | (symbol >= table.n_symbols)),
        (f"has no rule between −1 and {n_rules - 1}", (rule < -1) | (rule >= n_rules)),
    ]
    fault = _first_of(tests, example)
    if fault is not None:
        return fault
    is_top = np.zeros(len(labels), bool)
    is_top[starts] = True
    right_of_cut = last[left] + 1
    shape = is_binary & ~(
        in_example
        & (first[left] == first)
        & (last[left] < last)
        & (first[right] == right_of_cut)
        & (right > left)
    )
    found = table.find(symbol, symbol[left], np.where(is_unary, table.n_symbols, symbol[right]))
    tests = [
        (
            f"is not the whole sentence with the symbol {root}, which every derivation begins with",
            is_top & ((first != 0) | (last != lengths[example] - 1) | (symbol != root)),
        ),
        ("stands over more than one word without a rule", is_word & (first != last)),
        ("is none of the symbols over words", is_word & (word_column[symbol] < 0)),
        ("has no two neighbouring nodes below it", shape),
        ("is built by a unary rule from something else than one node", is_unary & (right != left)),
        ("is built by a unary rule from a node that is, too", is_unary & is_unary[left]),
        ("is built by a unary rule from another span", is_unary & (first[left] != first)),
        ("is not what its rule builds from the nodes below it", ~is_word & (found != rule)),
        ("belongs to no node above it", after_word & ~is_right),
    ]
    return _first_of(tests, example)


def _first_of(tests: list[tuple[str, np.ndarray]], example: np.ndarray) -> tuple[int, int, str] | None:
    found = [(int(wrong.argmax()), what) for what, wrong in tests if wrong.any()]
    if not found:
        return None
    node, what = min(found, key=lambda each: each[0])
    return int(example[node]), node, what


def in_preorder(
    example: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    symbol: np.ndarray,
    is_word: np.ndarray,
    is_unary: np.ndarray,
    table: RuleTable,
) -> np.ndarray:
    """Nodes of derivations in any order as labels, with the rules that built them."""
    order = np.lexsort((~is_unary, -last, first, example))
    example, first, last, symbol = example[order], first[order], last[order], symbol[order]
    is_word, is_unary = is_word[order], is_unary[order]
    left = np.minimum(np.arange(len(first)) + 1, max(len(first) - 1, 0))
    right = _next_with_same_end(example, last)
    rule = table.find(symbol, symbol[left], np.where(is_unary, table.n_symbols, symbol[right]))
    return np.stack([first, last, symbol, np.where(is_word, -1, rule)], axis=1)
