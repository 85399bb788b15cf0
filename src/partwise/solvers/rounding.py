"""Certificates that hold in spite of rounding: bounds are moved apart by what rounding may have done to them."""

from __future__ import annotations

import math
from dataclasses import replace

from partwise.core.problem import Problem
from partwise.core.rounding import careful_point, loss_errors, summing_error
from partwise.solvers.base import Certificate

# Rounding below this share of what `tol` allows is added without a closer look.
_NEGLIGIBLE = 1e-3
_MUCH = 100.0  # A gap of more than this many times its rounding needs no closer look.
# A dual above the primal by more than this share of the larger one is no rounding, but a bound that is false.
_ROUNDING_SEEN = 1e-9


def with_rounding(problem: Problem, found: Certificate, tol: float) -> Certificate:
    """The certificate with bounds moved apart by bounds on their rounding.

    If rounding is not negligible beside `tol` and the gap, losses are computed anew from differences of scores, and
    the dual may become that of the model of `found.weights`.
    """
    if not math.isfinite(found.primal) or found.primal == 0.0:  # zero weights, and nothing to add up
        return found
    weight = problem.example_weight
    error, sums = loss_errors(problem, found.weights), summing_error(problem)
    loss_error, penalty = float(weight @ error), problem.penalty(found.weights)
    dual_size = abs(found.dual) + penalty if math.isfinite(found.dual) else 0.0
    primal, primal_error = found.primal, loss_error + sums * abs(found.primal)
    # The dual adds up entropies, if β is finite, and products of expected counts and scores.
    dual, dual_error = found.dual, (1.0 if problem.loss.is_hard else 2.0) * loss_error + sums * dual_size
    noise = primal_error + dual_error
    allowed = _NEGLIGIBLE * min(tol, 1.0) * abs(primal)
    if noise > allowed and found.gap <= _MUCH * noise:
        careful = careful_point(problem, found.weights, allowed / problem.n_examples)
        if careful is not None:
            primal, primal_error = careful.loss + penalty, careful.loss_error + sums * penalty
            if careful.dual - careful.dual_error > dual - dual_error:
                dual, dual_error = careful.dual, careful.dual_error
    rounding = primal_error + dual_error
    if not math.isfinite(rounding):
        return found
    seen = min(dual - primal, _ROUNDING_SEEN * max(abs(primal), abs(dual)))
    if rounding < seen:  # the bounds tell themselves that rounding was more
        primal_error = dual_error = seen
        rounding = max(rounding, 2.0 * seen)
    is_positive = problem.certified in ("exact", "relaxation") and dual + dual_error >= 0.0
    primal, dual = primal + primal_error, dual - dual_error
    if is_positive:  # no loss is negative: rounding alone can take the dual below zero
        dual = max(dual, 0.0)
    return replace(found, primal=primal, dual=dual, rounding=rounding, noise=noise)
