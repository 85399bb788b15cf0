"""Passes of the first certificate as background compile tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.compiled.background_compile import start
from partwise.compiled.examples import Batch, Scratch
from partwise.compiled.kernels import Kernel, described
from partwise.compiled.oracles import Oracle
from partwise.compiled.row_tasks import row_tasks
from partwise.core.batch_pass import loss_pass, point_pass

# Relative gap from which states are in single precision: their rounding stops progress at gaps of 1e-5 to 1e-4.
SMALLEST_TOL_OF_SINGLE = 2e-4


def begin_compiling(oracle: Oracle, asks: tuple[str, ...], precision: str, is_hard: bool) -> None:
    """Start to compile what training will call, while data are read and the solver's pass is compiled."""
    rows = [task for each in dict.fromkeys((precision, "double")) for task in row_tasks(each)]
    certificate = certificate_tasks(precision, is_hard)
    start([*(oracle.task(which) for which in asks), *rows, *certificate])


def pass_entry(name: str) -> Kernel:
    """A pass, by its name and the precision of the state, such as "point-single"."""
    which, precision = name.split("-")
    return _PASSES[which](np.dtype(np.float32 if precision == "single" else np.float64))


def certificate_tasks(precision: str, is_hard: bool) -> list[str]:
    """Tasks of the passes that certificates call for a state of this precision."""
    names = ["loss"] if is_hard else ["point", "loss"]
    return [f"{__name__}:pass_entry:{name}-{'double' if is_hard else precision}" for name in names]


def _point(dtype: Any) -> Kernel:
    none, number = np.zeros(0, dtype), np.zeros(0)
    visited = np.zeros(0, np.uint8)
    arguments = empty_batch(), 0, 0, none, visited, none, number, number, number, empty_scratch(np.float64)
    return point_pass.kernel(described(arguments))


def _loss(dtype: Any) -> Kernel:
    none, number = np.zeros(0, dtype), np.zeros(0)
    arguments = empty_batch(), 0, 0, number, 1.0, 1.0, 0.0, none, number, number, empty_scratch(np.float64)
    return loss_pass.kernel(described(arguments))


_PASSES: dict[str, Callable[[Any], Kernel]] = {"point": _point, "loss": _loss}


def empty_batch() -> Batch:
    """A batch without examples."""
    whole, number = np.zeros(1, np.int64), np.zeros(0)
    return Batch(
        rows=whole, shape_ptr=whole, shape=np.zeros(0, np.int32), part_ptr=whole, n_tied=0, gold_ptr=whole,
        gold_part=np.zeros(0, np.int64), gold_amount=number, cost=np.zeros(0, np.float32), example_weight=number,
    )  # fmt: skip


def empty_scratch(dtype: Any) -> Scratch:
    """A workspace for no example, whose functions are never called."""
    words, number = np.zeros(1, np.int64), np.zeros(0)
    return Scratch(words, words, words, number, number, number, number, np.zeros(0, dtype), words)
