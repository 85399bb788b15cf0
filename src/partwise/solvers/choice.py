"""The solver for a problem: the one named, or the choice of `auto`, with its precision settled.

`auto` is a short table, read from top to bottom. Each row has a condition, the solvers that race (one alone does not),
and the evidence. If there are several, `race.py` says who begins and who goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from partwise.core.problem import Problem
from partwise.solvers.base import Solver, with_defaults
from partwise.solvers.driver import with_precision
from partwise.solvers.dual.block_coordinate import BlockFrankWolfe
from partwise.solvers.dual.chain_cd import ChainCoordinateAscent
from partwise.solvers.dual.crammer_singer import CrammerSinger
from partwise.solvers.dual.exponentiated_gradient import ExponentiatedGradient
from partwise.solvers.needs import refusal
from partwise.solvers.primal.curvature import is_worthwhile
from partwise.solvers.primal.lbfgs import LBFGS
from partwise.solvers.primal.sharpened_lbfgs import SharpenedLBFGS
from partwise.solvers.race import Race
from partwise.solvers.registry import SOLVERS, check_known
from partwise.solvers.saddle.excessive_gap import ExcessiveGap
from partwise.solvers.work_model import (
    is_told_all,
    squared_features,
    stiffness,
    told,
    weights_are_steep,
)

# The state needs double precision if l2 · tol is smaller: for β = ∞, divided by the total weight; the same if all
# margins can surely be kept, where double precision is no slower; for finite β, divided by the mean weight of the
# examples.
_WEAKEST, _WEAKEST_FITTED, _WEAKEST_SMOOTH = 3e-8, 2e-6, 1e-5
_POSITIONS_FITTED = 4.0  # positions that one weight can fit


class Row(NamedTuple):
    """A row of the table: if the problem is such, these solvers race, or the only one runs; `evidence` says why."""

    condition: str
    holds: Callable[[Problem], bool]
    solvers: tuple[Solver, ...]
    evidence: str

    def fits(self, problem: Problem) -> bool:
        """Whether the condition holds and the solver of the row does not refuse the problem."""
        solver = self.solver.for_partial_labels() if problem.certified == "local" else self.solver
        return self.holds(problem) and refusal(problem, solver.needs) is None

    @property
    def solver(self) -> Solver:
        return self.solvers[0] if len(self.solvers) == 1 else Race(self.solvers, "auto")


_ONLINE = ExponentiatedGradient("gap", "newton")
_SHARPENED_ONLINE = ExponentiatedGradient("gap", "newton", sharpen=True)
_SMOOTH_RACE = (_ONLINE, LBFGS())


def _is_smooth(problem: Problem) -> bool:
    return not problem.loss.is_hard


def _is_stiff_and_told(problem: Problem) -> bool:
    """Whether visits of examples undo one another, and L-BFGS, which knows the curvature, does not suffer."""
    is_apt = _is_smooth(problem) and problem.certified == "exact" and told(problem) == "told, structures"
    return is_apt and stiffness(problem) > 1.0


def _is_plain(problem: Problem) -> bool:
    """Whether L-BFGS can work on the problem with another loss, which needs a cost."""
    return type(problem) is Problem and problem.loss.gamma > 0.0


def _is_sparse_with_l1(problem: Problem) -> bool:
    return problem.l1 > 0.0 and not is_worthwhile(problem) and not weights_are_steep(problem)


def _is_chain_in_memory(problem: Problem) -> bool:
    return problem.is_in_memory and problem.structure.is_first_order and not _is_tree_or_class(problem)


def _is_tree_or_class(problem: Problem) -> bool:
    return bool(problem.lengths.max() == 1 or problem.structure.slows_when_sharp)


TABLE = (
    Row(
        "labels are known in part, and attributes are dense",
        lambda problem: problem.certified == "local" and is_worthwhile(problem),
        (LBFGS(),),
        "there is no dual to climb, and L-BFGS knows the curvature",
    ),
    Row(
        "finite β, an l1 term of at most 40 l2, and sparse attributes",
        lambda problem: _is_smooth(problem) and _is_sparse_with_l1(problem),
        (_ONLINE,),
        "steps of L-BFGS with l1 are slow without curvature",
    ),
    Row(
        "finite β, structures whose curvature L-BFGS is told, exact sums, a stiffness above 1",
        _is_stiff_and_told,
        (LBFGS(),),
        "handwritten words, l2 = 0.01: `eg-gap` alone is at a gap of 5e-3 after 16 s, `lbfgs` takes 12 s",
    ),
    Row(
        "finite β, features, exact sums and whole labels",
        lambda problem: _is_smooth(problem) and problem.batch.gold_amount.size == 0,
        _SMOOTH_RACE,
        "neither wins everywhere: text classes 0.05 s and 0.9 s, badly scaled columns 0.14 s and 0.04 s",
    ),
    Row("finite β otherwise", _is_smooth, (_ONLINE,), "weights of one are no start for the other"),
    Row(
        "β = ∞, classes, a cost, few attributes",
        lambda problem: _is_plain(problem) and is_told_all(problem),
        (SharpenedLBFGS(), CrammerSinger()),
        "500 rows of 30 columns, l2 = 0.01: 0.19 s, `crammer-singer` alone 7.8 s",
    ),
    Row(
        "β = ∞, classes",
        lambda problem: problem.has_features,
        (CrammerSinger(),),
        "MNIST, l2 = 100: 0.90 s, liblinear 1.46 s",
    ),
    Row(
        "β = ∞, classes with a kernel or an l1 term, and structures whose oracle is slower if scores are sharp",
        _is_tree_or_class,
        (BlockFrankWolfe(),),
        "Figure 13 of Collins et al. (2008) made again",
    ),
    Row(
        "β = ∞, chains of order 1 with an l1 term",
        lambda problem: _is_chain_in_memory(problem) and problem.l1 > 0.0,
        (BlockFrankWolfe(),),
        "`chain-cd` works with l2 alone",
    ),
    Row(
        "β = ∞, chains of order 1, a cost, up to 300 dense attributes with nearly all of Σ ‖x‖²",
        lambda problem: _is_plain(problem) and _is_chain_in_memory(problem) and told(problem) != "not told",
        (SharpenedLBFGS(), ChainCoordinateAscent()),
        "100 columns, l2 = 10: 0.74 s and 0.27 s; l2 = 1: 1.7 s and 2.3 s",
    ),
    Row(
        "β = ∞, chains of order 1",
        _is_chain_in_memory,
        (ChainCoordinateAscent(),),
        "handwritten words, l2 = 10: 2.0 s to 1e-3, `bcfw` 5.6 s",
    ),
    Row(
        "anything else",
        lambda problem: True,
        (_SHARPENED_ONLINE,),
        "chains of order 2 and more have no directions to move along",
    ),
)

# What "auto" takes if its choice takes too much memory: less and less of it.
FRUGAL = (_SHARPENED_ONLINE, LBFGS(), ExcessiveGap())


def solver_for(problem: Problem, solver: str | Solver = "auto", tol: float = 1e-3) -> Solver:
    """The solver of that name, or the solver given; "auto" takes the first row of the table that fits.

    Its precision follows `tol` and l2 unless it was fixed. If labels are known in part, another solver may take its
    place (`Solver.for_partial_labels`).
    """
    if solver == "auto":
        solver = next((row for row in TABLE if row.fits(problem)), TABLE[-1]).solver
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


def Auto(precision: Any = "auto", lean: bool = False, tol: float = 1e-3) -> Race:
    """The race of "auto" for finite β; a class before, for programs that use it."""
    online, batch = _SMOOTH_RACE
    return Race((replace(online, lean=lean), batch), "auto", precision, tol)


def HardAuto(parts: str = "classes", precision: Any = "auto", tol: float = 1e-3) -> Race:
    """The race of "auto" for β = ∞ on "classes" or "chains"; a class before, for programs that use it."""
    ascent = CrammerSinger() if parts == "classes" else ChainCoordinateAscent()
    return Race((SharpenedLBFGS(), ascent), "auto", precision, tol)
