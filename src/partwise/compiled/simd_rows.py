# mypy: ignore-errors
"""Vector loops over parts of rows, for charts and eliminations of trees.

All widths are multiples of ``LANES``. The NumPy statements at the end of the file define each loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import IS_OFF, cgutils, intrinsic, ir, types
from partwise.compiled.simd import LANES, Emitter


def _in_place(hard: bool) -> Any:
    @intrinsic
    def update(typing, out, out_start, number, source, start, width):  # type: ignore
        index = types.intp
        signature = types.void(out, index, types.float64, source, index, index)

        def emit(context, builder, signature, arguments):  # type: ignore
            out, out_start, number, source, start, width = arguments
            e = Emitter(context, builder, signature.args[0].dtype)
            out, source = e.data(signature.args[0], out), e.data(signature.args[3], source)
            number = e.splat(number)
            with e.lanes(width) as lane:
                address = e.address(out, builder.add(out_start, lane))
                x = e.load(e.address(source, builder.add(start, lane)))
                if hard:
                    e.store(e.larger(builder.fadd(number, x), e.load(address)), address)
                else:
                    e.store(e.multiply_add(number, x, e.load(address)), address)
            return context.get_dummy_value()

        return signature, emit

    return update


@intrinsic
def _add_product(typing, out, out_at, a, a_at, b, b_at):  # type: ignore
    index = types.intp
    signature = types.void(out, index, a, index, b, index)

    def emit(context, builder, signature, arguments):  # type: ignore
        e = Emitter(context, builder, signature.args[0].dtype)
        vectors = zip(signature.args[::2], arguments[::2], arguments[1::2], strict=True)
        address, *factors = (e.address(e.data(kind, array), at) for kind, array, at in vectors)
        x, y = (e.load(factor) for factor in factors)
        e.store(e.multiply_add(x, y, e.load(address)), address)
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def _sum_row(typing, source, start, width):  # type: ignore
    signature = types.float64(source, types.intp, types.intp)

    def emit(context, builder, signature, arguments):  # type: ignore
        source, start, width = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        source = e.data(signature.args[0], source)
        total = cgutils.alloca_once(builder, e.vector)
        builder.store(e.zero(), total)
        with e.lanes(width) as lane:
            x = e.load(e.address(source, builder.add(start, lane)))
            builder.store(e.add(x, builder.load(total)), total)
        return e.fold(builder.load(total), e.add)

    return signature, emit


@intrinsic
def _scale_row(typing, out, out_start, number, source, start, width):  # type: ignore
    index = types.intp
    signature = types.void(out, index, types.float64, source, index, index)

    def emit(context, builder, signature, arguments):  # type: ignore
        out, out_start, number, source, start, width = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        out, source = e.data(signature.args[0], out), e.data(signature.args[3], source)
        number = e.splat(number)
        with e.lanes(width) as lane:
            x = e.load(e.address(source, builder.add(start, lane)))
            e.store(e.multiply(number, x), e.address(out, builder.add(out_start, lane)))
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def _normalise_row(typing, row, start, width, at, more):  # type: ignore
    index = types.intp
    signature = types.float64(row, index, index, index, types.float64)

    def emit(context, builder, signature, arguments):  # type: ignore
        row, start, width, at, more = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        row = e.data(signature.args[0], row)
        behind = builder.add(at, ir.Constant(at.type, 1))

        def mark(lane: Any, value: Any, marked: float) -> Any:
            """`value` with the entry at `at` replaced."""
            found = builder.and_(e.before(lane, behind), builder.not_(e.before(lane, at)))
            return builder.select(found, ir.Constant(e.vector, [marked] * LANES), value)

        total = cgutils.alloca_once(builder, e.vector)
        builder.store(e.zero(), total)
        with e.lanes(width) as lane:
            x = mark(lane, e.load(e.address(row, builder.add(start, lane))), 0.0)
            builder.store(e.add(x, builder.load(total)), total)
        sum_of_row = e.add(e.fold(builder.load(total), e.add), more)
        inverse = e.splat(builder.fdiv(ir.Constant(e.element, 1.0), sum_of_row))
        with e.lanes(width) as lane:
            address = e.address(row, builder.add(start, lane))
            e.store(mark(lane, e.multiply(inverse, e.load(address)), -1.0), address)
        return sum_of_row

    return signature, emit


@intrinsic
def _combine_between(  # type: ignore
    typing, rows, stride, target, low, high, base, coefficients, offset, first, last, other_first, other_last
):
    index = types.intp
    signature = types.void(
        rows, index, index, index, index, types.float64, coefficients, index, index, index, index, index
    )

    def emit(context, builder, signature, arguments):  # type: ignore
        rows, stride, target, low, high, base, coefficients, offset, *ranges = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        rows, coefficients = e.data(signature.args[0], rows), e.data(signature.args[6], coefficients)
        begin, step = builder.and_(low, ir.Constant(low.type, -LANES)), ir.Constant(low.type, LANES)

        def terms_from(first: Any) -> Any:
            def term(row: Any, lane: Any) -> Any:
                row = builder.add(first, row)
                address = e.address(rows, builder.add(builder.mul(row, stride), lane))
                x = e.scalar(coefficients, builder.add(offset, row))
                return e.multiply(e.splat(x), e.load(address))

            return term

        with cgutils.for_range_slice(builder, begin, high, step) as (lane, _):
            total = e.splat(base)
            for first, last in (ranges[:2], ranges[2:]):
                total = e.sum_of_terms(builder.sub(last, first), lane, terms_from(first), total)
            address = e.address(rows, builder.add(builder.mul(target, stride), lane))
            inside = builder.and_(e.before(lane, high), builder.not_(e.before(lane, low)))
            e.store(builder.select(inside, total, e.load(address)), address)
        return context.get_dummy_value()

    return signature, emit


if not IS_OFF:
    add_scaled, raise_to = _in_place(False), _in_place(True)
    add_product, sum_row, scale_row = _add_product, _sum_row, _scale_row
    normalise_row, combine_between = _normalise_row, _combine_between
else:

    def add_scaled(out, out_start, number, source, start, width):  # type: ignore
        """out[out_start:][:width] += number · source[start:][:width]."""
        out[out_start : out_start + width] += number * source[start : start + width]

    def raise_to(out, out_start, number, source, start, width):  # type: ignore
        """out[out_start:][:width] = max(out[out_start:][:width], number + source[start:][:width])."""
        rows = out[out_start : out_start + width]
        np.maximum(rows, number + source[start : start + width], out=rows)

    def add_product(out, out_at, a, a_at, b, b_at):  # type: ignore
        """out[out_at:][:LANES] += a[a_at:][:LANES] · b[b_at:][:LANES]."""
        out[out_at : out_at + LANES] += a[a_at : a_at + LANES] * b[b_at : b_at + LANES]

    def sum_row(source, start, width):  # type: ignore
        """Σ source[start:][:width]."""
        return source[start : start + width].sum()

    def scale_row(out, out_start, number, source, start, width):  # type: ignore
        """out[out_start:][:width] = number · source[start:][:width]."""
        out[out_start : out_start + width] = number * source[start : start + width]

    def normalise_row(row, start, width, at, more):  # type: ignore
        """Divide row[start:][:width] by its sum plus `more`, the result. Entry `at` counts as 0 and becomes −1."""
        own = row[start : start + width]
        own[at] = 0.0
        total = own.sum() + more
        own /= total if total > 0.0 else np.nan
        own[at] = -1.0
        return total

    def combine_between(  # type: ignore
        rows, stride, target, low, high, base, coefficients, offset, first, last, other_first, other_last
    ):
        """Row `target` = base + Σ_k coefficients[offset + k] · row k over two ranges of k, in columns low … high."""
        total = np.full(high - low, base)
        for k in (*range(first, last), *range(other_first, other_last)):
            total += coefficients[offset + k] * rows[k * stride + low : k * stride + high]
        rows[target * stride + low : target * stride + high] = total


__all__ = [
    "LANES",
    "add_product",
    "add_scaled",
    "combine_between",
    "normalise_row",
    "raise_to",
    "scale_row",
    "sum_row",
]
