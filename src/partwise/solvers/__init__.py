"""Solvers by name. A new one is one file and one line here."""

from __future__ import annotations

from partwise.errors import InputError
from partwise.problem import Problem
from partwise.solvers.base import Certificate, Record, Solution, Solver, StepInfo, StopReason
from partwise.solvers.batch_gradient import BatchEG, PrimalEG
from partwise.solvers.block_coordinate import BlockFrankWolfe
from partwise.solvers.driver import Progress, solve
from partwise.solvers.exponentiated_gradient import Annealing, ExponentiatedGradient
from partwise.solvers.gradient import LBFGS, ConjugateGradient
from partwise.solvers.sgd import SGD

SOLVERS: dict[str, Solver] = {
    "eg": ExponentiatedGradient("random"),
    "eg-cyclic": ExponentiatedGradient("cyclic"),
    "eg-permuted": ExponentiatedGradient("permuted"),
    "eg-gap": ExponentiatedGradient("gap"),
    "eg-batch": BatchEG(),
    "eg-primal": PrimalEG(),
    "bcfw": BlockFrankWolfe(),
    "lbfgs": LBFGS(),
    "cg": ConjugateGradient(),
    "sgd": SGD(),
}


def solver_for(problem: Problem, solver: str | Solver = "auto") -> Solver:
    """The solver of that name, or the one itself; "auto" takes the fastest measured for the problem."""
    if not isinstance(solver, str):
        return solver
    if solver == "auto":
        return SOLVERS["bcfw" if problem.loss.is_hard else "eg-gap"]
    if solver not in SOLVERS:
        raise InputError(f"unknown solver {solver!r}; there are auto, {', '.join(SOLVERS)}")
    return SOLVERS[solver]


__all__ = [
    "LBFGS",
    "SGD",
    "SOLVERS",
    "Annealing",
    "BatchEG",
    "BlockFrankWolfe",
    "Certificate",
    "ConjugateGradient",
    "ExponentiatedGradient",
    "PrimalEG",
    "Progress",
    "Record",
    "Solution",
    "Solver",
    "StepInfo",
    "StopReason",
    "solve",
    "solver_for",
]
