"""From a graph to a tree of cliques: vertices are eliminated one by one, each time one that needs few new edges.

Sets of vertices are Python integers, bit v for vertex v.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import prod
from typing import NamedTuple

_LARGE = 300  # vertices from which on a graph that is beyond the limit is not followed to the end


class Clique(NamedTuple):
    """Vertices in the order of their elimination, no table wider than these.

    Attributes
    ----------
    own : list of int
        Those that no clique nearer to the root has.
    shared : list of int
        Those shared with the next clique towards the root; empty at a root.
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
        For every vertex the clique that has it as its own: where it is eliminated.
    place : list of int
        For every vertex when it is eliminated.
    width : int
        Vertices of the largest clique, less one.
    entries : int
        Entries of all cliques' tables.
    is_complete : bool
        False where the limit was passed before all vertices were eliminated: the two numbers are lower bounds.
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
        Vertices that are joined with each other.
    limit : int
        Entries of tables from which on a large graph is not followed to the end.
    """
    order, later, is_complete = _eliminate(labels, _neighbours(len(labels), scopes), limit)
    place = [len(labels)] * len(labels)
    for i, v in enumerate(order):
        place[v] = i
    cliques, home = _merge(order, later, place)
    sizes = [len(clique.own) + len(clique.shared) for clique in cliques]
    entries = sum(prod(labels[v] for v in (*clique.own, *clique.shared)) for clique in cliques)
    return Triangulation(cliques, home, place, max(sizes, default=1) - 1, entries, is_complete)


def members(vertices: int) -> Iterator[int]:
    """The vertices of a set, in ascending order."""
    while vertices:
        lowest = vertices & -vertices
        yield lowest.bit_length() - 1
        vertices ^= lowest


def _neighbours(n: int, scopes: Sequence[Sequence[int]]) -> list[int]:
    found = [0] * n
    for scope in scopes:
        together = 0
        for v in scope:
            together |= 1 << v
        for v in scope:
            found[v] |= together
    for v in range(n):
        found[v] &= ~(1 << v)
    return found


def _missing(neighbours: list[int], v: int) -> int:
    """Edges between neighbours of v that are not there."""
    around = neighbours[v]
    missing = sum((around & ~neighbours[u]).bit_count() - 1 for u in members(around))
    return missing // 2


def _eliminate(labels: Sequence[int], neighbours: list[int], limit: int) -> tuple[list[int], list[int], bool]:
    """The order, for each vertex in it the neighbours left at its turn, and whether the end was reached."""
    n = len(labels)

    def entry(v: int) -> tuple[int, int, int]:
        return _missing(neighbours, v), labels[v] * prod(labels[u] for u in members(neighbours[v])), v

    current = [entry(v) for v in range(n)]
    waiting = current.copy()
    heapify(waiting)
    order: list[int] = []
    later: list[int] = []
    left, entries = (1 << n) - 1, 0
    while waiting:
        found = heappop(waiting)
        v = found[2]
        if not left >> v & 1 or current[v] != found:
            continue  # an entry of before something changed
        order.append(v)
        later.append(neighbours[v])
        left ^= 1 << v
        entries += found[1]
        if entries > limit and n > _LARGE:
            return order, later, not left
        for u in _connect(neighbours, v, found[0] > 0):
            fresh = entry(u)
            if fresh != current[u]:
                current[u] = fresh
                heappush(waiting, fresh)
    return order, later, True


def _connect(neighbours: list[int], v: int, needs_edges: bool) -> Iterator[int]:
    """Take v out and join its neighbours with each other; returns those for which something changed."""
    around, touched = neighbours[v], neighbours[v]
    bit = 1 << v
    if needs_edges:
        new = [(u, around & ~neighbours[u] & ~(1 << u)) for u in members(around)]
        for u, others in new:
            neighbours[u] |= others
        for u, others in new:
            for w in members(others >> u << u):  # each new edge once
                touched |= neighbours[u] & neighbours[w]
    for u in members(around):
        neighbours[u] &= ~bit
    return members(touched & ~bit)


def _merge(order: list[int], later: list[int], place: list[int]) -> tuple[list[Clique], list[int]]:
    """Cliques, a vertex joining that of a child where the child's shared vertices are just its own clique."""
    home = [-1] * len(place)
    own: list[list[int]] = []
    shared: list[int] = []
    waiting: dict[int, list[int]] = {}  # cliques by the first of their shared vertices to be eliminated
    for v, rest in zip(order, later, strict=True):
        together = rest | 1 << v
        number = next((c for c in waiting.pop(v, []) if shared[c] == together), -1)
        if number < 0:
            number = len(own)
            own.append([])
            shared.append(0)
        own[number].append(v)
        shared[number], home[v] = rest, number
        if rest:
            waiting.setdefault(min(members(rest), key=place.__getitem__), []).append(number)
    ranked = sorted(range(len(own)), key=lambda c: place[own[c][-1]])  # children before their parents
    number_of = {c: i for i, c in enumerate(ranked)}
    cliques = [Clique(own[c], sorted(members(shared[c]), key=place.__getitem__)) for c in ranked]
    return cliques, [number_of.get(c, -1) for c in home]
