"""Rules: hard factors over vertices with two labels. A vertex *holds* if its label is 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arcs import Arcs, all_arcs, checked_arcs
from partwise.core.tree_checks import find_fault
from partwise.errors import InputError
from partwise.structures.graphs.messages.workspace import COUNT, PROJECTIVE_TREE, SPANNING_TREE

# Totals that a counting rule may distinguish: time and memory of a message are proportional to this.
_MOST_LEVELS = 100_000
# Words of a tree rule: numbers of arcs must fit into 32 bits.
_MOST_WORDS = 46_340


class Rule:
    """A hard factor.

    Attributes
    ----------
    vertices : tuple of int
    code : int
        The number of this kind of rule in compiled code.
    numbers : tuple of int
        Parameters of the rule for compiled code.
    """

    vertices: tuple[int, ...]
    code: int
    numbers: tuple[int, ...]

    def allows(self, labels: Any) -> np.ndarray:
        """Whether labellings (…, V) of a graph obey the rule, bool (…)."""
        return obey(self.code, self.numbers, np.asarray(labels)[..., list(self.vertices)])

    def check(self, labels: np.ndarray, where: str) -> None:
        """Raise unless the vertices are distinct vertices of a graph with `labels` (V,) labels, and have two labels."""
        for v in self.vertices:
            if not 0 <= v < len(labels):
                raise InputError(f"{where} has vertex {v}; the graph has {len(labels)} vertices, from 0 on")
            if labels[v] != 2:
                raise InputError(
                    f"{where} has vertex {v} with {labels[v]} labels; rules need vertices with two"
                )
        if len(set(self.vertices)) < len(self.vertices):
            raise InputError(f"{where} names a vertex twice")

    def renamed(self, names: Sequence[int]) -> Rule:
        """The same rule for vertices ``names[v]``."""
        result = object.__new__(type(self))
        result.__dict__.update(self.__dict__)
        result.vertices = tuple(int(names[v]) for v in self.vertices)
        return result

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.code, self.vertices, self.numbers))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vertices})"


class _Count(Rule):
    """low ≤ Σ sizes of the vertices that hold ≤ high. A negative size counts if its vertex does not hold."""

    code = COUNT

    def __init__(self, vertices: Sequence[int], sizes: Sequence[int] | None, low: int, high: int | None):
        """`sizes` None are ones, and `high` None is no limit."""
        self.vertices = _vertices(vertices, type(self).__name__)
        n = len(self.vertices)
        sizes, high = [1] * n if sizes is None else sizes, n if high is None else high
        self.sizes, self.low, self.high = tuple(sizes), low, high
        saturates = high >= sum(abs(size) for size in sizes)
        levels = (low if saturates else high) + 1
        if levels > _MOST_LEVELS:
            raise InputError(f"{type(self).__name__} counts up to {levels - 1}, more than {_MOST_LEVELS}")
        # Sizes beyond `levels` are equivalent to `levels`, which fits into 32 bits.
        clipped = (max(-levels, min(size, levels)) for size in self.sizes)
        self.numbers = (low, levels, int(saturates), *clipped)


class XOR(_Count):
    """Exactly one of the vertices holds."""

    def __init__(self, vertices: Sequence[int]):
        super().__init__(vertices, None, 1, 1)


class AtMostOne(_Count):
    """At most one of the vertices holds."""

    def __init__(self, vertices: Sequence[int]):
        super().__init__(vertices, None, 0, 1)


class Or(_Count):
    """At least one of the vertices holds."""

    def __init__(self, vertices: Sequence[int]):
        super().__init__(vertices, None, 1, None)


class ExactlyK(_Count):
    """Exactly `k` of the vertices hold."""

    def __init__(self, vertices: Sequence[int], k: int):
        k, n = _integer(k, "k"), len(_vertices(vertices, "ExactlyK"))
        if not 0 <= k <= n:
            raise InputError(f"ExactlyK: k = {k} of {n} vertices")
        super().__init__(vertices, None, k, k)

    def __repr__(self) -> str:
        return f"ExactlyK({self.vertices}, {self.low})"


class Implication(_Count):
    """If vertex `premise` holds, so does vertex `conclusion`."""

    def __init__(self, premise: int, conclusion: int):
        super().__init__([premise, conclusion], [-1, 1], 1, 2)

    def __repr__(self) -> str:
        return f"Implication({self.vertices[0]}, {self.vertices[1]})"


class Knapsack(_Count):
    """The sizes of the vertices that hold add up to at most `capacity`. Sizes are integers of at least 1."""

    def __init__(self, vertices: Sequence[int], sizes: Sequence[int], capacity: int):
        sizes, capacity = _integers(sizes, "Knapsack: sizes"), _integer(capacity, "capacity")
        if len(sizes) != len(_vertices(vertices, "Knapsack")):
            raise InputError(f"Knapsack: {len(sizes)} sizes for {len(vertices)} vertices")
        if capacity < 0 or min(sizes, default=1) < 1:
            raise InputError("Knapsack: sizes must be at least 1 and capacity at least 0")
        super().__init__(vertices, sizes, 0, capacity)

    def __repr__(self) -> str:
        return f"Knapsack({self.vertices}, {self.sizes}, {self.high})"


class Tree(Rule):
    """The vertices are arcs between words. The arcs that hold form a dependency tree.

    Parameters
    ----------
    n_words : int
    vertices : sequence of int
        One vertex for each arc.
    arcs : sequence of (head, modifier), or None
        In order of modifier, then head. Words count from 1, head 0 is the root. None: every arc, in that order.
    projective, single_root : bool
    """

    def __init__(
        self,
        n_words: int,
        vertices: Sequence[int] | None = None,
        arcs: Any = None,
        *,
        projective: bool = False,
        single_root: bool = True,
    ):
        n = _integer(n_words, "n_words")
        if not 1 <= n <= _MOST_WORDS:
            raise InputError(f"Tree: n_words must be from 1 to {_MOST_WORDS}, not {n}")
        lengths = np.array([n])
        if arcs is None:
            _, head, modifier = all_arcs(lengths)
        else:
            ends = [_integer(end, "Tree: arcs") for arc in arcs for end in arc]
            if min(ends, default=0) < 0 or max(ends, default=0) > n:
                raise InputError(f"Tree: arcs must join words 0 to {n}, not {min(ends)} and {max(ends)}")
            head, modifier = np.array(ends, np.int64).reshape(-1, 2).T
            checked_arcs(lengths, Arcs(np.array([0, len(head)]), head, modifier))
            if (np.diff(modifier * (n + 1) + head) <= 0).any():
                raise InputError("Tree: arcs must be in order of modifier, then head")
        self.vertices = _vertices(range(len(head)) if vertices is None else vertices, "Tree")
        if len(self.vertices) != len(head):
            raise InputError(f"Tree: {len(self.vertices)} vertices for {len(head)} arcs")
        self.n_words, self.projective, self.single_root = n, bool(projective), bool(single_root)
        self.arcs = tuple(zip(head.tolist(), modifier.tolist(), strict=True))
        self.code = PROJECTIVE_TREE if projective else SPANNING_TREE
        self.numbers = (int(single_root), n, *(end for arc in self.arcs for end in arc))

    def __repr__(self) -> str:
        return f"Tree({self.n_words}, projective={self.projective}, single_root={self.single_root})"


class RuledShape(NamedTuple):
    """A graph without scores, with rules: a :class:`GraphShape` and `rules`."""

    vertex_kind: np.ndarray
    scopes: Sequence[np.ndarray]
    rules: Sequence[Rule] = ()


def obey(code: int, numbers: Sequence[int], labels: np.ndarray) -> np.ndarray:
    """Whether labels (…, n) of a rule's own vertices obey it, bool (…)."""
    holds = np.asarray(labels) == 1
    if code == COUNT:
        low, n_levels, saturates, *rest = numbers
        sizes = np.array(rest)
        total = np.where(holds == (sizes > 0), np.abs(sizes), 0).sum(axis=-1)
        return (total >= low) & (bool(saturates) | (total < n_levels))
    single_root, n, *ends = numbers
    head, modifier = np.array(ends[::2]), np.array(ends[1::2])
    flat = holds.reshape(-1, holds.shape[-1])
    found = np.zeros(len(flat), bool)
    for i, taken in enumerate(flat):
        if np.array_equal(modifier[taken], np.arange(1, n + 1)):  # arcs are in order of modifier
            fault = find_fault(
                head[taken],
                np.array([0, n]),
                single_root=bool(single_root),
                projective=code == PROJECTIVE_TREE,
            )
            found[i] = fault is None
    return found.reshape(holds.shape[:-1])


def _vertices(vertices: Sequence[int], name: str) -> tuple[int, ...]:
    found = tuple(_integers(vertices, f"{name}: vertices"))
    if not found:
        raise InputError(f"{name} needs at least one vertex")
    return found


def _integers(values: Any, name: str) -> list[int]:
    try:
        return [_integer(value, name) for value in values]
    except TypeError:
        raise InputError(f"{name} must be a list of whole numbers, not {values!r:.40}") from None


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be whole numbers, not {value!r:.40}")
    return int(value)
