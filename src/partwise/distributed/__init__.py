"""Training on shards of the examples, in several processes or on several machines.

Read `engine.py` first: it opens an engine for a problem and a solver. Solvers that visit examples become a
`ShardedAscent` (`ascent.py`, `shard.py`, `cocoa.py`); for all others a `ReducedProblem` (`reduced.py`) adds up the sums
of the shards. `cluster.py` is the driver's view of the shards, `pool.py` sends requests to workers and replaces lost
ones, and `backend.py` is the interface of processes, Ray actors and workers in this process.
"""

from partwise.distributed.engine import (
    AtWork,
    Engine,
    ProcessEngine,
    RayEngine,
    SequentialEngine,
    at_work_on,
    engine_of,
)

__all__ = ["AtWork", "Engine", "ProcessEngine", "RayEngine", "SequentialEngine", "at_work_on", "engine_of"]
