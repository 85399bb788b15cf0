"""Rows of integers for message passing: the blocks after a graph's layout (see `messages/workspace.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from partwise.compiled.boundary import addresses, pack, stack_packed
from partwise.compiled.oracles import NEVER_ASKED
from partwise.compiled.simd import LANES, padded
from partwise.core.arrays import offsets
from partwise.structures.contract import Shapes
from partwise.structures.graphs.layout import N_VERTICES, REST, Layout
from partwise.structures.graphs.messages.acceleration import history_size
from partwise.structures.graphs.messages.workspace import (
    COUNT,
    N_SIZES,
    PROJECTIVE_TREE,
    SPANNING_TREE,
    TABLE,
    FactorWorkspace,
    PackedFactorWorkspace,
)
from partwise.structures.graphs.rules import Rule


def factor_rest(layout: Layout, rules: Sequence[Rule]) -> np.ndarray:
    """All blocks after the layout, int32."""
    from partwise.structures.graphs.messages.forests import grow_forests

    scopes, sources, n = _merged(layout)
    codes = [TABLE] * len(scopes) + [rule.code for rule in rules]
    scopes = scopes + [list(rule.vertices) for rule in rules]
    numbers: list[tuple[int, ...]] = [()] * (len(scopes) - len(rules)) + [rule.numbers for rule in rules]
    slot, vertex = (
        offsets([len(scope) for scope in scopes]),
        np.array([v for s in scopes for v in s], np.int64),
    )
    hard = np.array([code != TABLE for code in codes], np.int64)
    forest, times, order, parent = grow_forests(n, slot, vertex, hard)
    # Visit factors in the order of the first forest: two sweeps are then exact for graphs without cycles.
    own = order[forest[0] : forest[1]] if len(scopes) else order
    visit = np.concatenate([own, np.setdiff1d(np.arange(len(scopes)), own)])
    place = np.empty(len(visit), np.int64)
    place[visit] = np.arange(len(visit))
    moved_slot = offsets(np.diff(slot)[visit])
    shift = moved_slot[:-1] - slot[visit]
    parent, order = parent + shift[place[order]], place[order]
    scopes, codes, numbers = (
        [scopes[f] for f in visit],
        [codes[f] for f in visit],
        [numbers[f] for f in visit],
    )
    sources = [(owner if owner < n else n + int(place[owner - n]), at, flip) for owner, at, flip in sources]
    return _row(layout.labels, scopes, codes, numbers, sources, (forest, times, order, parent))


def _merged(layout: Layout) -> tuple[list[list[int]], list[tuple[int, int, int]], int]:
    """Distinct scopes of tables, the sources (see `messages/workspace.py`), and the number of vertices."""
    n = len(layout.labels)
    sources = [(v, int(at), 0) for v, at in enumerate(layout.vertex_part)]
    known: dict[tuple[int, ...], int] = {}
    for f, at in enumerate(layout.factor_part.tolist()):
        scope = tuple(layout.scope(f))
        if len(scope) == 1:
            sources.append((scope[0], at, 0))
        elif len(scope) == 2 and scope[::-1] in known:
            sources.append((n + known[scope[::-1]], at, 1))
        else:
            sources.append((n + known.setdefault(scope, len(known)), at, 0))
    return [list(scope) for scope in known], sources, n


def _row(
    labels: np.ndarray,
    scopes: list[list[int]],
    codes: list[int],
    numbers: list[tuple[int, ...]],
    sources: list[tuple[int, int, int]],
    forests: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> np.ndarray:
    forest, times, order, parent = forests
    vertex = np.array([v for scope in scopes for v in scope], np.int64)
    place, exponential_at, n_entries, n_exponentials, n_numbers = [], [], 0, 0, 0
    for scope, code, own in zip(scopes, codes, numbers, strict=True):
        sizes = [int(labels[v]) for v in scope]
        exponential_at.append(n_exponentials)
        if code == TABLE:
            place.append(n_entries)
            n_entries += int(np.prod(sizes))
            n_exponentials += exponentials_of_pair(*sizes) if len(sizes) == 2 else 0
        else:
            place.append(n_numbers)
            n_numbers += len(own)
    first, message = offsets(labels), offsets(labels[vertex])
    head = [
        len(scopes), len(vertex), first[-1], n_entries, n_exponentials, len(sources), len(times), len(order), n_numbers,
    ]  # fmt: skip
    slot = offsets([len(scope) for scope in scopes])
    flat = [end for source in sources for end in source], [k for own in numbers for k in own]
    blocks = (
        head,
        first,
        slot,
        vertex,
        message,
        codes,
        place,
        exponential_at,
        flat[0],
        forest,
        times,
        order,
        parent,
        flat[1],
    )
    return np.concatenate([np.asarray(block, np.int64) for block in blocks]).astype(np.int32)


def exponentials_of_pair(rows: int, columns: int) -> int:
    """Entries of the exponentials of a pair's table."""
    return 4 if rows == columns == 2 else rows * padded(columns) + columns * padded(rows)


def factor_workspace(shapes: Shapes) -> PackedFactorWorkspace:
    """The workspace for the largest of some examples."""
    rows = [shapes.values[a:b] for a, b in zip(shapes.ptr[:-1], shapes.ptr[1:], strict=True)]
    sizes = np.array([[row[N_VERTICES], *row[row[REST] : row[REST] + N_SIZES]] for row in rows], np.int64)
    most = sizes.max(axis=0, initial=1)
    v, f, s, states, entries, exponentials, sources, forests, orders, _ = most.tolist()
    widest, levels, trees = 1, 1, [1, 1]
    for row in rows:
        found = _largest_factor(row)
        widest, levels = max(widest, found[0]), max(levels, found[1])
        trees = [max(a, b) for a, b in zip(trees, found[2:], strict=True)]
    slots_of_states = int(max((_n_messages(row) for row in rows), default=1))

    def integers(n: int) -> np.ndarray:
        return np.zeros(n, np.int64)

    def reals(n: int) -> np.ndarray:
        return np.zeros(n + 2 * LANES)

    work = FactorWorkspace(
        integers(N_SIZES + 1), integers(v + 1), integers(f + 1), integers(s), integers(s + 1), integers(f),
        integers(f), integers(f), integers(3 * sources), integers(forests + 1), integers(orders), integers(orders),
        reals(forests), reals(f), reals(states), reals(entries), reals(states), reals(slots_of_states),
        reals(exponentials), reals(widest), reals(widest), reals(2 * padded(widest)),
        reals(max(2 * padded(widest), v)), reals(levels), reals(states), reals(slots_of_states),
        reals(history_size(slots_of_states)), integers(states),
        integers(3 * (states + 2)), integers(v), integers(v), integers(v),
        integers(widest), integers(v + 2), integers(2 * s),
        reals(widest), reals(widest), *_tree_answers(trees), np.zeros(4),
    )  # fmt: skip
    return PackedFactorWorkspace(_kept(pack(work), work))


def report_of(workspace: PackedFactorWorkspace) -> np.ndarray:
    """The report (4,) of the last answer, see :class:`FactorWorkspace`."""
    packed: Any = workspace.packed
    return packed.held.report if isinstance(packed, _Keeper) else packed.report


def _n_messages(row: np.ndarray) -> int:
    n_vertices, rest = int(row[N_VERTICES]), int(row[REST])
    at = rest + N_SIZES + n_vertices + 1 + int(row[rest]) + 1 + int(row[rest + 1])
    return int(row[at + int(row[rest + 1])])


def _largest_factor(row: np.ndarray) -> tuple[int, int, int, int]:
    """Messages of the widest factor, entries of `levels`, words + 1 of projective and of spanning trees."""
    n_vertices, rest = int(row[N_VERTICES]), int(row[REST])
    n_factors, n_slots, n_forests, n_order = (int(row[rest + k]) for k in (0, 1, 6, 7))
    at = rest + N_SIZES + n_vertices + 1
    slot = row[at : at + n_factors + 1]
    message = row[at + n_factors + 1 + n_slots :][: n_slots + 1]
    at += n_factors + 1 + n_slots + n_slots + 1
    code, place = row[at : at + n_factors], row[at + n_factors : at + 2 * n_factors]
    numbers = row[at + 3 * n_factors + 3 * int(row[rest + 5]) + 2 * n_forests + 1 + 2 * n_order :]
    widths = np.diff(message[slot])
    states = np.where(np.repeat(code == TABLE, np.diff(slot)), np.diff(message), 1).astype(np.int64)
    tables = np.multiply.reduceat(states, slot[:-1]) if n_factors else states
    levels, trees = int(tables.max(initial=1)), [1, 1]
    for f in np.flatnonzero(code == COUNT).tolist():
        levels = max(levels, int(slot[f + 1] - slot[f] + 2) * int(numbers[place[f] + 1]))
    for k, kind in enumerate((PROJECTIVE_TREE, SPANNING_TREE)):
        for f in np.flatnonzero(code == kind).tolist():
            trees[k] = max(trees[k], int(numbers[place[f] + 1]) + 1)
    return int(widths.max(initial=1)), levels, trees[0], trees[1]


def rules_in(row: np.ndarray) -> list[tuple[int, np.ndarray, list[int]]]:
    """Code, vertices and numbers of each rule of a row."""
    n_vertices, rest = int(row[N_VERTICES]), int(row[REST])
    n_factors, n_slots, n_forests, n_order = (int(row[rest + k]) for k in (0, 1, 6, 7))
    at = rest + N_SIZES + n_vertices + 1
    slot, vertex = row[at : at + n_factors + 1], row[at + n_factors + 1 :][:n_slots]
    at += n_factors + 1 + n_slots + n_slots + 1
    code, place = row[at : at + n_factors], row[at + n_factors : at + 2 * n_factors]
    numbers = row[at + 3 * n_factors + 3 * int(row[rest + 5]) + 2 * n_forests + 1 + 2 * n_order :]
    hard = np.flatnonzero(code != TABLE)
    ends = np.append(np.sort(place[hard]), len(numbers))
    found = []
    for f in hard.tolist():
        end = ends[np.searchsorted(ends, place[f], side="right")]
        found.append((int(code[f]), vertex[slot[f] : slot[f + 1]], numbers[place[f] : end].tolist()))
    return found


class _Keeper(np.ndarray):
    """Addresses that keep their arrays alive."""

    held: Any = None


def _kept(packed: Any, held: Any) -> Any:
    if not isinstance(packed, np.ndarray):
        return packed
    result = packed.view(_Keeper)
    result.held = held
    return result


def _tree_answers(words: list[int]) -> tuple[Any, Any, Any, Any]:
    """Addresses of the oracles of trees, their specifications by kind and single_root, and their workspaces.

    `words` is one more than the most words of projective and of spanning trees, 1 if there are none.
    """
    return _no_trees() if max(words) == 1 else _answers_for(words)


@cache
def _no_trees() -> tuple[Any, Any, Any, Any]:
    return _answers_for([1, 1])


def _answers_for(words: list[int]) -> tuple[Any, Any, Any, Any]:
    from partwise.compiled.background_compile import obtain
    from partwise.structures.trees.projective import Projective
    from partwise.structures.trees.spanning import Spanning

    calls, works, specifications = [], [], []
    for kind, n in zip((Projective, Spanning), words, strict=True):
        structure = kind()
        for which in ("sums", "best"):
            calls.append(obtain(structure.oracle.task(which) if n > 1 else NEVER_ASKED))
        work = structure.workspace(Shapes(np.array([0, 1]), np.array([max(n - 1, 1)], np.int32)))
        works.append(_kept(pack(work), work))
        specifications += [pack(kind(single_root=single).specification()) for single in (False, True)]
    return addresses(calls), stack_packed(specifications), works[0], works[1]
