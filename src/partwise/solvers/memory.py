"""How much memory training will take, told before it begins: data, weights, and what a solver keeps per part."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers import Auto, solver_for
from partwise.solvers.base import Solver, state_type
from partwise.solvers.bundle.cutting_plane import BMRM
from partwise.solvers.dual.batch_gradient import BatchEG
from partwise.solvers.dual.block_coordinate import BlockFrankWolfe
from partwise.solvers.dual.crammer_singer import CrammerSinger
from partwise.solvers.dual.exponentiated_gradient import ExponentiatedGradient
from partwise.solvers.dual.segments import SegmentAscent
from partwise.solvers.dual.smo import SMO
from partwise.solvers.dual.smo_eg import SMOThenEG
from partwise.solvers.dual.windows import WindowAscent, n_marginals
from partwise.solvers.primal.lbfgs import LBFGS

# Numbers that a state, or its certificate, holds for every part.
_NUMBERS_A_PART: dict[type, int] = {
    Auto: 2, ExponentiatedGradient: 2, BatchEG: 2, BlockFrankWolfe: 1, SegmentAscent: 1, CrammerSinger: 1,
    SMO: 1, SMOThenEG: 3,
}  # fmt: skip
_COPIES_OF_WEIGHTS = 4  # besides what a solver remembers of its way


class MemoryEstimate(NamedTuple):
    """Bytes that training will take.

    Attributes
    ----------
    data : int
        Rows of features, shapes, true labels and costs.
    weights : int
        Weights and what is as long as they are.
    parts : int
        What the solver keeps for every part of every example, its dual state.
    solver : str
    """

    data: int
    weights: int
    parts: int
    solver: str

    @property
    def total(self) -> int:
        return self.data + self.weights + self.parts

    def __str__(self) -> str:
        words = (
            f"memory: about {_shown(self.total)} (data {_shown(self.data)}, weights {_shown(self.weights)}, "
            f"dual state of {self.solver} {_shown(self.parts)}"
        )
        return words + (")" if not self.parts else "; eg-primal and lbfgs keep none)")


def memory_estimate(problem: Problem, solver: str | Solver = "auto", tol: float = 1e-3) -> MemoryEstimate:
    """What training `problem` by `solver` will take.

    Parameters
    ----------
    tol : float
        Decides, where the solver leaves it open, whether its state has single or double precision.
    """
    chosen = solver_for(problem, solver, tol)
    numbers = _NUMBERS_A_PART.get(type(chosen), 0)
    size = np.dtype(state_type(getattr(chosen, "precision", "double"))).itemsize
    scorer = problem.scorer
    arrays = [array for kind in scorer.kinds for array in kind if isinstance(array, np.ndarray)]
    arrays += [scorer.runs, scorer.run_ptr, *scorer.shapes, *problem.gold, problem.cost]
    return MemoryEstimate(
        sum(array.nbytes for array in arrays),
        (_COPIES_OF_WEIGHTS + _remembered(chosen)) * 8 * problem.n_weights,
        size * (n_marginals(problem) if isinstance(chosen, WindowAscent) else numbers * problem.n_parts),
        chosen.name,
    )


def _remembered(solver: Solver) -> int:
    """Vectors of weights that a solver keeps of its way: pairs of L-BFGS, cutting planes."""
    if isinstance(solver, BMRM):
        return solver.memory
    return 2 * solver.memory if isinstance(solver, LBFGS) else 0


def _shown(n_bytes: Any) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
