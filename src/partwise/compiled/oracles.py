# mypy: ignore-errors
"""The answers of a structure: log-partition, expected part counts, and the best labelling.

A structure has a specification, which its examples share, and a workspace. Both are records (`boundary.py`). An
:class:`Oracle` has three compiled functions over them. Each takes the *shape* of an example, a row of integers, and a
flat vector of part scores with ``simd.LANES`` spare entries at its end. Passes call them by address.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from partwise.compiled.boundary import (
    address_of,
    array_at,
    call_address,
    load_record,
    record_address,
)
from partwise.compiled.dispatch import fragment
from partwise.compiled.kernels import Addressed

# Indices into `Scratch.calls`.
SUMS, BEST, SCORE, SCATTER = range(4)

_ENTRIES = """
def {name}_sums(specification, work, shape, n_shape, scores, counts, n_parts, wants_counts):
    s, w = load_record(Specification, specification), load_record(Workspace, work)
    own, theta = array_at(int32, shape, n_shape), array_at(float64, scores, n_parts)
    if wants_counts == 0:
        return log_partition(s, own, theta, w)
    return expectations(s, own, theta, array_at(float64, counts, n_parts), w)

def {name}_best(specification, work, shape, n_shape, scores, counts, n_parts, wants_counts):
    s, w = load_record(Specification, specification), load_record(Workspace, work)
    own, theta = array_at(int32, shape, n_shape), array_at(float64, scores, n_parts)
    return best(s, own, theta, array_at(float64, counts, n_parts), w)
"""


@dataclass
class Oracle:
    """The three answers of a structure. Each is compiled when its address is first needed.

    Attributes
    ----------
    name : str
        Prefix of the names of the compiled functions. The module of `specification` holds this oracle as a constant of
        this name in upper case.
    specification, workspace : type
        Classes of records.
    expectations : compiled function (specification, shape, scores, counts, work) → float
        log Σ_y exp(score of y). Writes its gradient, the expected part counts.
    log_partition : compiled function (specification, shape, scores, work) → float
        log Σ_y exp(score of y).
    best : compiled function (specification, shape, scores, counts, work) → float
        max_y (score of y). Writes the part counts of a maximiser.
    """

    name: str
    specification: type
    workspace: type
    expectations: Callable
    log_partition: Callable
    best: Callable

    def __call__(self, which: str) -> Addressed:
        """The answer "sums" or "best", not compiled yet."""
        return Addressed(self._functions()[f"{self.name}_{which}"], "iiiiiiii")

    def task(self, which: str) -> str:
        """The task name of the answer "sums" or "best" (`background_compile.py`)."""
        return f"{self.specification.__module__}:{self.name.upper()}:{which}"

    def _functions(self) -> dict[str, Any]:
        """The answers as functions of the specification's module, so that the cache keeps them beside it."""
        home = sys.modules[self.specification.__module__]
        namespace: dict[str, Any] = {
            "Specification": self.specification, "Workspace": self.workspace, "int32": np.int32,
            "float64": np.float64, "load_record": load_record, "array_at": array_at,
            "expectations": self.expectations, "log_partition": self.log_partition, "best": self.best,
            "__name__": home.__name__,
        }  # fmt: skip
        code: CodeType = compile(_ENTRIES.format(name=self.name), str(home.__file__), "exec")
        exec(code, namespace)
        return namespace


def never_asked(specification, work, shape, n_shape, scores, counts, n_parts, wants_counts):  # type: ignore
    """Takes the place of an answer that was not requested. NaN makes every bound computed from it invalid."""
    return np.nan


def oracle_entry(name: str) -> Addressed:
    """:func:`never_asked` as a background compile task."""
    return Addressed(never_asked, "iiiiiiii")


NEVER_ASKED = f"{__name__}:oracle_entry:never"


@fragment
def _ask(which, wants_counts, batch, i, scores, counts, scratch):  # type: ignore
    first, last = batch.shape_ptr[i], batch.shape_ptr[i + 1]
    n_parts = batch.part_ptr[i + 1] - batch.part_ptr[i]
    return call_address(
        scratch.calls[which],
        (
            record_address(scratch.specification),
            record_address(scratch.structure),
            address_of(batch.shape, first),
            last - first,
            address_of(scores, 0),
            address_of(counts, 0),
            n_parts,
            wants_counts,
        ),
    )


@fragment
def expectations(batch, i, scores, counts, scratch):  # type: ignore
    """log Σ_y exp(score of y) of example i. Writes the expected part counts."""
    return _ask(SUMS, 1, batch, i, scores, counts, scratch)


@fragment
def log_partition(batch, i, scores, scratch):  # type: ignore
    """log Σ_y exp(score of y) of example i."""
    return _ask(SUMS, 0, batch, i, scores, scores, scratch)


@fragment
def best(batch, i, scores, counts, scratch):  # type: ignore
    """max_y (score of y) of example i. Writes the part counts of a maximiser."""
    return _ask(BEST, 1, batch, i, scores, counts, scratch)
