"""Deals examples to shards, and cuts out the problem of a shard with its own data only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.rows import FIRST_ROW, KIND, N_ROWS, KindRows
from partwise.core.arrays import offsets, ranges
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.scorer import Scorer

# Of the order in which examples are dealt out: which shard has which never depends on the run.
_SEED = 20080901
_ONCE = (
    "narrow_label",
    "mask",
)  # arrays of a kind that are as long as its weights, and the same for all shards


class Common(NamedTuple):
    """The data that all shards of a problem share: where weights lie."""

    maps: dict[str, FeatureMap]
    kinds: tuple[KindRows, ...]


def deal(problem: Problem, n_shards: int) -> list[np.ndarray]:
    """The examples of every shard in ascending order: chosen at random, about as many parts in each.

    Data often come sorted, and shards that are alike agree best about the weights. No shard is empty: there are fewer
    if one example has as many parts as a shard should have.
    """
    order = np.random.default_rng(_SEED).permutation(problem.n_examples)
    middle = offsets(np.diff(problem.batch.part_ptr)[order])
    middle = (middle[:-1] + middle[1:]) / (2.0 * max(middle[-1], 1))
    number = np.minimum((middle * n_shards).astype(np.int64), n_shards - 1)
    return [np.sort(own) for own in np.split(order, np.flatnonzero(np.diff(number)) + 1)]


def common_of(problem: Problem) -> Common:
    """The common data, which are sent to each worker once."""
    nothing = np.zeros(0, np.int64)
    return Common(problem.scorer.maps, tuple(_some_rows(kind, nothing) for kind in problem.scorer.kinds))


def cut(problem: Problem, examples: np.ndarray) -> Problem:
    """The problem on some examples, with copies of their own rows; the data of `Common` are left out."""
    shard = problem.shard(examples)
    scorer, runs, kinds = shard.scorer, shard.scorer.runs.copy(), []
    for number, kind in enumerate(scorer.kinds):
        own = runs[:, KIND] == number
        used = np.zeros(len(kind.wide_ptr) - 1, bool)
        used[ranges(runs[own, FIRST_ROW], runs[own, N_ROWS])] = True
        runs[own, FIRST_ROW] = offsets(used)[runs[own, FIRST_ROW]]
        rows = _some_rows(kind, np.flatnonzero(used))
        kinds.append(rows._replace(**{name: getattr(kind, name)[:0] for name in _ONCE}))
    return _with_scorer(
        shard, Scorer(scorer.structure, scorer.shapes, {}, tuple(kinds), scorer.run_ptr, runs)
    )


def whole(shard: Problem, common: Common) -> Problem:
    """The result of `cut` with the common data put back."""
    scorer = shard.scorer
    kinds = tuple(
        own._replace(**{name: getattr(shared, name) for name in _ONCE})
        for own, shared in zip(scorer.kinds, common.kinds, strict=True)
    )
    runs, run_ptr = scorer.runs, scorer.run_ptr
    return _with_scorer(shard, Scorer(scorer.structure, scorer.shapes, common.maps, kinds, run_ptr, runs))


def with_weights(problem: Problem, example_weight: np.ndarray) -> Problem:
    """The same examples with other weights, in an array that may change afterwards."""
    kind, parts = problem.__reduce__()
    scorer, gold, cost, _, *others = parts
    found: Problem = kind(scorer, gold, cost, example_weight, *others)
    return found


def _with_scorer(problem: Problem, scorer: Scorer) -> Problem:
    kind, (_, *others) = problem.__reduce__()
    found: Problem = kind(scorer, *others)
    return found


def _some_rows(kind: KindRows, rows: np.ndarray) -> KindRows:
    """Some rows of a kind, copied."""
    found: dict[str, Any] = {"dense": kind.dense[rows]}
    for which in ("wide", "narrow"):
        ptr = getattr(kind, f"{which}_ptr")
        sizes = np.diff(ptr)[rows]
        at = ranges(ptr[:-1][rows], sizes)
        found[f"{which}_ptr"] = offsets(sizes)
        for name in (f"{which}_start", f"{which}_value", f"{which}_count"):
            values = getattr(kind, name, None)
            if values is not None:
                found[name] = values[at] if values.size else values
    return kind._replace(**found)
