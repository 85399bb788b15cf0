"""A bound on the loss of data not seen, from the training data alone (Bartlett et al. 2004, section 5, eq. 7).

For a unit vector w and a margin γ, with probability 1 − δ over the sample, the expected loss of the Gibbs classifier
that draws weights around w is at most

    KL⁻¹( 𝓛(w, γ, S) + 1/(nγ²),  [ ln(2 ℓ_max n γ²)/γ² + ln(n/δ) ] / (n − 1) )

𝓛 is the mean over examples of the worst loss of a labelling ŷ within the margin: one with score(ŷ) ≥ max_y′ ( score(y′)
− γ E(ŷ, y′) ), where E sums the norms of the features of parts that one of the two has alone. ℓ_max is the largest
number of parts of an example. Losses are costs over the largest cost of the example.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from partwise.compiled.rows import FIRST_ROW, KIND, N_ROWS
from partwise.compiled.simd import LANES
from partwise.core.arrays import block_of, ranges
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.dual.untied import untied
from partwise.structures.contract import Shapes
from partwise.structures.multiclass.multiclass import Multiclass
from partwise.structures.packed import Packed

_GAMMAS = tuple(np.geomspace(1.0, 1e-3, 13).tolist())
_MOST_LABELLINGS = 300  # of an example that is enumerated
_HALVINGS = 30


@dataclass(frozen=True)
class GeneralizationBound:
    """The bound of eq. 7.

    Attributes
    ----------
    bound : float
        Of the Gibbs classifier's expected loss, from 0 to 1.
    gamma : float
        The margin it was found at.
    empirical : float
        𝓛, the mean worst loss within that margin.
    is_exact : bool
        Whether 𝓛 is exact; otherwise it is an upper bound, and the bound still holds.
    training_loss : float
        Mean loss of the classifier itself on the sample.
    """

    bound: float
    gamma: float
    empirical: float
    is_exact: bool
    training_loss: float

    def __str__(self) -> str:
        kind = "" if self.is_exact else " or less"
        return (
            f"expected loss at most {self.bound:.3f} (margin {self.gamma:.3g}, worst loss within it "
            f"{self.empirical:.3f}{kind}; on the sample {self.training_loss:.3f})"
        )


def generalization_bound(
    problem: Problem, weights: np.ndarray, delta: float = 0.05, gammas: Any = _GAMMAS
) -> GeneralizationBound:
    """The best of the bounds at some margins. Eq. 7 holds for all margins at once, so that δ is not divided.

    Parameters
    ----------
    problem : Problem
        The training data, with a cost; without one (γ = 0) wrong labels count one each.
    weights : ndarray (n_weights,)
        Their length does not matter.
    delta : float
        How probable it may be that the bound is wrong.
    gammas : sequence of float
        Margins, from 0 to 1.

    Returns
    -------
    GeneralizationBound
        Exact for classes, and for examples with few labellings where the structure lists them by length. Elsewhere 𝓛 is
        an upper bound, and says so: the worst loss within the margin of the best labelling alone, by its Lagrangian
        dual. Tied transitions of a chain are parts of their own at every position (see `solvers/dual/untied.py`).
    """
    gammas = np.asarray(gammas, float)
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must be between 0 and 1, not {delta!r:.40}")
    if gammas.ndim != 1 or not len(gammas) or not ((gammas > 0.0) & (gammas <= 1.0)).all():
        raise InputError("gammas must be some numbers above 0 and at most 1")
    if problem.n_examples < 2:
        raise InputError("a bound needs two examples or more")
    sample = _Sample(untied(problem), weights)
    found = [sample.at(float(gamma), delta) for gamma in gammas]
    return min(found, key=lambda each: each.bound)


class _Sample:
    """Scores, norms and costs of all parts; best labellings."""

    def __init__(self, problem: Problem, weights: np.ndarray):
        self.problem, self.structure = problem, problem.structure
        self.shapes, self.part_ptr = problem.scorer.shapes, problem.batch.part_ptr
        weights = np.asarray(weights, np.float64)
        largest = float(np.abs(weights).max(initial=0.0))
        if weights.shape != (problem.n_weights,) or not np.isfinite(largest):
            raise InputError(f"weights must be {problem.n_weights} finite numbers")
        if not largest > 0.0:
            raise InputError("weights are all zero: there is no margin")
        weights = weights / largest  # squares of large weights are infinite
        self.scores = problem.scores(weights) / np.sqrt(problem.inner(weights, weights))
        self.norms, self.is_tied = _part_norms(problem)
        self.costs = self._costs()
        self.example = block_of(self.part_ptr)
        self.best = self._counts(self.scores)
        self.gold_cost = self._sum(self.costs, self._gold())
        self.largest = self._sum(self.costs, self._counts(self.costs)) - self.gold_cost
        self.own_loss = self._loss(self._sum(self.costs, self.best))
        sizes = np.diff(self.part_ptr) - problem.batch.n_tied
        most = self.structure.most_tied(self.shapes) * problem.batch.n_tied if problem.batch.n_tied else 0
        self.n_bits = float(np.max(sizes + most))

    def at(self, gamma: float, delta: float) -> GeneralizationBound:
        """Eq. 7 at one margin."""
        worst, is_exact = self._worst(gamma)
        empirical, n = float(worst.mean()), self.problem.n_examples
        # ln(2 ℓ n γ²) grows from 0 on; below that the posterior would be the prior.
        spread = max(np.log(max(2.0 * self.n_bits * n * gamma**2, 1.0)), 0.0) / gamma**2
        bound = largest_with_divergence(
            min(empirical + 1.0 / (n * gamma**2), 1.0), (spread + np.log(n / delta)) / (n - 1)
        )
        return GeneralizationBound(bound, gamma, empirical, is_exact, float(self.own_loss.mean()))

    def _worst(self, gamma: float) -> tuple[np.ndarray, bool]:
        """Worst losses within the margin, (n_examples,), and whether they are exact."""
        if isinstance(self.structure, Multiclass):
            return self._worst_class(gamma), True
        if self._listed is not None:
            return np.array([_worst_of(gamma, *each) for each in self._listed]), True
        return self._dual_bound(gamma), False

    def _worst_class(self, gamma: float) -> np.ndarray:
        width = self.structure.n_labels  # type: ignore[attr-defined]
        scores, norms = self.scores.reshape(-1, width), self.norms.reshape(-1, width)
        losses = self._loss_of_parts().reshape(-1, width)
        best = scores.argmax(axis=1)
        rows = np.arange(len(scores))
        apart = norms + norms[rows, best][:, None]
        apart[rows, best] = 0.0
        within = scores >= scores[rows, best][:, None] - gamma * apart
        return np.where(within, losses, 0.0).max(axis=1)

    def _loss_of_parts(self) -> np.ndarray:
        return (self.costs - self.gold_cost[self.example]) / np.maximum(self.largest[self.example], 1e-300)

    @cached_property
    def _listed(self) -> list[tuple[np.ndarray, ...]] | None:
        """(scores, losses, counts, norms) of all labellings of every example; None where they are too many."""
        found: list[tuple[np.ndarray, ...]] = []
        for i, length in enumerate(self.shapes.lengths.tolist()):
            own = slice(self.part_ptr[i], self.part_ptr[i + 1])
            if self.is_tied[own].any():  # the count of a tied part does not say at which positions it is used
                return None
            try:
                labellings = list(islice(self.structure.labellings(length), _MOST_LABELLINGS + 1))
                parts = [self.structure.encode(y) for y in labellings]
            except (InputError, NotImplementedError, TypeError):
                return None
            size = own.stop - own.start
            if len(labellings) > _MOST_LABELLINGS or max(p.max() for p in parts) >= size:
                return None
            counts = np.array([np.bincount(part, minlength=size) for part in parts], float)
            costs = counts @ self.costs[own]
            losses = (costs - self.gold_cost[i]) / max(self.largest[i], 1e-300)
            found.append((counts @ self.scores[own], losses, counts, self.norms[own]))
        return found

    def _dual_bound(self, gamma: float) -> np.ndarray:
        """min over λ ≥ 0 of max_ŷ [ loss(ŷ) + λ ( score(ŷ) + γ E(ŷ, y*) − score(y*) ) ], y* the best labelling.

        Only y* is asked for in place of all y′, which leaves more ŷ within the margin. E is a sum over the parts of
        ŷ, and a number for those of y* that ŷ has not; tied parts are left out, because their positions are not known
        to be in common.
        """
        in_best = np.where(self.is_tied, 0.0, np.minimum(self.best, 1.0))
        slack = self.scores + gamma * self.norms * (1.0 - 2.0 * in_best)
        given = self._sum(self.scores - gamma * self.norms, self.best)
        loss = self.costs / np.maximum(self.largest, 1e-300)[self.example]
        base = self.gold_cost / np.maximum(self.largest, 1e-300)
        low, high = np.zeros(self.problem.n_examples), np.full(self.problem.n_examples, np.nan)
        bound, at = np.ones(self.problem.n_examples), np.ones(self.problem.n_examples)
        for _ in range(_HALVINGS):
            total = loss + at[self.example] * slack
            counts = self._counts(total)
            value = self._sum(total, counts) - at * given - base
            bound = np.minimum(bound, value)
            # The slope of the dual: above 0 the maximiser is within the margin, and λ is too large.
            rises = self._sum(slack, counts) - given > 0.0
            high = np.where(rises, at, high)
            low = np.where(rises, low, at)
            at = np.where(np.isnan(high), at * 4.0, (low + np.where(np.isnan(high), 0.0, high)) / 2.0)
        return np.clip(np.maximum(bound, self.own_loss), 0.0, 1.0)

    def _costs(self) -> np.ndarray:
        if self.problem.cost.size:
            return self.problem.cost.astype(np.float64)
        costs = np.where(self.is_tied, 0.0, 1.0)
        places = self.problem.gold_indices()
        costs[places] = 0.0
        return costs

    def _gold(self) -> np.ndarray:
        batch = self.problem.batch
        amounts = batch.gold_amount if batch.gold_amount.size else None
        return np.bincount(self.problem.gold_indices(), amounts, int(self.part_ptr[-1])).astype(float)

    def _counts(self, scores: np.ndarray) -> np.ndarray:
        """Parts of best labellings, (n_parts,)."""
        flat = np.concatenate([scores, np.zeros(LANES)])
        shapes = Shapes(np.asarray(self.shapes.ptr), np.ascontiguousarray(self.shapes.values, np.int32))
        packed = Packed(self.structure, self.structure.specification(), shapes, self.part_ptr, flat, False)
        return packed.answers("best")[1]

    def _sum(self, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
        products = np.where(counts > 0.0, values, 0.0) * counts
        return np.bincount(self.example, products, self.problem.n_examples)

    def _loss(self, costs: np.ndarray) -> np.ndarray:
        return (costs - self.gold_cost) / np.maximum(self.largest, 1e-300)


def _worst_of(
    gamma: float, scores: np.ndarray, losses: np.ndarray, counts: np.ndarray, norms: np.ndarray
) -> float:
    """The definition, for one example whose labellings are listed."""
    apart = np.abs(counts[:, None, :] - counts[None, :, :]) @ norms
    within = scores >= (scores[None, :] - gamma * apart).max(axis=1)
    return float(losses[within].max(initial=0.0))


def _part_norms(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Norms of the features of every part, and whether all examples share its row."""
    scorer, structure = problem.scorer, problem.structure
    norms, is_tied = np.zeros(problem.n_parts), np.zeros(problem.n_parts, bool)
    runs, part_ptr = scorer.runs, problem.batch.part_ptr
    example = block_of(scorer.run_ptr)
    for k, (kind, rows) in enumerate(zip(structure.kinds, scorer.kinds, strict=True)):
        own = runs[:, KIND] == k
        row = ranges(runs[own][:, FIRST_ROW], runs[own][:, N_ROWS])
        first = part_ptr[:-1][example[own]] + runs[own][:, 3]
        part = ranges(first, runs[own][:, N_ROWS] * kind.width)
        norms[part] = np.repeat(_row_norms(rows)[row], kind.width)
        is_tied[part] = kind.tied
    return norms, is_tied


def _row_norms(rows: Any) -> np.ndarray:
    total = (
        (rows.dense.astype(float) ** 2).sum(axis=1)
        if rows.dense.shape[1]
        else np.zeros(len(rows.wide_ptr) - 1)
    )
    for ptr, start, value in (
        (rows.wide_ptr, rows.wide_start, rows.wide_value),
        (rows.narrow_ptr, rows.narrow_start, rows.narrow_value),
    ):
        squares = value.astype(float) ** 2 if value.size else np.ones(len(start))
        total = total + np.bincount(block_of(ptr), squares, len(ptr) - 1)
    return np.sqrt(total)


def largest_with_divergence(q: float, budget: float) -> float:
    """KL⁻¹(q, ε): the largest p with q ln(q/p) + (1 − q) ln((1 − q)/(1 − p)) ≤ ε."""

    def divergence(p: float) -> float:
        first = q * np.log(q / p) if q > 0.0 else 0.0
        return first + ((1.0 - q) * np.log((1.0 - q) / (1.0 - p)) if q < 1.0 else 0.0)

    if q >= 1.0:
        return 1.0
    low, high = q, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if middle >= 1.0 or divergence(max(middle, 1e-300)) > budget:
            high = middle
        else:
            low = middle
    return float(high)
