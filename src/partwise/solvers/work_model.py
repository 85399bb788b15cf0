"""The work model: what a pass costs, from sizes and not from a clock, and how many passes are expected.

Equal runs decide alike, because nothing here is timed. The unit is about a nanosecond, and only ratios matter. The
coefficients were fitted by

    python benchmarks/fit_work_model.py results.json more.json

to what `benchmarks/regret.py --json` wrote; it prints their residuals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.core.products import n_distinct
from partwise.solvers.primal.curvature import columns_of, has_whole_blocks, is_worthwhile


class Sizes(NamedTuple):
    """The sizes that the work of a pass depends on: examples, weights read by sparse rows and by dense rows, the
    nanoseconds of sums over labellings that `Structure.sums_effort` tells, and all weights."""

    examples: float
    sparse: float
    dense: float
    sums: float
    weights: float


FIXED = 2e5  # of any pass, most of it in Python
# Nanoseconds for each unit of `Sizes`: online visits, in single precision, and an evaluation of all examples with the
# step of L-BFGS that follows, in double precision, whose dense rows are one product of matrices. Visits also move all
# parts, of which there are as many as terms of the sums.
VISITS = Sizes(500.0, 0.48, 0.13, 1.2, 3.0)
EVALUATION = Sizes(210.0, 0.28, 0.19, 0.6, 24.0)
# Work of visits chosen together; least and most chunks in a pass.
_A_CHUNK, _FEWEST_CHUNKS, _MOST_CHUNKS = 1.2e5, 3, 10
_ENTRY_SHARED = 1.3  # to scatter a weight that another thread may have changed last
_SAMPLE = 4096  # dense rows that the size of features is estimated from


def sizes_of(problem: Problem) -> tuple[Sizes, Sizes]:
    """The sizes of a pass of visits and of an evaluation, which reads equal dense rows once."""
    dense, n_weights = _padded_dense(problem), float(problem.n_weights)
    distinct = sum(
        n_distinct(problem.scorer, k) * kind.dense.shape[1] * kind.width
        for k, kind in enumerate(problem.scorer.kinds)
    )
    sums, n_sparse = problem.structure.sums_effort(problem.scorer.shapes), problem.n_touched - dense
    visits = Sizes(float(problem.n_examples), float(n_sparse), float(dense), float(sums), n_weights)
    return visits, visits._replace(dense=float(distinct))


def online_pass_work(problem: Problem) -> float:
    """Work of a pass of online visits."""
    return FIXED + visits_work(problem) + VISITS.weights * problem.n_weights


def visits_work(problem: Problem) -> float:
    """Work of the visits of such a pass."""

    def count() -> float:
        return float(np.dot(VISITS[:-1], sizes_of(problem)[0][:-1]))

    return float(problem.kept("work of visits", count))


def evaluation_work(problem: Problem) -> float:
    """Work of one evaluation of P and its gradient, and of the step of L-BFGS that follows."""

    def count() -> float:
        return FIXED + float(np.dot(EVALUATION, sizes_of(problem)[1]))

    return float(problem.kept("work of an evaluation", count))


def chunks_worthwhile(problem: Problem) -> int:
    """Number of chunks of a pass, so that the choice of the next examples takes little of its time."""
    return int(np.clip(visits_work(problem) / _A_CHUNK, _FEWEST_CHUNKS, _MOST_CHUNKS))


def scatter_work(problem: Problem) -> float:
    """Work of the part of such a pass that changes weights, if several threads share them."""
    return _ENTRY_SHARED * problem.n_touched


# -- passes ----------------------------------------------------------------------------------------


SOFT = 1e-3  # stiffness below which it hardly matters for classes and sparse rows


class Passes(NamedTuple):
    """Passes to a relative gap of 1e-3: least · (1 + stiffness / soft)^power."""

    least: float
    power: float
    soft: float = SOFT

    def at(self, stiffness: float) -> float:
        return float(self.least * (1.0 + stiffness / self.soft) ** self.power)


# The rows say how much of the curvature the preconditioner of L-BFGS knows. "told": the curvature of all attributes (at
# most 300), or of dense attributes that have nearly all of Σ ‖x‖². "not told": less than that.
# The row of structures is fitted by hand to seven datasets with a stiffness of 0.01 to 0.9: 5, 7, 5, 28, 8, 27 and 29
# passes, and 15, 17, 16, 78, 26, 27 and 19 evaluations. 28 and 78 are of handwritten words.
PASSES = {
    "told, classes": {"eg-gap": Passes(11.0, 0.24), "lbfgs": Passes(10.0, 0.03)},
    "told, structures": {"eg-gap": Passes(5.0, 0.4, 0.05), "lbfgs": Passes(27.0, 0.0)},
    "not told": {"eg-gap": Passes(5.2, 0.12), "lbfgs": Passes(29.0, 0.04)},
}
_MOST_COLUMNS = 300  # The most attributes whose curvature counts as known in full; more were not measured.
_TOLD = 0.9  # If the attributes of known curvature have a larger share of Σ ‖x‖², L-BFGS counts as told.
_STEEP = 40.0  # l1 / l2 above which visits overshoot
# A pass of visits to n examples gains on as many evaluations as √(n / 25), because later visits use what earlier ones
# have learnt. 10 long sentences take 21 to 40 passes and 18 to 26 evaluations; 300 take 17 to 24 and 34 to 61.
_FEW = 25.0
_APART = (
    6.0  # Positions of a chain that are further apart hardly compete: stretches of so many count as examples.
)
# Passes of exact coordinate ascent for β = ∞, for each unit of the pull of a position, and at least.
_BY_PULL, _LEAST_BY_PULL = 5.0, 5.0
# Evaluations of L-BFGS over all values of β, if it is told the curvature, by the pull of a position. Chains were fitted
# to six runs: 78 evaluations at a pull of 0.16, 181 at 1.6, 230 at 11, 532 at 110, and 320 and 414 at 1.5 and 15.
_SHARPENED_CLASSES, _SHARPENED_CHAINS = Passes(50.0, 0.0), Passes(50.0, 0.27, 0.012)


def told(problem: Problem) -> str:
    """The row of `PASSES` for a problem."""
    share = 0.0
    if is_worthwhile(problem):
        share = 1.0 if is_told_all(problem) else dense_share(problem)
    if share <= _TOLD:
        return "not told"
    return "told, structures" if problem.lengths.max(initial=1) > 1 else "told, classes"


def passes_expected(problem: Problem, solver: str) -> float:
    """Passes of online exponentiated gradient, "eg-gap", or evaluations of "lbfgs"."""
    if solver == "eg-gap" and weights_are_steep(problem):
        return math.inf
    return passes_at(told(problem), solver, stiffness(problem), n_competing(problem))


def passes_at(row: str, solver: str, stiff: float, n: float) -> float:
    """The same from a row of `PASSES`, the stiffness, and the number of competing examples."""
    passes = PASSES[row][solver].at(stiff)
    if solver == "eg-gap" and row == "not told":
        passes = max(passes, math.sqrt(_FEW / n) * PASSES[row]["lbfgs"].at(stiff))
    return passes


def n_competing(problem: Problem) -> float:
    """Examples, or stretches of chains if there are more of them."""
    n_stretches = float(problem.lengths.sum()) / _APART if problem.structure.is_first_order else 0.0
    return max(float(problem.n_examples), n_stretches, 1.0)


def weights_are_steep(problem: Problem) -> bool:
    """Whether weights, (|v| − l1) / l2, are small differences of large numbers."""
    return problem.l1 > _STEEP * problem.l2


def overlap_decides(problem: Problem) -> bool:
    """Whether the overlap of classes decides which solver is faster: if l2 is strong, both are fast."""
    is_dense = is_mostly_dense(problem) and problem.lengths.max(initial=1) == 1
    return is_dense and stiffness(problem) > SOFT


def passes_of_exact_ascent(problem: Problem) -> float:
    """Passes of exact coordinate ascent for β = ∞: the more, the further a step moves the scores of its position."""
    return max(_BY_PULL * pull_of_a_position(problem), _LEAST_BY_PULL)


def evaluations_of_sharpened(problem: Problem) -> float:
    """Evaluations of L-BFGS on sharper and sharper losses; inf unless it is told the curvature."""
    if told(problem) == "not told":
        return math.inf
    passes = _SHARPENED_CHAINS if problem.lengths.max(initial=1) > 1 else _SHARPENED_CLASSES
    return passes.at(pull_of_a_position(problem))


def is_told_all(problem: Problem) -> bool:
    """Whether L-BFGS knows the curvature of all attributes, and they are few."""
    if not is_worthwhile(problem) or not has_whole_blocks(problem):
        return False
    return all(columns_of(rows) <= _MOST_COLUMNS for rows in problem.scorer.kinds)


def is_mostly_dense(problem: Problem) -> bool:
    """Whether dense attributes have nearly all weights that a pass reads."""
    return _padded_dense(problem) > 0.9 * problem.n_touched


def stiffness(problem: Problem) -> float:
    """β Σ ‖x‖² over the rows of an example, divided by l2 · n. Above one, visits of examples undo each other."""
    weight = float(problem.example_weight.sum())
    return problem.loss.beta * pull_of_an_example(problem) / max(weight, 1e-300)


def pull_of_an_example(problem: Problem) -> float:
    """Σ ‖x‖² over the rows of an example, divided by l2: how far a visit moves its own scores."""
    return squared_features(problem) / max(problem.l2 * problem.n_examples, 1e-300)


def pull_of_a_position(problem: Problem) -> float:
    """The same for one position of a chain: steps for β = ∞ change the labels of few positions, however long it is."""
    share = problem.n_examples / max(float(problem.lengths.sum()), 1.0)
    return float(problem.example_weight.mean()) * pull_of_an_example(problem) * share


def squared_features(problem: Problem) -> float:
    """Σ ‖x‖² over all rows; dense attributes are sampled."""
    return sum(_squares(problem))


def dense_share(problem: Problem) -> float:
    """The share of dense attributes in Σ ‖x‖²."""
    dense, sparse = _squares(problem)
    return dense / max(dense + sparse, 1e-300)


def _squares(problem: Problem) -> tuple[float, float]:
    """Σ x² over dense attributes and over all others."""

    def count() -> tuple[float, float]:
        dense = sparse = 0.0
        for kind in problem.scorer.kinds:
            every = max(1, len(kind.dense) // _SAMPLE)
            sample = kind.dense[::every]
            dense += every * float(np.vdot(sample, sample))
            for value, n_entries in (
                (kind.wide_value, len(kind.wide_start)),
                (kind.narrow_value, len(kind.narrow_start)),
            ):
                sparse += float(np.vdot(value, value)) if value.size else n_entries
        return dense, sparse

    found: tuple[float, float] = problem.kept("squared features in all", count)
    return found


def _padded_dense(problem: Problem) -> int:
    """Weights of dense attributes that a pass reads or writes."""
    return sum(kind.dense.size * kind.stride for kind in problem.scorer.kinds)
