"""Repeated runs of a randomised solver, for a guarantee with high probability (Collins et al. 2008, §5.1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.solvers.base import Solution, Solver
from partwise.solvers.driver import solve


def n_restarts(delta: float) -> int:
    """⌈log2(1/δ)⌉: runs of which the best is within twice the expected suboptimality with probability 1 − δ.

    By Markov's inequality one run exceeds twice its expectation with a probability of at most a half.
    """
    if isinstance(delta, bool) or not isinstance(delta, (int, float, np.floating)) or not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, not {delta!r:.40}")
    return max(1, math.ceil(math.log2(1.0 / delta) - 1e-9))


def solve_surely(
    problem: Problem, solver: Solver, delta: float, *, random_state: Any = 0, **settings: Any
) -> Solution:
    """The solution with the highest dual of ⌈log2(1/δ)⌉ runs that differ in their random numbers alone.

    With probability 1 − δ its suboptimality is at most twice the bound that theory gives for one run on average. A
    certificate says more, and of the run itself: this function is for comparisons with such theory.

    Parameters
    ----------
    delta : float
        The probability with which the guarantee may fail.
    random_state : None, int, RandomState or Generator
    settings
        As for `solve`: max_passes, tol and so on.

    Returns
    -------
    Solution
        `passes` is the sum over all runs.
    """
    random = random_generator(random_state)
    runs = [solve(problem, solver, random_state=each, **settings) for each in random.spawn(n_restarts(delta))]
    best = max(runs, key=lambda run: run.certificate.dual)
    return Solution(
        best.problem, best.weights, best.state, best.certificate, best.history, best.stop_reason,
        sum(run.passes for run in runs),
    )  # fmt: skip
