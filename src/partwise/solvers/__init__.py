"""How to optimise: an objective goes in, weights and a certificate come out.

Read `base.py` first: it says what a solver is. Each file in `dual/`, `primal/`, `saddle/` and `bundle/` is a solver or
a part of one; files named `*_pass.py` are its compiled loops. `driver.py` runs any solver; `registry.py` lists them by
name. "auto" is the table in `choice.py`; `race.py` lets solvers take turns, and `work_model.py` says what they cost.
Names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.solvers.base import Certificate, Record, Solution, Solver, StopReason, WarmStart  # noqa: F401
    from partwise.solvers.driver import Progress, solve  # noqa: F401

_HOMES = {
    "BMRM": "bundle.cutting_plane",
    "LBFGS": "primal.lbfgs",
    "MIRA": "primal.mira",
    "SGD": "primal.sgd",
    "SMO": "dual.smo",
    "SOLVERS": "registry",
    "Annealing": "dual.annealing",
    "Auto": "choice",
    "BatchEG": "dual.batch_gradient",
    "BlockFrankWolfe": "dual.block_coordinate",
    "Certificate": "base",
    "ChainCoordinateAscent": "dual.chain_cd",
    "ConjugateGradient": "primal.gradient",
    "CrammerSinger": "dual.crammer_singer",
    "ExcessiveGap": "saddle.excessive_gap",
    "ExponentiatedGradient": "dual.exponentiated_gradient",
    "Extragradient": "saddle.extragradient",
    "HardAuto": "choice",
    "ExactMIRA": "primal.exact_mira",
    "KBestMIRA": "primal.mira",
    "MixtureAscent": "dual.mixtures",
    "Needs": "needs",
    "Perceptron": "primal.mira",
    "PrimalEG": "dual.batch_gradient",
    "Progress": "driver",
    "Race": "race",
    "Record": "base",
    "SMOThenEG": "dual.smo_eg",
    "SVMStruct": "bundle.cutting_plane",
    "SegmentAscent": "dual.chain_cd",
    "SharpenedLBFGS": "primal.sharpened_lbfgs",
    "Solution": "base",
    "Solver": "base",
    "StepInfo": "base",
    "StopReason": "base",
    "WarmStart": "base",
    "n_restarts": "restarts",
    "solve": "driver",
    "solve_surely": "restarts",
    "solver_for": "choice",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
