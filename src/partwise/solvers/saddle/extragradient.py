"""`extragradient`: the saddle point of weights and labels by entropic extragradient steps.

Training is a game (Taskar, Lacoste-Julien, Jordan 2006): w minimises and the distributions α maximise

    L(w, α) = (l2/2)‖w‖² − w·v(α) + Σ_i weight_i ( γ Σ_r μ_{i,r} e_{i,r} + H(α_i)/β ).

Both players take a trial step, then move from their old points by the gradients found at the trial points:

    w' = (w + τ v(α)) / (1 + τ l2),     θ' = (θ + σ (s(w) + γ e)) / (1 + σ/β)
    w⁺ = (w + τ v(α')) / (1 + τ l2),    θ⁺ = (θ + σ (s(w') + γ e)) / (1 + σ/β)

Steps of α are proximal in the Kullback–Leibler divergence, so that only potentials θ matter. All examples share σ, so
that one vector u and two numbers represent them: θ = score(u) + κ γ e + ρ θ⁰.

Regulariser and entropy belong to the proximal steps, not to the gradients. Their strong convexity lets later steps
weigh more. With a_k = A_k τ_k = C_k σ_k, A_{k+1} = A_k + a_k l2 and C_{k+1} = C_k + a_k/β,

    Σ_k a_k ( L(w'_k, α) − L(w, α'_k) ) ≤ A_j ‖w − w_j‖²/2 + C_j KL(α ‖ α_j)     for all w, α; sums from any j on

as long as every step passes the test of mirror-prox (`Step.excess` ≤ 0). So the mean of the trial points, weighted by
a_k, has a gap of O(1/k²) for β = ∞, and a gap that falls geometrically for finite β. Only τσ is free. The test cannot
fail for τσ = 1/B², B² = Σ_i weight_i max_y,z ‖φ(x_i, y) − φ(x_i, z)‖²/4. It usually allows much more.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.base import Certificate, Solver, StepInfo
from partwise.solvers.needs import Needs

# The ratio of the test that τσ aims at, and the least and largest factor on τσ at a time.
_TARGET, _SHRINK, _GROWTH = 0.8, 0.7, 10.0
_ROUNDING = 1e-14  # relative error of the log-partition that the test allows for
GOLD_POTENTIAL = 10.0  # θ⁰ of the true labels' rows: near them, but every labelling has a share
_LARGE = 1e100  # A and C are scaled down above this size


class ExtragradientState(NamedTuple):
    """Both players with their evaluations, the weights of the steps, and two means.

    Attributes
    ----------
    weights, u : ndarray (n_weights,)
    scales : ndarray (2,)
        κ and ρ.
    v : ndarray (n_weights,)
        v(α).
    sums : ndarray (4,)
        Entropy, cost, log-partition and true score at θ, summed over examples.
    terms : ndarray (4,)
        A, C, τσ and the safe 1/B².
    mean_weights, mean_v : ndarray (2, n_weights)
        Means of the trial points since the last two powers of two in the number of steps.
    mean_sums : ndarray (2, 3)
        Sums of the a_k, and the means of entropy and cost.
    n_steps : ndarray (1,) of int64
    """

    weights: np.ndarray
    u: np.ndarray
    scales: np.ndarray
    v: np.ndarray
    sums: np.ndarray
    terms: np.ndarray
    mean_weights: np.ndarray
    mean_v: np.ndarray
    mean_sums: np.ndarray
    n_steps: np.ndarray


class Labels(NamedTuple):
    """The second player: θ = score(u) + κ γ e + ρ θ⁰, and sums over examples there."""

    u: np.ndarray
    kappa: float
    rho: float
    v: np.ndarray
    entropy: float
    cost: float
    log_total: float
    gold: float

    @classmethod
    def at(cls, problem: Problem, u: np.ndarray, kappa: float, rho: float) -> Labels:
        point = problem.at_weights(u, 1.0, kappa * problem.loss.gamma, rho)
        weight = problem.batch.example_weight
        return cls(
            u,
            kappa,
            rho,
            point.v,
            entropy=float(weight @ point.entropy),
            cost=float(weight @ point.cost),
            log_total=float(weight @ point.log_total),
            gold=float(weight @ point.gold),
        )

    def inner(self, other: Labels, problem: Problem) -> float:
        """Σ_i weight_i θ_other·μ, where Σ_i weight_i s_i(u)·μ_i = u·(Σ_i weight_i φ(x_i, y_i) − v)."""
        return other.gold - problem.inner(other.u, self.v) + other.kappa * problem.loss.gamma * self.cost

    def divergence(self, other: Labels, problem: Problem) -> float:
        """Σ_i weight_i KL(α_i ‖ other_i) = A(θ_other) − A(θ) − (θ_other − θ)·μ."""
        own = self.inner(self, problem)
        # What θ·μ has besides is ρ θ⁰·μ; the other point has its own share of θ⁰.
        start = self.log_total - self.entropy - own
        across = self.inner(other, problem) + (start * other.rho / self.rho if self.rho > 0.0 else 0.0)
        return max(other.log_total - self.log_total - across + own + start, 0.0)

    def dual(self, problem: Problem) -> float:
        return _dual(problem, self.v, self.entropy, self.cost)


class Step(NamedTuple):
    """The trial points and the new points of both players, and the test of mirror-prox.

    `excess` is ⟨F(z') − F(z), z' − z⁺⟩ − the distances from z to z' and from z' to z⁺. `ratio` is their quotient, nan
    if rounding decides.
    """

    middle_weights: np.ndarray
    middle: Labels
    weights: np.ndarray
    labels: Labels
    excess: float
    ratio: float


@dataclass(frozen=True)
class Extragradient(Solver):
    """Extragradient on weights and labels together, for every loss; no step size to choose."""

    name = "extragradient"
    needs = Needs(ridge=True)
    runs_on_gpu = True

    def init(self, problem: Problem, random: np.random.Generator) -> ExtragradientState:
        d = problem.n_weights
        state = ExtragradientState(
            weights=np.zeros(d),
            u=np.zeros(d),
            scales=np.zeros(2),
            v=np.zeros(d),
            sums=np.zeros(4),
            terms=np.zeros(4),
            mean_weights=np.zeros((2, d)),
            mean_v=np.zeros((2, d)),
            mean_sums=np.zeros((2, 3)),
            n_steps=np.zeros(1, np.int64),
        )
        _keep(state, state.weights, Labels.at(problem, state.u, 0.0, GOLD_POTENTIAL))
        self._start(problem, state)
        return state

    def carry_over(
        self, problem: Problem, state: ExtragradientState, changed: Set[str]
    ) -> ExtragradientState:
        """Both players stay where they are."""
        _keep(state, state.weights, Labels.at(problem, state.u, *state.scales))
        self._start(problem, state)
        return state

    def _start(self, problem: Problem, state: ExtragradientState) -> None:
        """The first weights of the steps; means start again."""
        spread = float(problem.batch.example_weight @ problem.squared_radii()) / 4.0
        safe = 1.0 / spread if spread > 0.0 else 1.0
        state.terms[:] = _first_ratio(problem), 1.0, problem.n_examples * safe, safe
        state.mean_sums[:], state.n_steps[:] = 0.0, 0

    def step(
        self, problem: Problem, state: ExtragradientState, random: np.random.Generator
    ) -> tuple[ExtragradientState, StepInfo]:
        if state.terms[1] > _LARGE:  # for finite β weights grow geometrically, and only their ratios matter
            state.mean_sums[:, 0] /= state.terms[1]
            state.terms[:2] /= state.terms[1]
        (a, c, product, safe), l2 = state.terms.tolist(), problem.l2
        labels, trials = _labels(state), 0
        while True:
            trials += 1
            tau, sigma = float(np.sqrt(product * c / a)), float(np.sqrt(product * a / c))
            step = _try(problem, state.weights, labels, tau, sigma)
            if not step.excess > 0.0 or product <= safe:
                break
            product = max(safe, product * min(_SHRINK, (_TARGET / step.ratio) ** 2))
        weight = c * sigma
        _into_means(state, weight, step)
        _keep(state, step.weights, step.labels)
        growth = (
            1.0 if np.isnan(step.ratio) else min(_GROWTH, max(1.0, (_TARGET / max(step.ratio, 0.1)) ** 2))
        )
        state.terms[:3] = a + weight * l2, c + weight * problem.loss.inverse_beta, product * growth
        return state, StepInfo(2.0 * trials, self._best_dual(problem, state))

    def _best_dual(self, problem: Problem, state: ExtragradientState) -> float:
        """Of the last labels and of the mean; H of the mean is at least the mean of H."""
        last = _labels(state).dual(problem)
        if state.mean_sums[0, 0] == 0.0:
            return last
        return max(last, _dual(problem, state.mean_v[0], *state.mean_sums[0, 1:]))

    def certificate(
        self, problem: Problem, state: ExtragradientState
    ) -> tuple[ExtragradientState, Certificate]:
        candidates = [state.weights]
        if state.mean_sums[0, 0] > 0.0:
            candidates.append(state.mean_weights[0])
        values = [problem.primal(weights) for weights in candidates]
        best = int(np.argmin(values))
        kept = self._best_dual(problem, state)
        _keep(state, state.weights, Labels.at(problem, state.u, *state.scales))
        dual = self._best_dual(problem, state)
        return state, Certificate(values[best], dual, candidates[best].copy(), abs(kept - dual))


def _first_ratio(problem: Problem) -> float:
    """A/C that balances both distances to the optimum; for finite β, the ratio that steps tend to.

    KL(α* ‖ uniform) ≤ log |Y|, and (l2/2)‖w*‖² ≤ P(0).
    """
    if not problem.loss.is_hard:
        return problem.l2 * problem.loss.beta
    zero = np.zeros(problem.n_weights)
    log_count = float(problem.batch.example_weight @ problem.at_weights(zero, 1.0).log_total)
    value = problem.primal(zero)
    return problem.l2 * (log_count / value if value > 0.0 and log_count > 0.0 else 1.0)


def _try(problem: Problem, weights: np.ndarray, labels: Labels, tau: float, sigma: float) -> Step:
    l2, shrink = problem.l2, 1.0 + sigma * problem.loss.inverse_beta
    kappa, rho = (labels.kappa + sigma) / shrink, labels.rho / shrink
    middle_weights = (weights + tau * labels.v) / (1.0 + tau * l2)
    middle = Labels.at(problem, (labels.u + sigma * weights) / shrink, kappa, rho)
    new_weights = (weights + tau * middle.v) / (1.0 + tau * l2)
    new = Labels.at(problem, (labels.u + sigma * middle_weights) / shrink, kappa, rho)
    back, forth = middle_weights - new_weights, middle_weights - weights
    inner = problem.inner
    product = inner(middle.v - new.v, forth) - inner(middle.v - labels.v, back)
    distance = ((1.0 + tau * l2) * inner(back, back) + inner(forth, forth)) / (2.0 * tau)
    distance += (shrink * new.divergence(middle, problem) + middle.divergence(labels, problem)) / sigma
    noise = _ROUNDING * max(abs(p.log_total) for p in (labels, middle, new)) / sigma
    excess = product - distance - noise
    return Step(
        middle_weights,
        middle,
        new_weights,
        new,
        excess,
        product / distance if distance > noise else np.nan,
    )


def _dual(problem: Problem, v: np.ndarray, entropy: float, cost: float) -> float:
    value = problem.loss.inverse_beta * entropy + problem.loss.gamma * cost
    return value - problem.inner(v, v) / (2.0 * problem.l2)


def _labels(state: ExtragradientState) -> Labels:
    kappa, rho = state.scales.tolist()
    entropy, cost, log_total, gold = state.sums.tolist()
    return Labels(state.u, kappa, rho, state.v, entropy, cost, log_total, gold)


def _keep(state: ExtragradientState, weights: np.ndarray, labels: Labels) -> None:
    state.weights[:], state.u[:], state.v[:] = weights, labels.u, labels.v
    state.scales[:], state.sums[:] = labels[1:3], labels[4:]


def _into_means(state: ExtragradientState, weight: float, step: Step) -> None:
    """Add the trial points to both means. The older one is used: it spans the last half to three quarters."""
    state.n_steps[0] += 1
    count = int(state.n_steps[0])
    if count & (count - 1) == 0:
        for mean in (state.mean_weights, state.mean_v, state.mean_sums):
            mean[0] = mean[1]
        state.mean_sums[1] = 0.0
    for k in range(2):
        state.mean_sums[k, 0] += weight
        share = weight / state.mean_sums[k, 0]
        state.mean_weights[k] += share * (step.middle_weights - state.mean_weights[k])
        state.mean_v[k] += share * (step.middle.v - state.mean_v[k])
        state.mean_sums[k, 1:] += share * (
            np.array([step.middle.entropy, step.middle.cost]) - state.mean_sums[k, 1:]
        )
