"""Training on shards of the examples, on several processes or machines."""

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
