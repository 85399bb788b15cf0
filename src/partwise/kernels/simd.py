"""Vector loops written as LLVM vectors: LLVM cannot prove that NumPy arrays do not overlap.

Compiled from plain loops, rows of 10 to 30 numbers spend more time in overlap checks and remainders
than in arithmetic. These three loops carry nearly all of the arithmetic of every pass; rows are
padded to a multiple of ``LANES`` so that none has a remainder. Under ``NUMBA_DISABLE_JIT`` the NumPy
statements beside them run instead and say what they compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
_UNROLLED = 4  # independent sums: one alone waits for each addition to finish
_FLAGS = ("contract", "reassoc", "nsz")


def padded(width: int) -> int:
    """Smallest multiple of ``LANES`` that holds `width` entries."""
    return -(-width // LANES) * LANES


class _Emitter:
    """The few vector instructions the loops below are made of."""

    def __init__(self, context: Any, builder: Any, dtype: Any):
        self.context, self.builder, self.dtype = context, builder, dtype
        self.element = context.get_value_type(dtype)
        self.vector = ir.VectorType(self.element, LANES)
        self.align = dtype.bitwidth // 8

    def data(self, array_type: Any, array: Any) -> Any:
        return self.context.make_array(array_type)(self.context, self.builder, array).data

    def scalar(self, data: Any, index: Any) -> Any:
        return self.builder.load(self.builder.gep(data, [index], inbounds=True))

    def address(self, data: Any, index: Any) -> Any:
        pointer = self.builder.gep(data, [index], inbounds=True)
        return self.builder.bitcast(pointer, self.vector.as_pointer())

    def load(self, address: Any) -> Any:
        return self.builder.load(address, align=self.align)

    def store(self, value: Any, address: Any) -> None:
        self.builder.store(value, address, align=self.align)

    def zero(self) -> Any:
        return ir.Constant(self.vector, [0.0] * LANES)

    def splat(self, value: Any) -> Any:
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(first, undefined, mask)

    @contextmanager
    def lanes(self, stride: Any) -> Iterator[Any]:
        step = ir.Constant(stride.type, LANES)
        with cgutils.for_range_slice(self.builder, stride.type(0), stride, step) as (lane, _):
            yield lane

    def cast(self, value: Any, dtype: Any) -> Any:
        return self.context.cast(self.builder, value, dtype, self.dtype)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=_FLAGS)

    def multiply(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FLAGS)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.add(self.multiply(a, b), c)

    def total(self, vector: Any) -> Any:
        parts = [
            self.builder.extract_element(vector, ir.Constant(ir.IntType(32), i)) for i in range(LANES)
        ]
        while len(parts) > 1:
            parts = [
                self.add(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]


@intrinsic
def _combine_rows(typing, out, out_start, coefficients, first, step, count, matrix, matrix_start, stride):  # type: ignore
    index = types.intp
    signature = types.void(out, index, coefficients, index, index, index, matrix, index, index)

    def emit(context, builder, signature, arguments):  # type: ignore
        out, out_start, coefficients, first, step, count, matrix, matrix_start, stride = arguments
        e = _Emitter(context, builder, signature.args[0].dtype)
        out, matrix = e.data(signature.args[0], out), e.data(signature.args[6], matrix)
        coefficients = e.data(signature.args[2], coefficients)
        totals = [cgutils.alloca_once(builder, e.vector) for _ in range(_UNROLLED)]
        whole = builder.and_(count, ir.Constant(count.type, -_UNROLLED))

        def accumulate(row: Any, lane: Any, total: Any) -> None:
            coefficient_at = builder.add(first, builder.mul(row, step))
            row_at = builder.add(matrix_start, builder.add(builder.mul(row, stride), lane))
            x = e.splat(e.scalar(coefficients, coefficient_at))
            y = e.load(e.address(matrix, row_at))
            builder.store(e.multiply_add(x, y, builder.load(total)), total)

        with e.lanes(stride) as lane:
            for total in totals:
                builder.store(e.zero(), total)
            block = ir.Constant(count.type, _UNROLLED)
            with cgutils.for_range_slice(builder, count.type(0), whole, block) as (row, _):
                for u, total in enumerate(totals):
                    accumulate(builder.add(row, ir.Constant(row.type, u)), lane, total)
            with cgutils.for_range_slice(builder, whole, count, count.type(1)) as (row, _):
                accumulate(row, lane, totals[0])
            a, b, c, d = (builder.load(total) for total in totals)
            e.store(e.add(e.add(a, b), e.add(c, d)), e.address(out, builder.add(out_start, lane)))
        return context.get_dummy_value()

    return signature, emit


def _gather(scaled: bool) -> Any:
    @intrinsic
    def gather(typing, out, starts, values, first, last, weights, stride):  # type: ignore
        index = types.intp
        signature = types.void(out, starts, values, index, index, weights, index)

        def emit(context, builder, signature, arguments):  # type: ignore
            out, starts, values, first, last, weights, stride = arguments
            e = _Emitter(context, builder, signature.args[0].dtype)
            out, starts, values, weights = (
                e.data(signature.args[i], a) for i, a in ((0, out), (1, starts), (2, values), (5, weights))
            )
            total = cgutils.alloca_once(builder, e.vector)
            with e.lanes(stride) as lane:
                builder.store(e.load(e.address(out, lane)), total)
                with cgutils.for_range(builder, builder.sub(last, first)) as row:
                    k = builder.add(first, row.index)
                    row_at = builder.add(builder.sext(e.scalar(starts, k), stride.type), lane)
                    w = e.load(e.address(weights, row_at))
                    if scaled:
                        w = e.multiply(e.splat(e.cast(e.scalar(values, k), signature.args[2].dtype)), w)
                    builder.store(e.add(w, builder.load(total)), total)
                e.store(builder.load(total), e.address(out, lane))
            return context.get_dummy_value()

        return signature, emit

    return gather


def _scatter(scaled: bool, masked: bool) -> Any:
    @intrinsic
    def scatter(typing, weights, starts, values, first, last, delta, mask, stride):  # type: ignore
        index = types.intp
        signature = types.float64(weights, starts, values, index, index, delta, mask, index)

        def emit(context, builder, signature, arguments):  # type: ignore
            weights, starts, values, first, last, delta, mask, stride = arguments
            e = _Emitter(context, builder, signature.args[0].dtype)
            arrays = ((0, weights), (1, starts), (2, values), (5, delta), (6, mask))
            weights, starts, values, delta, mask = (e.data(signature.args[i], a) for i, a in arrays)
            growth = cgutils.alloca_once(builder, e.vector)
            builder.store(e.zero(), growth)
            with e.lanes(stride) as lane:
                d = e.load(e.address(delta, lane))
                with cgutils.for_range(builder, builder.sub(last, first)) as row:
                    k = builder.add(first, row.index)
                    row_at = builder.add(builder.sext(e.scalar(starts, k), stride.type), lane)
                    x = d
                    if scaled:
                        x = e.multiply(e.splat(e.cast(e.scalar(values, k), signature.args[2].dtype)), x)
                    if masked:
                        x = e.multiply(x, e.load(e.address(mask, row_at)))
                    address = e.address(weights, row_at)
                    old = e.load(address)
                    new = e.add(old, x)
                    e.store(new, address)
                    builder.store(e.multiply_add(x, e.add(old, new), builder.load(growth)), growth)
            return e.context.cast(
                builder, e.total(builder.load(growth)), signature.args[0].dtype, types.float64
            )

        return signature, emit

    return scatter


if not config.DISABLE_JIT:
    combine_rows = _combine_rows
    gather_rows, gather_scaled_rows = _gather(False), _gather(True)
    scatter_rows, scatter_scaled_rows = _scatter(False, False), _scatter(True, False)
    scatter_masked_rows, scatter_scaled_masked_rows = _scatter(False, True), _scatter(True, True)
else:

    def combine_rows(out, out_start, coefficients, first, step, count, matrix, matrix_start, stride):  # type: ignore
        """out[out_start:][:stride] = Σ_k coefficients[first + k·step] · matrix[matrix_start + k·stride:][:stride]."""
        rows = matrix[matrix_start : matrix_start + count * stride].reshape(count, stride)
        out[out_start : out_start + stride] = coefficients[first : first + count * step : step][:count] @ rows

    def gather_scaled_rows(out, starts, values, first, last, weights, stride):  # type: ignore
        """out += Σ_k values[k] · weights[starts[k]:][:stride], k from `first` to `last`."""
        for k in range(first, last):
            out += values[k] * weights[starts[k] : starts[k] + stride]

    def gather_rows(out, starts, values, first, last, weights, stride):  # type: ignore
        """The same with all values one; `values` is not read."""
        gather_scaled_rows(out, starts, np.ones(last), first, last, weights, stride)

    def scatter_scaled_masked_rows(weights, starts, values, first, last, delta, mask, stride):  # type: ignore
        """weights[starts[k]:][:stride] += values[k] · mask · delta; returns the growth of ‖weights‖²."""
        growth = 0.0
        for k in range(first, last):
            rows = slice(starts[k], starts[k] + stride)
            change = values[k] * delta * mask[rows]
            growth += float(change @ (2 * weights[rows] + change))
            weights[rows] += change
        return growth

    def scatter_masked_rows(weights, starts, values, first, last, delta, mask, stride):  # type: ignore
        return scatter_scaled_masked_rows(weights, starts, np.ones(last), first, last, delta, mask, stride)

    def scatter_scaled_rows(weights, starts, values, first, last, delta, mask, stride):  # type: ignore
        everywhere = np.ones(len(weights))
        return scatter_scaled_masked_rows(weights, starts, values, first, last, delta, everywhere, stride)

    def scatter_rows(weights, starts, values, first, last, delta, mask, stride):  # type: ignore
        return scatter_scaled_rows(weights, starts, np.ones(last), first, last, delta, mask, stride)
