"""How much of a dataset to have in memory at a time, and whether its dual state has to be on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from partwise.core.mapped import memory_there_is
from partwise.core.streamed import AT_A_TIME

if TYPE_CHECKING:
    from partwise.core.scorer import Scorer
    from partwise.estimators.on_disk.dataset import EncodedDataset

_LEAST_SHARD = 16e6  # a pass over shards of one megabyte takes twice as long
_MARGIN = 0.1  # of a limit, for what estimates miss


class Room(NamedTuple):
    """What a problem on disk gets.

    Attributes
    ----------
    shard_bytes : float
        Of data, and of state on disk.
    state_dir : path or None
        Where state is; None is memory.
    """

    shard_bytes: float
    state_dir: str | os.PathLike[str] | None


def room_for(data: EncodedDataset, estimator: Any, scorer: Scorer, state_bytes: int) -> Room:
    """As a dataset was opened with; what was left open there, within the limits that there are.

    Parameters
    ----------
    state_bytes : int
        Of dual state, true labels and costs.
    """
    from partwise.solvers.memory import bytes_beside, limit_below_machine
    from partwise.solvers.primal.lbfgs import history_bytes

    everything = data.n_bytes + state_bytes
    limit, state_dir = limit_below_machine(estimator.memory_limit), data.state_dir
    if limit is None:
        there_is = memory_there_is()
        on_disk = data.n_bytes if state_dir is None else everything
        shard = float(on_disk) if on_disk <= 0.5 * there_is else 0.125 * there_is
    else:
        beside = bytes_beside(scorer.n_weights, scorer.n_examples, scorer.n_jobs)
        free = max(min((1.0 - _MARGIN) * limit - beside, memory_there_is()), 0.0)
        history = history_bytes(scorer.n_weights)
        free -= history if history <= 0.5 * free else 0
        fits = everything <= free
        if state_dir is None and not fits and state_bytes > 0.5 * free and os.access(data.path, os.W_OK):
            state_dir = data.path
        kept = state_bytes if state_dir is None else 0
        shard = float(everything) if fits else max((free - kept) / AT_A_TIME, _LEAST_SHARD)
    return Room(shard if data.shard_mb is None else 1e6 * data.shard_mb, state_dir)
