"""The solver for a problem: the one named, or the choice of `auto`, with its precision settled."""

from __future__ import annotations

from dataclasses import replace

from partwise.core.problem import Problem
from partwise.solvers.auto import Auto
from partwise.solvers.auto_hard import STRONG_PULL, HardAuto, prefers_smoothing
from partwise.solvers.base import Solver, with_defaults
from partwise.solvers.driver import with_precision
from partwise.solvers.dual.block_coordinate import BlockFrankWolfe
from partwise.solvers.dual.chain_cd import ChainCoordinateAscent
from partwise.solvers.dual.crammer_singer import CrammerSinger
from partwise.solvers.dual.exponentiated_gradient import ExponentiatedGradient
from partwise.solvers.effort import is_mostly_dense, is_steep, pull_of_an_example, squared_features
from partwise.solvers.needs import refusal
from partwise.solvers.primal.curvature import is_worthwhile
from partwise.solvers.primal.lbfgs import LBFGS
from partwise.solvers.registry import SOLVERS, check_known
from partwise.solvers.saddle.extragradient import Extragradient

# The state needs double precision if l2 · tol is smaller: for β = ∞, divided by the total weight; the same if all
# margins can surely be kept, where double precision is no slower; for finite β, divided by the mean weight of the
# examples.
_WEAKEST, _WEAKEST_FITTED, _WEAKEST_SMOOTH = 3e-8, 2e-6, 1e-5
_POSITIONS_FITTED = 4.0  # positions that one weight can fit


def solver_for(problem: Problem, solver: str | Solver = "auto", tol: float = 1e-3) -> Solver:
    """The solver of that name, or the solver given; "auto" takes the one that was fastest on such problems.

    Its precision follows `tol` and l2 unless it was fixed. If labels are known in part, another solver may take its
    place (`Solver.for_partial_labels`).
    """
    if solver == "auto":
        is_dense = problem.certified == "local" and is_worthwhile(problem)
        solver = LBFGS() if is_dense else _fastest(problem)
    if isinstance(solver, str):
        check_known(solver)
        solver = SOLVERS[solver]
    solver = with_defaults(solver)
    if problem.certified == "local":
        solver = solver.for_partial_labels()
    if getattr(solver, "precision", "") == "auto" and _leaves_small_losses(problem, tol):
        solver = replace(solver, precision="double")  # type: ignore[type-var]
    return with_precision(solver, tol)


def _leaves_small_losses(problem: Problem, tol: float) -> bool:
    """Whether the margins of all examples can be kept, so that losses lie below single precision.

    For β = ∞ and a weak regulariser the objective is (l2 / 2)‖w‖². Scores near 1 must be exact to `tol` times the share
    of an example in it. Keeping the margin of one row x takes ‖w‖² of about 1 / ‖x‖², and rows share w if there are
    more rows than attributes. For finite β the same happens if there is a weight for every few positions.
    """
    total, n_positions = float(problem.batch.example_weight.sum()), float(problem.lengths.sum())
    n_weights = sum(kind.n_weights * kind.width / kind.stride for kind in problem.scorer.kinds)  # no padding
    is_fitted = _POSITIONS_FITTED * n_weights > n_positions
    if problem.loss.is_hard:
        is_weak = problem.l2 * tol < _WEAKEST * total
        if is_weak or not problem.has_features:
            return is_weak
        n_attributes = sum(kind.n_weights / kind.stride for kind in problem.scorer.kinds)
        share = problem.l2 * tol * min(n_attributes, n_positions) / max(squared_features(problem), 1e-300)
        return bool(share < (_WEAKEST_FITTED if is_fitted else _WEAKEST))
    return bool(is_fitted and problem.l2 * tol <= _WEAKEST_SMOOTH * total / problem.n_examples)


def _fastest(problem: Problem) -> Solver:
    """The choice of "auto", by the tables of benchmarks/sequence.py, multiclass.py, dependency.py and segments.py."""
    if not problem.loss.is_hard:
        is_online = problem.l1 > 0.0 and not is_worthwhile(problem) and not is_steep(problem)
        return ExponentiatedGradient("gap", "newton") if is_online or refusal(problem, Auto.needs) else Auto()
    structure = problem.structure
    if structure.n_classes and problem.has_features and not problem.l1:
        return HardAuto.of(problem) if prefers_smoothing(problem) else CrammerSinger()
    if problem.lengths.max() == 1 or structure.slows_when_sharp:
        return BlockFrankWolfe()
    if problem.is_in_memory and structure.is_first_order:
        if problem.l1:
            return BlockFrankWolfe()
        if prefers_smoothing(problem):
            return HardAuto.of(problem)
        is_dense = problem.has_features and is_mostly_dense(problem)
        return (
            Extragradient()
            if is_dense and pull_of_an_example(problem) > STRONG_PULL
            else ChainCoordinateAscent()
        )
    return ExponentiatedGradient("gap", "newton", sharpen=True)
