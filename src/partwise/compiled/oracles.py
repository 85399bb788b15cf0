# mypy: ignore-errors
"""What a structure answers: log-partition, expected part counts, the best labelling.

A structure has a specification (what all its examples share) and a workspace, both NamedTuples of numbers and
arrays, and three compiled functions over them (:class:`Oracle`). All take the example's *shape*, a row of integers,
and a flat vector of part scores, with ``simd.LANES`` entries of slack behind it. Passes call them by address.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from partwise.compiled.boundary import (
    Addressed,
    address_of,
    array_at,
    call_address,
    load_record,
    record_address,
)
from partwise.compiled.dispatch import fragment

# Places in `Scratch.calls`.
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
    """The three answers of a structure; each is compiled when its address is first asked for.

    Attributes
    ----------
    name : str
        Names the compiled functions. In upper case, the oracle's own name in the file of its specification.
    specification, workspace : type
        Classes of records (see `boundary.py`).
    expectations : compiled function (specification, shape, scores, counts, work) → float
        log Σ_y exp(score of y); writes its gradient, the expected part counts.
    log_partition : compiled function (specification, shape, scores, work) → float
        log Σ_y exp(score of y).
    best : compiled function (specification, shape, scores, counts, work) → float
        max_y (score of y); writes the part counts of a maximiser.
    """

    name: str
    specification: type
    workspace: type
    expectations: Callable
    log_partition: Callable
    best: Callable

    def __call__(self, which: str) -> Addressed:
        """ "sums" or "best", to be compiled."""
        return Addressed(self._functions()[f"{self.name}_{which}"], "iiiiiiii")

    def task(self, which: str) -> str:
        """Task name of "sums" or "best"; the oracle stands in the file of its specification."""
        return f"{self.specification.__module__}:{self.name.upper()}:{which}"

    def _functions(self) -> dict[str, Any]:
        """Written as if they stood in the file of the specification, where the cache keeps what they become."""
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
    """In the place of an answer that nobody said would be asked for: NaN spoils every bound that it enters."""
    return np.nan


def oracle_entry(name: str) -> Addressed:
    """The answer that stands in for those not compiled."""
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
    """log Σ_y exp(score of y) of example i; writes the expected part counts."""
    return _ask(SUMS, 1, batch, i, scores, counts, scratch)


@fragment
def log_partition(batch, i, scores, scratch):  # type: ignore
    """log Σ_y exp(score of y) of example i."""
    return _ask(SUMS, 0, batch, i, scores, scores, scratch)


@fragment
def best(batch, i, scores, counts, scratch):  # type: ignore
    """max_y (score of y) of example i; writes the part counts of a maximiser."""
    return _ask(BEST, 1, batch, i, scores, counts, scratch)
