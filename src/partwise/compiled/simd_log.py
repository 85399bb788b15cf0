# mypy: ignore-errors
"""Logarithms of rows of numbers. The NumPy statement at the end of the file defines the loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import IS_OFF, intrinsic, ir, types
from partwise.compiled.simd import LANES, LN2_HIGH, LN2_LOW, Emitter

_TERMS = 11  # Terms of the series for log: the next one, 0.0295^11 / 23, is below the rounding error.


@intrinsic
def _logarithm_row(typing, out, out_start, source, start, width):  # type: ignore
    index = types.intp
    signature = types.void(out, index, source, index, index)

    def emit(context, builder, signature, arguments):  # type: ignore
        out, out_start, source, start, width = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        out, source = e.data(signature.args[0], out), e.data(signature.args[2], source)
        with e.lanes(width) as lane:
            x = e.load(e.address(source, builder.add(start, lane)))
            e.store(_logarithm(e, x), e.address(out, builder.add(out_start, lane)))
        return context.get_dummy_value()

    return signature, emit


def _logarithm(e: Any, x: Any) -> Any:
    """x = 2ᵏ m with √½ ≤ m < √2; log m = 2 (s + s³/3 + s⁵/5 + …) with s = (m − 1) / (m + 1)."""
    builder, integers = e.builder, ir.VectorType(ir.IntType(64), LANES)

    def constant(value: float) -> Any:
        return ir.Constant(e.vector, [value] * LANES)

    def integer(value: int) -> Any:
        return ir.Constant(integers, [value] * LANES)

    def short(value: int) -> Any:
        return ir.Constant(ir.VectorType(ir.IntType(32), LANES), [value] * LANES)

    # Adding the distance from √½ to 1 to the bits carries into the exponent exactly if m ≥ √2.
    bits = builder.add(builder.bitcast(x, integers), integer(0x3FF0000000000000 - 0x3FE6A09E667F3BCD))
    exponent = builder.lshr(bits, integer(52))
    mantissa = builder.add(builder.and_(bits, integer(0x000FFFFFFFFFFFFF)), integer(0x3FE6A09E667F3BCD))
    m = builder.bitcast(mantissa, e.vector)
    # Not by adding and subtracting 2^52: "fast" arithmetic would cancel the two.
    exponent = builder.sub(builder.trunc(exponent, ir.VectorType(ir.IntType(32), LANES)), short(1023))
    k = builder.sitofp(exponent, e.vector)
    s = builder.fdiv(builder.fsub(m, constant(1.0)), builder.fadd(m, constant(1.0)))
    square = e.multiply(s, s)
    series = constant(1.0 / (2 * _TERMS - 1))
    for n in range(_TERMS - 2, -1, -1):
        series = e.multiply_add(series, square, constant(1.0 / (2 * n + 1)))
    low = e.multiply_add(k, constant(LN2_LOW), e.multiply(e.multiply(constant(2.0), s), series))
    return e.multiply_add(k, constant(LN2_HIGH), low)


if not IS_OFF:
    logarithm_row = _logarithm_row
else:

    def logarithm_row(out, out_start, source, start, width):  # type: ignore
        """out[out_start:][:width] = log(source[start:][:width]), with a relative or absolute error of 3e-16.

        `width` is a multiple of ``LANES``. The result is finite but wrong for numbers that are not positive and normal.
        """
        x = np.maximum(source[start : start + width], np.finfo(float).tiny)
        out[out_start : out_start + width] = np.log(x)
