"""Fits that continue from an earlier one: the parameter `warm_start`, `partial_fit`, and the state carried over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.core.problem import Problem
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.estimators.base import Training
from partwise.estimators.linear import LinearEstimator
from partwise.estimators.on_disk.dataset import EncodedDataset

if TYPE_CHECKING:
    from typing_extensions import Self

    from partwise.solvers import Solver, WarmStart


@dataclass(eq=False, repr=False, kw_only=True)
class WarmStarting(LinearEstimator):
    """Base of the linear estimators that can continue from the last fit.

    Parameters
    ----------
    warm_start : bool
        Continue from the dual state of the last fit if the data are the same, also with another `l2`.
    """

    warm_start: bool = False

    _keeps_training = True

    def _previous(self) -> Training | None:
        return self.__dict__.get("_training") if self.warm_start else None

    def _carried_over(self, problem: Problem, solver: Solver, previous: Training) -> WarmStart | None:
        return warm_state(problem, solver, previous, self.random_state)

    def _partial_fit(self, read: Callable[[Training | None], Any]) -> Self:
        """Train on the data of the last fit and on new ones.

        Parameters
        ----------
        read : callable (Training or None)
            Returns the new data. An earlier fit says which labels are known.
        """
        previous = self.__dict__.get("_training")
        if previous is not None and isinstance(previous.data, EncodedDataset):
            raise InputError("this model was trained on a dataset on disk, to which nothing can be added")

        def joined() -> Any:
            data = read(previous)
            return data if previous is None else previous.data.with_more(data)

        return self._fit(joined, previous)


def warm_state(problem: Problem, solver: Solver, previous: Training, random_state: Any) -> WarmStart | None:
    """What was learnt on earlier data, for the driver to carry over; None if there is nothing.

    Potentials are kept for the examples that were trained on before, also if others have joined them.
    """
    from partwise.solvers.base import WarmStart

    old, state = previous.problem, previous.state
    if type(solver) is not type(previous.solver) or old.structure.kinds != problem.structure.kinds:
        return None
    if _begins_with(problem, old) and _has_grown(problem, old):
        grown = solver.grown(problem, old, state, random_generator(random_state))
        return None if grown is None else WarmStart(problem, grown)
    return WarmStart(old, state)


def _begins_with(problem: Problem, old: Problem) -> bool:
    """Whether the first examples have the same lengths and true labels."""
    n, new, batch = old.n_examples, problem.batch, old.batch
    return (
        problem.n_examples >= n
        and np.array_equal(new.part_ptr[: n + 1], batch.part_ptr)
        and np.array_equal(new.gold_part[: len(batch.gold_part)], batch.gold_part)
        and batch.gold_amount.size == 0
    )


def _has_grown(problem: Problem, old: Problem) -> bool:
    """Whether examples or weights have joined, so that the state itself does not fit."""
    return problem.n_examples > old.n_examples or problem.n_weights != old.n_weights
