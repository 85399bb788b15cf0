"""A tree of cliques from a graph: vertices are eliminated one by one, by the fewest new edges (min-fill)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import log, prod
from typing import NamedTuple

# Elimination stops early only for graphs with more vertices than this: others take little time.
_LARGE = 1000


class Clique(NamedTuple):
    """A clique: its vertices in the order of elimination.

    Attributes
    ----------
    own : list of int
        Vertices that are in no clique nearer to the root.
    shared : list of int
        Vertices that the next clique towards the root also has. Empty at a root.
    """

    own: list[int]
    shared: list[int]


class Triangulation(NamedTuple):
    """A junction tree.

    Attributes
    ----------
    cliques : list of Clique
        Children before their parents.
    home : list of int
        For every vertex, the clique that eliminates it.
    place : list of int
        For every vertex, its position in the order of elimination.
    width : int
        Vertices of the largest clique, less one.
    entries : int
        Entries of all cliques' tables.
    is_complete : bool
        False if the limit was exceeded before the end. `width` and `entries` are then lower bounds.
    """

    cliques: list[Clique]
    home: list[int]
    place: list[int]
    width: int
    entries: int
    is_complete: bool


def triangulate(labels: Sequence[int], scopes: Sequence[Sequence[int]], limit: int) -> Triangulation:
    """Eliminate by the fewest new edges, then the smallest table, then the lower number; merge nested cliques.

    Parameters
    ----------
    labels : sequence of int (V,)
        Labels of each vertex.
    scopes : sequence of sequences of int
        Sets of vertices that are joined with each other.
    limit : int
        Stop early for a large graph if its tables have more entries than this.
    """
    order, later, is_complete = _eliminate(labels, _neighbours(len(labels), scopes), limit)
    place = [len(labels)] * len(labels)
    for i, v in enumerate(order):
        place[v] = i
    cliques, home = _merge(order, later, place)
    sizes = [len(clique.own) + len(clique.shared) for clique in cliques]
    entries = sum(prod(labels[v] for v in (*clique.own, *clique.shared)) for clique in cliques)
    return Triangulation(cliques, home, place, max(sizes, default=1) - 1, entries, is_complete)


def _neighbours(n: int, scopes: Sequence[Sequence[int]]) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(n)]
    for scope in scopes:
        for v in scope:
            found[v].update(scope)
    for v in range(n):
        found[v].discard(v)
    return found


class _Elimination:
    """A graph during elimination, with the cost of eliminating each vertex next.

    `missing` counts the missing edges between neighbours of a vertex. `size` is the log of the entries of its clique's
    table.
    """

    def __init__(self, labels: Sequence[int], neighbours: list[set[int]]):
        self.neighbours, self.logs = neighbours, [log(n) for n in labels]
        self.size = [self.logs[v] + sum(self.logs[u] for u in around) for v, around in enumerate(neighbours)]
        self.missing = [
            (len(around) * (len(around) - 1) - sum(len(around & neighbours[u]) for u in around)) // 2
            for around in neighbours
        ]

    def cost(self, v: int) -> tuple[int, float, int]:
        return self.missing[v], self.size[v], v

    def eliminate(self, v: int) -> set[int]:
        """Join the neighbours of v with each other and remove v. Returns the vertices whose cost changed."""
        around = self.neighbours[v]
        touched = set(around)
        if self.missing[v]:
            for a in around:
                for b in around - self.neighbours[a]:
                    if b != a:
                        touched |= self._join(a, b)
        for u in around:
            others = self.neighbours[u]
            self.missing[u] -= len(others) - len(others & around) - 1  # v itself is not around v
            others.discard(v)
            self.size[u] -= self.logs[v]
        touched.discard(v)
        return touched

    def _join(self, a: int, b: int) -> set[int]:
        """Add an edge. Returns the common neighbours of its ends."""
        of_a, of_b = self.neighbours[a], self.neighbours[b]
        common = of_a & of_b
        for u in common:
            self.missing[u] -= 1
        self.missing[a] += len(of_a) - len(common)
        self.missing[b] += len(of_b) - len(common)
        of_a.add(b)
        of_b.add(a)
        self.size[a] += self.logs[b]
        self.size[b] += self.logs[a]
        return common


def _eliminate(
    labels: Sequence[int], neighbours: list[set[int]], limit: int
) -> tuple[list[int], list[set[int]], bool]:
    """The order, the neighbours of each vertex when it is eliminated, and whether all vertices were eliminated."""
    graph, n = _Elimination(labels, neighbours), len(labels)
    current = [graph.cost(v) for v in range(n)]
    waiting = current.copy()
    heapify(waiting)
    order: list[int] = []
    is_left, entries = [True] * n, 0
    while waiting:
        found = heappop(waiting)
        v = found[2]
        if not is_left[v] or current[v] != found:
            continue  # The entry is out of date.
        order.append(v)
        is_left[v] = False
        entries += labels[v] * prod([labels[u] for u in neighbours[v]])
        for u in graph.eliminate(v):
            current[u] = graph.cost(u)
            heappush(waiting, current[u])
        if entries > limit and n > _LARGE:
            break
    return order, [neighbours[v] for v in order], len(order) == n


def _merge(order: list[int], later: list[set[int]], place: list[int]) -> tuple[list[Clique], list[int]]:
    """Cliques. A vertex joins the clique of a child if that child's shared vertices are exactly its own clique."""
    home = [-1] * len(place)
    own: list[list[int]] = []
    shared: list[set[int]] = []
    waiting: dict[int, list[int]] = {}  # cliques by the first of their shared vertices to be eliminated
    for v, rest in zip(order, later, strict=True):
        together = rest | {v}
        number = next((c for c in waiting.pop(v, []) if shared[c] == together), -1)
        if number < 0:
            number = len(own)
            own.append([])
            shared.append(set())
        own[number].append(v)
        shared[number], home[v] = rest, number
        if rest:
            waiting.setdefault(min(rest, key=place.__getitem__), []).append(number)
    ranked = sorted(range(len(own)), key=lambda c: place[own[c][-1]])  # children before their parents
    number_of = {c: i for i, c in enumerate(ranked)}
    cliques = [Clique(own[c], sorted(shared[c], key=place.__getitem__)) for c in ranked]
    return cliques, [number_of.get(c, -1) for c in home]
