"""Hashes that define a problem, to tell whether a state or a checkpoint belongs to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.mercer.gram import Gram

# Rows of a kernel matrix that are computed together if the matrix does not fit its budget.
_ROWS_AT_ONCE = 256


def fingerprint(problem: Problem) -> dict[str, str]:
    """One value for everything that a solution depends on, by name.

    Arrays are hashed (about 1 s for a GB). The hashes of data are kept with the problem.
    """
    return _of_settings(problem) | problem.kept("fingerprint", lambda: _of_data(problem))


def changes(before: Problem, now: Problem) -> set[str]:
    """The names of the values that differ between two problems."""
    one, other = fingerprint(before), fingerprint(now)
    return {name for name in one if one[name] != other[name]}


def _of_settings(problem: Problem) -> dict[str, str]:
    loss = problem.loss
    return {
        "loss": f"Loss({loss.beta!r}, {loss.gamma!r})",
        "l2": repr(problem.l2),
        "l1": repr(problem.l1),
    }


def _of_data(problem: Problem) -> dict[str, str]:
    batch, scorer = problem.batch, problem.scorer
    structure = type(problem.structure).__name__, problem.structure.specification(), scorer.shapes
    return {
        "n_examples": str(problem.n_examples),
        "n_parts": str(problem.n_parts),
        "n_weights": str(problem.n_weights),
        "structure": _digest((*structure, batch.part_ptr)),
        "features": _digest((scorer.kinds, scorer.runs, scorer.run_ptr, *_grams(problem))),
        "true labels": _digest(problem.known),
        "cost": _digest((batch.cost,)),
        "sample_weight": _digest((batch.example_weight,)),
    }


def _grams(problem: Problem) -> tuple[Any, ...]:
    return () if problem.has_features else tuple(problem.grams.values())  # type: ignore[attr-defined]


def _digest(values: Iterable[Any]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    _add(digest, tuple(values))
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    """Feed a value with its type and shape, so that no two values give the same bytes."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
    elif isinstance(value, Gram):
        for first in range(0, value.n, _ROWS_AT_ONCE):
            _add(digest, value.rows(np.arange(first, min(first + _ROWS_AT_ONCE, value.n))))
    elif isinstance(value, tuple):
        digest.update(f"{type(value).__name__}({len(value)}".encode())
        for each in value:
            _add(digest, each)
    else:
        digest.update(f"{type(value).__name__}:{value!r};".encode())
