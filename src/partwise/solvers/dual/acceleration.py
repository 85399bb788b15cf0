"""Proximal points with momentum around the visits of online EG (Lin, Mairal, Harchaoui 2015, "Catalyst").

If many examples share a weight, only short steps gain, and block-coordinate ascent takes many passes. So visits work on
P(w) + Σ_j (κ_j / 2) (w_j − z_j)² instead, whose dual takes far fewer passes, and z follows:

    w_j = (v_j + κ_j z_j) / (l2 + κ_j),   z ← w + θ (w − w_before)

*Held* weights belong to frequent attributes, whose steps are short (`rescaled.py`); weights of rare attributes stay
free. If l2 is weak and the gap still falls slowly, all weights get κ = ratio · l2, with the θ of the paper, (1 − √q) /
(1 + √q) for q = l2 / (l2 + κ).

Visits see l2 + κ instead of l2 and v + κ z instead of v, and do not change otherwise. Between passes v belongs to α
again, so that certificates are those of the problem itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.dual.rescaled import rescaled

if TYPE_CHECKING:
    from partwise.solvers.dual.mixtures import MixtureState
    from partwise.solvers.dual.potentials import EGState

_WATCHED = 5  # passes over which the fall of the gap is measured
_FIRST_PASSES = 2  # passes after which step sizes are typical of the run
_SHORT_STEP = 0.57  # mean step size after these passes, as a share of β, below which weights are held
_ALL = slice(None)


def unaccelerated(n_weights: int, dtype: Any) -> dict[str, np.ndarray]:
    """The fields of a state before acceleration begins, with vectors of `n_weights`."""
    return {
        "rounds": np.zeros(1, np.int64),
        "holds": np.zeros(1, np.int64),
        "since": np.full(1, -1, np.int64),
        "recent": np.full(_WATCHED, np.nan),
        "anchor": np.zeros(n_weights, dtype),
        "previous": np.zeros(n_weights, dtype),
    }


class Pull(NamedTuple):
    """The problem that the visits of a pass work on, and how they see weights.

    Attributes
    ----------
    problem, l2 : Problem, float
    where : slice or ndarray of int64
        Weights with a κ.
    root, kappa : float or ndarray of float64
        For these weights, the factor on their feature values, and κ.
    """

    problem: Problem
    l2: float
    where: Any
    root: Any
    kappa: Any


class Acceleration(NamedTuple):
    """Held weights follow with `momentum` after every pass.

    The ratio of all weights grows like the number of passes to the power of 3/2, from `rest` after `rest` passes to at
    most `largest`, and z follows every `every` passes. It begins after `rest` passes, as soon as the gap falls more
    slowly than it would with acceleration. Longer runs gain more from a larger ratio. Without `may_hold`, no weights
    are held.
    """

    rest: int = 10
    every: int = 2
    largest: float = 300.0
    momentum: float = 0.5
    may_hold: bool = True

    def begin(self, problem: Problem, state: EGState | MixtureState) -> Pull | None:
        """The problem to visit in the next pass, None for the problem itself; v then includes κ z."""
        pull = self._pull(problem, state)
        if pull is not None:
            _see(state, pull.where, pull.root * (state.v[pull.where] + pull.kappa * state.anchor[pull.where]))
        return pull

    def _pull(self, problem: Problem, state: EGState | MixtureState) -> Pull | None:
        l2 = problem.l2
        if not len(state.anchor):
            return None
        if state.since[0] >= 0:
            kappa = self._ratio(state) * l2
            return Pull(problem, l2 + kappa, _ALL, 1.0, kappa)
        others = rescaled(problem) if state.holds[0] else None
        if others is None:
            return None
        return Pull(others.problem, l2, others.held, others.root, l2 * (others.root**-2.0 - 1.0))

    def _ratio(self, state: EGState | MixtureState) -> float:
        rounds = float(state.rounds[0])
        return min(rounds * math.sqrt(max(rounds / self.rest, 1.0)), self.largest)

    def end(self, problem: Problem, state: EGState | MixtureState, pull: Pull) -> float:
        """Take κ z out of v, its mean and its norm; returns how much the distance of w and v / l2 widens the gap."""
        where, l2 = pull.where, problem.l2
        weights = pull.root * state.v[where].astype(np.float64) / pull.l2
        state.average[where] *= pull.root * (l2 / pull.l2)
        _see(state, where, state.v[where] / pull.root - pull.kappa * state.anchor[where])
        apart = weights - state.v[where] / l2
        if state.since[0] < 0:
            self._follow(state, where, state.average[where] / l2, self.momentum)
        elif (state.rounds[0] - state.since[0]) % self.every == self.every - 1:
            root = math.sqrt(l2 / pull.l2)
            self._follow(state, where, weights, (1.0 - root) / (1.0 + root))
        return 0.5 * l2 * float(apart @ apart)

    def _follow(
        self, state: EGState | MixtureState, where: Any, weights: np.ndarray, momentum: float
    ) -> None:
        state.anchor[where] = weights + momentum * (weights - state.previous[where])
        state.previous[where] = weights

    def watch(self, problem: Problem, state: EGState | MixtureState, gap: float) -> None:
        """Count a pass that ended with an estimate of the gap. Hold weights if steps are short, and begin with all
        weights if the gap falls slowly."""
        state.rounds[0] += 1
        before, state.recent[:-1], state.recent[-1] = float(state.recent[0]), state.recent[1:].copy(), gap
        if not len(state.anchor) or state.since[0] >= 0:
            return
        if self.may_hold and state.rounds[0] == _FIRST_PASSES:
            competes = (
                not cast("EGState", state).code.size and state.step.mean() < _SHORT_STEP * problem.loss.beta
            )
            state.holds[0] = competes and rescaled(problem) is not None
            self.lead_from(state, state.average / problem.l2)
        if state.rounds[0] < self.rest:
            return
        by_round = 1.0 - 1.0 / math.sqrt(1.0 + self._ratio(state))
        if gap > before * by_round ** (_WATCHED / self.every):
            state.since[0] = state.rounds[0]
            self.lead_from(state, (state.average if state.holds[0] else state.v) / problem.l2)

    def lead_from(self, state: EGState | MixtureState, weights: np.ndarray) -> None:
        """Let z be `weights`."""
        if len(state.anchor):
            state.anchor[:] = state.previous[:] = weights

    def forget(self, state: EGState | MixtureState) -> None:
        """Stop after a change of the problem: its optimum has moved."""
        state.since[0], state.recent[:] = -1, np.nan
        state.anchor[:] = state.previous


def _see(state: EGState | MixtureState, where: Any, v: Any) -> None:
    """Change v and its squared norm."""
    before = state.v[where].astype(np.float64)
    state.v[where] = v
    after = state.v[where].astype(np.float64)
    state.norm[0] += float(after @ after) - float(before @ before)
