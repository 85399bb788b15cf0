"""A junction tree as a list of integers: the products and sums of tables that compiled code computes.

All tables are in one buffer: first the parts (the tables of vertices and factors), then the number one, then products
and messages. A clique's table is the product of the tables of its own vertices and factors and of the messages of its
children, two at a time, the smallest first. Its message is the table summed over its own vertices. On the way back, a
second buffer has the marginals of every table at the same position. The marginals of a product's two factors are sums
of the product's marginals. The axes of a table are in the order of elimination, except for tables of factors.

The list (after the layout, see `graphs/layout.py`):

    size of the buffer, tables and messages, tables, steps
    for every table: first part, size, number of vertices and factors that use it
    for every step: its first entry in this list
    the steps:
        PRODUCT, out, a, b, range of a, range of b, axes, sizes (axes), strides of a (axes), strides of b (axes)
        MESSAGE, table, message, own entries, shared entries, range of the message, own vertices, shared vertices,
            the own ones, the shared ones

A range is the number of a table or message, whose smallest entry compiled code keeps, or −1 for a product. If `out`
equals `a`, the product is computed in place.
"""

from __future__ import annotations

from itertools import pairwise
from math import log10, prod
from typing import NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.errors import InputError
from partwise.structures.graphs.junction_tree.triangulation import Clique, triangulate
from partwise.structures.graphs.layout import Layout

BUFFER, N_RANGES, N_TABLES, N_STEPS, TABLES = range(5)  # TABLES: first entry of the tables
PRODUCT, MESSAGE = range(2)


class _Table(NamedTuple):
    """A table in the buffer: first entry, strides of its vertices, range, and whether it is a product."""

    at: int
    strides: dict[int, int]
    range: int
    is_product: bool


class _Writer:
    """The steps written so far, and the size of the buffer."""

    def __init__(self, labels: list[int], place: list[int], n_parts: int, n_ranges: int):
        self.labels, self.place, self.n_ranges = labels, place, n_ranges
        self.one, self.size = n_parts, n_parts + LANES
        self.steps: list[list[int]] = []

    def allocate(self, size: int) -> int:
        """The first entry of a new table. Vectors may write up to `LANES` entries after it."""
        first = self.size
        self.size += size + LANES
        return first

    def entries(self, vertices: frozenset[int]) -> int:
        return prod(self.labels[v] for v in vertices)

    def strides(self, vertices: list[int]) -> dict[int, int]:
        """Strides of a table whose axes are in this order."""
        result, stride = {}, 1
        for v in reversed(vertices):
            result[v] = stride
            stride *= self.labels[v]
        return result

    def product(self, a: _Table, b: _Table) -> _Table:
        """a · b, in place if the larger is a product that has all vertices already."""
        if len(b.strides) > len(a.strides):
            a, b = b, a
        vertices = sorted(a.strides.keys() | b.strides.keys(), key=self.place.__getitem__)
        if a.is_product and len(vertices) == len(a.strides):
            out = a
        else:
            at = self.allocate(prod(self.labels[v] for v in vertices))
            out = _Table(at, self.strides(vertices), -1, True)
        axes = _joined_axes(
            [
                (self.labels[v], a.strides.get(v, 0), b.strides.get(v, 0))
                for v in vertices
                if self.labels[v] > 1
            ]
        )
        flat = [number for column in zip(*axes, strict=True) for number in column]
        self.steps.append([PRODUCT, out.at, a.at, b.at, a.range, b.range, len(axes), *flat])
        return out

    def in_order(self, table: _Table) -> _Table:
        """The table of a factor, copied if its axes are not in the order of elimination."""
        vertices = sorted(table.strides, key=self.place.__getitem__)
        if all(table.strides[a] > table.strides[b] for a, b in pairwise(vertices)):
            return table
        return self.copied(table)

    def copied(self, table: _Table) -> _Table:
        """The table times one."""
        return self.product(table, _Table(self.one, {}, -1, False))

    def message(self, table: _Table, clique: Clique) -> _Table:
        """The sum of `table` over the clique's own vertices."""
        own, shared = (prod(self.labels[v] for v in some) for some in clique)
        at, number = self.allocate(shared), self.n_ranges
        self.n_ranges += 1
        self.steps.append(
            [MESSAGE, table.at, at, own, shared, number, *map(len, clique), *clique.own, *clique.shared]
        )
        return _Table(at, self.strides(clique.shared), number, False)

    def product_of_all(self, tables: list[_Table]) -> _Table:
        """Multiply equal scopes first, then scopes inside others, then the pair with the smallest product.

        Among equally small products, multiply vertices that are eliminated later first: their axes are the inner ones,
        and later products then repeat long runs.
        """
        by_scope: dict[frozenset[int], _Table] = {}
        for table in tables:
            scope = frozenset(table.strides)
            by_scope[scope] = self.product(by_scope[scope], table) if scope in by_scope else table
        for scope in sorted(by_scope, key=self.entries):
            around = [other for other in by_scope if scope < other]
            if around:
                wider = min(around, key=self.entries)
                by_scope[wider] = self.product(by_scope[wider], by_scope.pop(scope))
        while len(by_scope) > 1:
            scopes = list(by_scope)
            pairs = [
                (self.entries(s | t), i, j) for j, t in enumerate(scopes) for i, s in enumerate(scopes[:j])
            ]
            _, i, j = min(pairs)
            a, b = by_scope.pop(scopes[i]), by_scope.pop(scopes[j])
            scope, found = scopes[i] | scopes[j], self.product(a, b)
            by_scope[scope] = self.product(by_scope[scope], found) if scope in by_scope else found
        found = next(iter(by_scope.values()))
        return found if found.is_product else self.copied(found)


def _joined_axes(axes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Merge neighbouring axes (size, stride, stride) if a step of the outer equals all steps of the inner."""
    joined: list[tuple[int, int, int]] = []
    for size, a, b in axes:
        if joined and joined[-1][1:] == (size * a, size * b):
            joined[-1] = joined[-1][0] * size, a, b
        else:
            joined.append((size, a, b))
    return joined or [(1, 0, 0)]


def junction_tree_programme(layout: Layout, table_limit: int) -> np.ndarray:
    """The list of integers of a graph, int32. Raises if its tables have more than `table_limit` entries."""
    labels = layout.labels.tolist()
    scopes = [layout.scope(factor) for factor in range(len(layout.factor_part))]
    tree = triangulate(labels, scopes, table_limit)
    if tree.entries > table_limit:
        _refuse(tree.width, tree.entries, table_limit, tree.is_complete)
    tables, number_of = _tables(layout, labels, scopes)
    writer = _Writer(labels, tree.place, layout.n_parts, len(tables))
    leaves: list[list[_Table]] = [[] for _ in tree.cliques]
    for v, part in enumerate(layout.vertex_part.tolist()):
        leaves[tree.home[v]].append(_Table(part, {v: 1}, number_of[part], False))
    for scope, part in zip(scopes, layout.factor_part.tolist(), strict=True):
        first = min(scope, key=tree.place.__getitem__)
        table = _Table(part, writer.strides(scope), number_of[part], False)
        leaves[tree.home[first]].append(table)
    for clique, own in zip(tree.cliques, leaves, strict=True):
        message = writer.message(writer.product_of_all([writer.in_order(table) for table in own]), clique)
        if clique.shared:
            leaves[tree.home[clique.shared[0]]].append(message)
    if writer.size > np.iinfo(np.int32).max:
        raise InputError(
            f"graph: its tables have {writer.size:,} entries; lower table_limit = {table_limit:,}"
        )
    head = [writer.size, writer.n_ranges, len(tables), len(writer.steps)]
    begins = TABLES + 3 * len(tables) + len(writer.steps)
    starts = begins + np.cumsum([0, *map(len, writer.steps)])[:-1]
    flat = [number for step in writer.steps for number in step]
    return np.concatenate([head, np.reshape(tables, -1), starts, flat]).astype(np.int32)


def _tables(
    layout: Layout, labels: list[int], scopes: list[list[int]]
) -> tuple[list[list[int]], dict[int, int]]:
    """[part, size, uses] of every table, in the order of the parts, and their numbers by part."""
    found = {
        part: [part, size, 1] for part, size in zip(layout.vertex_part.tolist(), labels, strict=True)
    }  # fmt: skip
    for scope, part in zip(scopes, layout.factor_part.tolist(), strict=True):
        if part in found:
            found[part][2] += 1
        else:
            found[part] = [part, prod(labels[v] for v in scope), 1]
    tables = [found[part] for part in sorted(found)]
    return tables, {table[0]: number for number, table in enumerate(tables)}


def _refuse(width: int, entries: int, limit: int, is_complete: bool) -> None:
    least = "" if is_complete else "at least "
    exact = (
        f"{entries:,} entries ({8e-9 * entries:,.1f} GB)"
        if entries < 10**15
        else f"10^{int(log10(entries))} entries"
    )
    raise InputError(
        f"graph: its tree-width (by min-fill) is {least}{width}, and exact tables would have {least}{exact}, more than "
        f"table_limit = {limit:,}; use FactorGraph with tree-reweighted inference, or raise table_limit"
    )
