"""The order of visits: examples whose last visits promise the largest gain come first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.core.time_limit import is_out_of_time, visited_in_time
from partwise.solvers.base import CHUNK

# Passes before gaps choose: all gaps are large at first and change with every other visit.
PASSES_BEFORE_GAPS = 2.0
_SHORTEST_WAIT = 0.05  # passes that an example counts as unvisited for, at least
_UNIFORM_SHARE = 0.1  # share of the visits that are drawn without regard to gaps
_FLOOR = 1e-3  # share of the mean gap that is added to every gap


def expected_gap(gap: np.ndarray, seen: np.ndarray, waited: np.ndarray, now: float) -> np.ndarray:
    """Estimates of all gaps g_i: after its last visit, a gap grows by `gap` in `waited` passes, linearly.

    Parameters
    ----------
    gap, waited : ndarray (n_examples,)
        The gap that the last visit found before its step, and the passes since the visit before.
    seen : ndarray (n_examples,)
        The time of the last visit, in passes.
    now : float
    """
    # Visits of other examples can open a gap of 0, which would never grow: add a little to all gaps.
    return (gap + _FLOOR * gap.mean()) * ((now - seen) / waited)


def most_due(expected: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """`count` different examples in random order: nine tenths are those with the largest `expected`.

    The other tenth is drawn from the rest, so that a gap that was underestimated is measured again.
    """
    n_uniform = int(_UNIFORM_SHARE * count + random.random())
    n_largest = count - n_uniform
    n = len(expected)
    # Estimates within a factor 2^(1/8) count as equal and are ordered at random: rounding should not decide.
    level = np.floor(8.0 * np.log2(np.maximum(expected, 1e-300))) + random.random(n)
    largest = np.argpartition(-level, min(n_largest, n - 1))[:n_largest]
    is_left = np.ones(n, bool)
    is_left[largest] = False
    rest = np.flatnonzero(is_left)
    chosen = random.choice(rest, min(n_uniform, len(rest)), replace=False)
    return random.permutation(np.concatenate([largest, chosen]))


def note_visits(here: np.ndarray, seen: np.ndarray, waited: np.ndarray, clock: np.ndarray) -> None:
    """Note that examples `here` were visited now; `clock` (1,) counts visits in passes."""
    clock[0] += len(here) / len(seen)
    waited[here] = np.maximum(clock[0] - seen[here], _SHORTEST_WAIT)
    seen[here] = clock[0]


def note_exact(seen: np.ndarray, waited: np.ndarray, clock: np.ndarray) -> None:
    """Note that all gaps were computed just now, without visits."""
    waited[:] = np.maximum(clock[0] - seen, _SHORTEST_WAIT)
    seen[:] = clock[0] - waited


def due_chunks(state: Any, problem: Problem, random: np.random.Generator) -> Iterator[np.ndarray]:
    """The visits of a pass, a tenth of a shard at a time: all examples while a gap is unknown, then those most due.

    The caller keeps `gap`, `seen`, `waited` and `clock` of the state up to date between chunks.
    """
    by_gap = not np.isnan(state.gap).any()
    for shard in problem.shards(random):
        weight, n = problem.batch.example_weight[shard], len(shard)
        chunk, order = max(1, n // 10), random.permutation(n)
        for first in range(0, n, chunk):
            if is_out_of_time():
                return
            here = order[first : first + chunk]
            if by_gap:
                times = state.seen[shard], state.waited[shard], float(state.clock[0])
                here = most_due(expected_gap(state.gap[shard], *times) * weight, len(here), random)
            yield shard[here]


def shuffled_chunks(problem: Problem, random: np.random.Generator) -> Iterator[np.ndarray]:
    """All examples once, shard by shard, in random order within a shard; fewer if a time limit is reached."""
    for shard in problem.shards(random):
        order = shard[random.permutation(len(shard))]
        for first in range(0, len(order), CHUNK):
            yield from visited_in_time(order[first : first + CHUNK])


def forget_gaps(seen: np.ndarray, waited: np.ndarray, clock: np.ndarray) -> None:
    """After a change of the problem: one pass over all examples before gaps choose again."""
    clock[0] = PASSES_BEFORE_GAPS - 1.0
    seen[:], waited[:] = clock[0] - 1.0, 1.0


def points_averaged(problem: Problem) -> int:
    """How many points of a pass to average: up to ten, fewer if there are more weights than a pass touches."""
    return int(np.clip(problem.n_touched // (40 * problem.n_weights), 2, 10))
