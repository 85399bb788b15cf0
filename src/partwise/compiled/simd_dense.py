# mypy: ignore-errors
"""Scores and changes of dense attributes for a few rows at a time, so that every weight that is loaded serves them all.

The weights of attribute d start at d · stride. `row` is the first row of a block and `last_row` the last row of all. A
block that reaches further reads the last row again. Callers must not use the results of these repetitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import IS_OFF, cgutils, intrinsic, ir, types
from partwise.compiled.simd import Emitter, growth, shrunk

ROWS_AT_ONCE = 4  # Rows of a block: their sums stay in registers.
_UNROLLED = 2  # Independent sums per row: the additions of a single sum wait for each other.


def _row_starts(builder: Any, row: Any, last_row: Any, n_dense: Any) -> list[Any]:
    """Offsets of the rows of a block."""
    starts = []
    for r in range(ROWS_AT_ONCE):
        own = builder.add(row, ir.Constant(row.type, r))
        own = builder.select(builder.icmp_signed("<", own, last_row), own, last_row)
        starts.append(builder.mul(own, n_dense))
    return starts


@intrinsic
def _score_dense(typing, out, dense, row, last_row, n_dense, weights, stride, l1):  # type: ignore
    index = types.intp
    signature = types.void(out, dense, index, index, index, weights, index, l1)

    def emit(context, builder, signature, arguments):  # type: ignore
        out, dense, row, last_row, n_dense, weights, stride, l1 = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        out, dense, weights = (e.data(signature.args[i], a) for i, a in ((0, out), (1, dense), (5, weights)))
        shrink, starts = e.shrinker(l1, signature.args[7]), _row_starts(builder, row, last_row, n_dense)
        totals = [[cgutils.alloca_once(builder, e.vector) for _ in starts] for _ in range(_UNROLLED)]

        def add(column: Any, lane: Any, sums: list[Any]) -> None:
            w = shrink(e.load(e.address(weights, builder.add(builder.mul(column, stride), lane))))
            for start, total in zip(starts, sums, strict=True):
                x = e.cast(e.scalar(dense, builder.add(start, column)), signature.args[1].dtype)
                builder.store(e.multiply_add(e.splat(x), w, builder.load(total)), total)

        step, one = ir.Constant(n_dense.type, _UNROLLED), ir.Constant(n_dense.type, 1)
        whole = builder.and_(n_dense, ir.Constant(n_dense.type, -_UNROLLED))
        with e.lanes(stride) as lane:
            for sums in totals:
                for total in sums:
                    builder.store(e.zero(), total)
            with cgutils.for_range_slice(builder, n_dense.type(0), whole, step) as (column, _):
                for u, sums in enumerate(totals):
                    add(builder.add(column, ir.Constant(column.type, u)), lane, sums)
            with cgutils.for_range_slice(builder, whole, n_dense, one) as (column, _):
                add(column, lane, totals[0])
            for r in range(ROWS_AT_ONCE):
                a, b = (builder.load(sums[r]) for sums in totals)
                at = builder.add(builder.mul(stride, ir.Constant(stride.type, r)), lane)
                e.store(e.add(a, b), e.address(out, at))
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def _scatter_dense(typing, weights, dense, row, last_row, n_dense, delta, stride, l1):  # type: ignore
    index = types.intp
    signature = types.float64(weights, dense, index, index, index, delta, index, l1)

    def emit(context, builder, signature, arguments):  # type: ignore
        weights, dense, row, last_row, n_dense, delta, stride, l1 = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        weights, dense, delta = (
            e.data(signature.args[i], a) for i, a in ((0, weights), (1, dense), (5, delta))
        )
        shrink, is_shrunk = (
            e.shrinker(l1, signature.args[7]),
            not isinstance(signature.args[7], types.NoneType),
        )
        starts, grown = _row_starts(builder, row, last_row, n_dense), cgutils.alloca_once(builder, e.vector)
        builder.store(e.zero(), grown)
        with e.lanes(stride) as lane:
            rows = [builder.mul(stride, ir.Constant(stride.type, r)) for r in range(ROWS_AT_ONCE)]
            deltas = [e.load(e.address(delta, builder.add(at, lane))) for at in rows]

            def moved(column: Any, lane: Any) -> Any:
                """Add to the weights of one attribute, and return the growth of their squares."""
                change = None
                for start, own in zip(starts, deltas, strict=True):
                    x = e.cast(e.scalar(dense, builder.add(start, column)), signature.args[1].dtype)
                    product = e.multiply(e.splat(x), own)
                    change = product if change is None else e.add(product, change)
                address = e.address(weights, builder.add(builder.mul(column, stride), lane))
                old = e.load(address)
                new = e.add(old, change)
                e.store(new, address)
                if is_shrunk:
                    old, new = shrink(old), shrink(new)
                    change = builder.fsub(new, old)
                return e.multiply(change, e.add(old, new))

            builder.store(e.sum_of_terms(n_dense, lane, moved, builder.load(grown)), grown)
        total = e.fold(builder.load(grown), e.add)
        return e.context.cast(builder, total, signature.args[0].dtype, types.float64)

    return signature, emit


if not IS_OFF:
    score_dense, scatter_dense = _score_dense, _scatter_dense
else:

    def _block(dense, row, last_row):  # type: ignore
        return dense[np.minimum(row + np.arange(ROWS_AT_ONCE), last_row)]

    def score_dense(out, dense, row, last_row, n_dense, weights, stride, l1):  # type: ignore
        """Row r of `out`, padded, = Σ_d dense[row + r, d] · shrunk weights[d · stride:][:stride]."""
        own = shrunk(weights[: n_dense * stride].reshape(n_dense, stride), l1)
        out[: ROWS_AT_ONCE * stride] = (_block(dense, row, last_row) @ own).ravel()

    def scatter_dense(weights, dense, row, last_row, n_dense, delta, stride, l1):  # type: ignore
        """weights[d · stride:][:stride] += Σ_r dense[row + r, d] · (row r of `delta`). Returns the growth of the sum of
        squares of all weights, shrunk. Repetitions of the last row have a delta of zero."""
        own = weights[: n_dense * stride].reshape(n_dense, stride)
        change = _block(dense, row, last_row).T @ delta[: ROWS_AT_ONCE * stride].reshape(ROWS_AT_ONCE, stride)
        total = float(growth(own, change, l1).sum())
        own += change
        return total


__all__ = ["ROWS_AT_ONCE", "scatter_dense", "score_dense"]
