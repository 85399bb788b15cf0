# mypy: ignore-errors
"""`simd.combine_rows` with maxima in place of sums, and sums in place of products; for Viterbi."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import IS_OFF, cgutils, intrinsic, ir, types
from partwise.compiled.simd import LANES, Emitter


@intrinsic
def _best_rows(typing, out, out_start, addends, first, step, count, matrix, matrix_start, stride):  # type: ignore
    index = types.intp
    signature = types.void(out, index, addends, index, index, index, matrix, index, index)

    def emit(context, builder, signature, arguments):  # type: ignore
        out, out_start, addends, first, step, count, matrix, matrix_start, stride = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        out, matrix = e.data(signature.args[0], out), e.data(signature.args[6], matrix)
        addends = e.data(signature.args[2], addends)
        best: Any = cgutils.alloca_once(builder, e.vector)
        with e.lanes(stride) as lane:
            builder.store(ir.Constant(e.vector, [float("-inf")] * LANES), best)
            with cgutils.for_range(builder, count) as row:
                addend_at = builder.add(first, builder.mul(row.index, step))
                row_at = builder.add(matrix_start, builder.add(builder.mul(row.index, stride), lane))
                x = e.splat(e.scalar(addends, addend_at))
                x = builder.fadd(x, e.load(e.address(matrix, row_at)))
                builder.store(e.larger(x, builder.load(best)), best)
            e.store(builder.load(best), e.address(out, builder.add(out_start, lane)))
        return context.get_dummy_value()

    return signature, emit


if not IS_OFF:
    best_rows = _best_rows
else:

    def best_rows(out, out_start, addends, first, step, count, matrix, matrix_start, stride):  # type: ignore
        """out[out_start:][:stride] = max_k addends[first + k·step] + matrix[matrix_start + k·stride:]."""
        rows = matrix[matrix_start : matrix_start + count * stride].reshape(count, stride)
        column = addends[first : first + count * step : step][:count, np.newaxis]
        out[out_start : out_start + stride] = (column + rows).max(axis=0)
