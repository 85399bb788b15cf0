# mypy: ignore-errors
"""Loops over rows of numbers, written as LLVM vectors.

These loops do nearly all arithmetic of every pass. Compiled from plain loops, rows of 10 to 30 numbers would spend more
time in remainders and in checks whether arrays overlap. Rows are padded to a multiple of ``LANES``, so that no loop has
a remainder. The NumPy statements at the end of the file define each loop, and replace it under ``NUMBA_DISABLE_JIT``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import factorial
from typing import Any

import numpy as np

from partwise.compiled.dispatch import IS_OFF, cgutils, intrinsic, ir, types

LANES = 8  # Numbers of a vector: 8 doubles fill one AVX-512 register or two of AVX2.
_CACHE_LINE = 64  # Bytes that one prefetch brings into the cache.
_UNROLLED = 4  # Independent sums per loop: the additions of a single sum wait for each other.
_LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6  # log 2 in two pieces, the first exact
_EXP_DEGREE = 12
_ROUNDING = 2.0**52 + 1023
_FLAGS = ("contract", "reassoc", "nsz")


def padded(width: int) -> int:
    """Smallest multiple of ``LANES`` that holds `width` entries."""
    return -(-width // LANES) * LANES


class Emitter:
    """Emits the vector instructions that the loops below share."""

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

    def load_single(self, data: Any, index: Any) -> Any:
        """A vector of single-precision numbers, converted to the type of the weights."""
        singles = ir.VectorType(ir.FloatType(), LANES)
        pointer = self.builder.bitcast(self.builder.gep(data, [index], inbounds=True), singles.as_pointer())
        value = self.builder.load(pointer, align=4)
        return value if self.vector == singles else self.builder.fpext(value, self.vector)

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

    def sum_of_terms(self, count: Any, lane: Any, term: Any, start: Any) -> Any:
        """`start` plus term(row, lane) for all rows, in several independent sums."""
        builder = self.builder
        totals = [cgutils.alloca_once(builder, self.vector) for _ in range(_UNROLLED)]
        for total in totals:
            builder.store(start if total is totals[0] else self.zero(), total)
        whole = builder.and_(count, ir.Constant(count.type, -_UNROLLED))
        block, one = ir.Constant(count.type, _UNROLLED), ir.Constant(count.type, 1)
        with cgutils.for_range_slice(builder, count.type(0), whole, block) as (row, _):
            for u, total in enumerate(totals):
                here = builder.add(row, ir.Constant(row.type, u))
                builder.store(self.add(term(here, lane), builder.load(total)), total)
        with cgutils.for_range_slice(builder, whole, count, one) as (row, _):
            builder.store(self.add(term(row, lane), builder.load(totals[0])), totals[0])
        a, b, c, d = (builder.load(total) for total in totals)
        return self.add(self.add(a, b), self.add(c, d))

    def shrinker(self, l1: Any, dtype: Any) -> Any:
        """A function that moves vectors or numbers towards zero by `l1`, or leaves them as they are if l1 is None."""
        if isinstance(dtype, types.NoneType):
            return lambda value: value
        builder = self.builder
        high = self.cast(l1, dtype)
        low = builder.fneg(high)
        bounds = {self.element: (low, high), self.vector: (self.splat(low), self.splat(high))}

        def shrink(value: Any) -> Any:
            low, high = bounds[value.type]
            near = builder.select(builder.fcmp_ordered(">", value, high), high, value)
            near = builder.select(builder.fcmp_ordered("<", near, low), low, near)
            return builder.fsub(value, near)

        return shrink

    def cast(self, value: Any, dtype: Any) -> Any:
        return self.context.cast(self.builder, value, dtype, self.dtype)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=_FLAGS)

    def multiply(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FLAGS)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.add(self.multiply(a, b), c)

    def before(self, lane: Any, count: Any) -> Any:
        """Which of the vector's entries lane, lane + 1, … are less than `count`."""
        integers = ir.VectorType(lane.type, LANES)
        here = ir.Constant(integers, ir.Undefined)
        here = self.builder.insert_element(
            here, self.builder.sub(count, lane), ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        left = self.builder.shuffle_vector(here, ir.Constant(integers, ir.Undefined), zeros)
        return self.builder.icmp_signed("<", ir.Constant(integers, list(range(LANES))), left)

    def larger(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def fold(self, vector: Any, operation: Any) -> Any:
        parts = [self.builder.extract_element(vector, ir.Constant(ir.IntType(32), i)) for i in range(LANES)]
        while len(parts) > 1:
            parts = [operation(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def exponential(self, x: Any) -> Any:
        """exp in double precision: x = k log 2 + r, a polynomial in r, then k added to the exponent bits."""
        builder, integers = self.builder, ir.VectorType(ir.IntType(64), LANES)

        def constant(value: float) -> Any:
            return ir.Constant(self.vector, [value] * LANES)

        inside = builder.fcmp_ordered(">", x, constant(-708.0))
        y = builder.select(inside, x, constant(-708.0))
        # Adding 2^52 + 1023 leaves round(y / log 2) + 1023 in the lowest bits. k is read from these bits, because
        # "fast" arithmetic would cancel an addition and a subtraction of the same number.
        biased = builder.bitcast(self.multiply_add(y, constant(_LOG2_E), constant(_ROUNDING)), integers)
        biased = builder.and_(biased, ir.Constant(integers, [0xFFF] * LANES))
        k = builder.bitcast(builder.or_(biased, ir.Constant(integers, [0x433 << 52] * LANES)), self.vector)
        k = builder.fsub(k, constant(_ROUNDING))
        r = self.multiply_add(k, constant(-LN2_HIGH), y)
        r = self.multiply_add(k, constant(-LN2_LOW), r)
        value = constant(1.0 / factorial(_EXP_DEGREE))
        for n in range(_EXP_DEGREE - 1, -1, -1):
            value = self.multiply_add(value, r, constant(1.0 / factorial(n)))
        bits = builder.shl(biased, ir.Constant(integers, [52] * LANES))
        return builder.select(inside, self.multiply(value, builder.bitcast(bits, self.vector)), constant(0.0))


@intrinsic
def _shrunk(typing, value, l1):  # type: ignore
    def emit(context, builder, signature, arguments):  # type: ignore
        return Emitter(context, builder, signature.args[0]).shrinker(arguments[1], signature.args[1])(
            arguments[0]
        )

    return value(value, l1), emit


@intrinsic
def _growth(typing, old, change, l1):  # type: ignore
    def emit(context, builder, signature, arguments):  # type: ignore
        dtype = max(signature.args[:2], key=lambda each: each.bitwidth)
        e = Emitter(context, builder, dtype)
        before, change = (e.cast(arguments[k], signature.args[k]) for k in (0, 1))
        shrink, after = e.shrinker(arguments[2], signature.args[2]), e.add(before, change)
        if not isinstance(signature.args[2], types.NoneType):
            before, after = shrink(before), shrink(after)
            change = builder.fsub(after, before)
        return context.cast(builder, e.multiply(change, e.add(before, after)), dtype, types.float64)

    return types.float64(old, change, l1), emit


@intrinsic
def _combine_rows(typing, out, out_start, coefficients, first, step, count, matrix, matrix_start, stride):  # type: ignore
    index = types.intp
    signature = types.void(out, index, coefficients, index, index, index, matrix, index, index)

    def emit(context, builder, signature, arguments):  # type: ignore
        out, out_start, coefficients, first, step, count, matrix, matrix_start, stride = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        out, matrix = e.data(signature.args[0], out), e.data(signature.args[6], matrix)
        coefficients = e.data(signature.args[2], coefficients)

        def term(row: Any, lane: Any) -> Any:
            coefficient_at = builder.add(first, builder.mul(row, step))
            row_at = builder.add(matrix_start, builder.add(builder.mul(row, stride), lane))
            x = e.cast(e.scalar(coefficients, coefficient_at), signature.args[2].dtype)
            return e.multiply(e.splat(x), e.load(e.address(matrix, row_at)))

        with e.lanes(stride) as lane:
            total = e.sum_of_terms(count, lane, term, e.zero())
            e.store(total, e.address(out, builder.add(out_start, lane)))
        return context.get_dummy_value()

    return signature, emit


def _gather(scaled: bool) -> Any:
    @intrinsic
    def gather(typing, out, starts, values, first, last, weights, stride, l1):  # type: ignore
        index = types.intp
        signature = types.void(out, starts, values, index, index, weights, index, l1)

        def emit(context, builder, signature, arguments):  # type: ignore
            out, starts, values, first, last, weights, stride, l1 = arguments
            e = Emitter(context, builder, signature.args[0].dtype)
            out, starts, values, weights = (
                e.data(signature.args[i], a) for i, a in ((0, out), (1, starts), (2, values), (5, weights))
            )
            shrink = e.shrinker(l1, signature.args[7])

            def term(row: Any, lane: Any) -> Any:
                k = builder.add(first, row)
                row_at = builder.add(builder.sext(e.scalar(starts, k), stride.type), lane)
                w = shrink(e.load(e.address(weights, row_at)))
                if scaled:
                    w = e.multiply(e.splat(e.cast(e.scalar(values, k), signature.args[2].dtype)), w)
                return w

            with e.lanes(stride) as lane:
                address = e.address(out, lane)
                e.store(e.sum_of_terms(builder.sub(last, first), lane, term, e.load(address)), address)
            return context.get_dummy_value()

        return signature, emit

    return gather


def _scatter(scaled: bool, masked: bool) -> Any:
    @intrinsic
    def scatter(typing, weights, starts, values, first, last, delta, mask, stride, l1):  # type: ignore
        index = types.intp
        signature = types.float64(weights, starts, values, index, index, delta, mask, index, l1)

        def emit(context, builder, signature, arguments):  # type: ignore
            weights, starts, values, first, last, delta, mask, stride, l1 = arguments
            e = Emitter(context, builder, signature.args[0].dtype)
            arrays = ((0, weights), (1, starts), (2, values), (5, delta), (6, mask))
            weights, starts, values, delta, mask = (e.data(signature.args[i], a) for i, a in arrays)
            shrink, is_shrunk = (
                e.shrinker(l1, signature.args[8]),
                not isinstance(signature.args[8], types.NoneType),
            )
            growth = cgutils.alloca_once(builder, e.vector)
            builder.store(e.zero(), growth)
            with e.lanes(stride) as lane:
                d = e.load(e.address(delta, lane))

                def moved(row: Any, lane: Any) -> Any:
                    """Add to one row, and return the growth of its squares."""
                    k = builder.add(first, row)
                    row_at = builder.add(builder.sext(e.scalar(starts, k), stride.type), lane)
                    x = d
                    if scaled:
                        x = e.multiply(e.splat(e.cast(e.scalar(values, k), signature.args[2].dtype)), x)
                    if masked:
                        x = e.multiply(x, e.load_single(mask, row_at))
                    address = e.address(weights, row_at)
                    old = e.load(address)
                    new = e.add(old, x)
                    e.store(new, address)
                    if is_shrunk:
                        old, new = shrink(old), shrink(new)
                        x = builder.fsub(new, old)
                    return e.multiply(x, e.add(old, new))

                total = e.sum_of_terms(builder.sub(last, first), lane, moved, builder.load(growth))
                builder.store(total, growth)
            return e.context.cast(
                builder, e.fold(builder.load(growth), e.add), signature.args[0].dtype, types.float64
            )

        return signature, emit

    return scatter


@intrinsic
def _fetch_ahead(typing, source, first, last):  # type: ignore
    signature = types.void(source, types.intp, types.intp)

    def emit(context, builder, signature, arguments):  # type: ignore
        source, first, last = arguments
        kind, byte = signature.args[0], ir.IntType(8).as_pointer()
        data = context.make_array(kind)(context, builder, source).data
        flag = ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        )
        step = ir.Constant(first.type, _CACHE_LINE * 8 // kind.dtype.bitwidth)
        with cgutils.for_range_slice(builder, first, last, step) as (at, _):
            line = builder.bitcast(builder.gep(data, [at]), byte)
            builder.call(prefetch, [line, flag(0), flag(3), flag(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def _maximum(typing, source, start, count):  # type: ignore
    signature = source.dtype(source, types.intp, types.intp)

    def emit(context, builder, signature, arguments):  # type: ignore
        source, start, count = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        source = e.data(signature.args[0], source)
        best = cgutils.alloca_once(builder, e.vector)
        nothing = ir.Constant(e.vector, [float("-inf")] * LANES)
        builder.store(nothing, best)
        with e.lanes(count) as lane:
            x = e.load(e.address(source, builder.add(start, lane)))
            x = builder.select(e.before(lane, count), x, nothing)
            builder.store(e.larger(x, builder.load(best)), best)
        return e.fold(builder.load(best), e.larger)

    return signature, emit


@intrinsic
def _exponential_row(typing, out, out_start, source, start, width, stride, shift):  # type: ignore
    index = types.intp
    signature = types.void(out, index, source, index, index, index, types.float64)

    def emit(context, builder, signature, arguments):  # type: ignore
        out, out_start, source, start, width, stride, shift = arguments
        e = Emitter(context, builder, signature.args[0].dtype)
        out, source, shift = e.data(signature.args[0], out), e.data(signature.args[2], source), e.splat(shift)
        with e.lanes(stride) as lane:
            x = builder.fsub(e.load(e.address(source, builder.add(start, lane))), shift)
            x = builder.select(e.before(lane, width), e.exponential(x), e.zero())
            e.store(x, e.address(out, builder.add(out_start, lane)))
        return context.get_dummy_value()

    return signature, emit


if not IS_OFF:
    combine_rows, maximum, exponential_row = _combine_rows, _maximum, _exponential_row
    shrunk, growth, fetch_ahead = _shrunk, _growth, _fetch_ahead
    gather_rows, gather_scaled_rows = _gather(False), _gather(True)
    scatter_rows, scatter_scaled_rows = _scatter(False, False), _scatter(True, False)
    scatter_masked_rows, scatter_scaled_masked_rows = _scatter(False, True), _scatter(True, True)
else:

    def fetch_ahead(source, first, last):  # type: ignore
        """Prefetch source[first:last], entries counted over all axes."""

    def maximum(source, start, count):  # type: ignore
        """The largest of source[start:][:count]. `source` must have ``LANES`` more entries after these."""
        return source[start : start + count].max()

    def exponential_row(out, out_start, source, start, width, stride, shift):  # type: ignore
        """out[out_start:][:stride] = exp(source[start:][:width] − shift), then zeros.

        The relative error is 2e-16. exp(x) is 0 for x < −708; no x may exceed 709. `source` must have ``LANES`` more
        entries after those that are read.
        """
        x = source[start : start + width] - shift
        out[out_start : out_start + stride] = 0.0
        out[out_start : out_start + width] = np.where(x > -708.0, np.exp(np.maximum(x, -708.0)), 0.0)

    def combine_rows(out, out_start, coefficients, first, step, count, matrix, matrix_start, stride):  # type: ignore
        """out[out_start:][:stride] = Σ_k coefficients[first + k·step] · matrix[matrix_start + k·stride:][:stride]."""
        rows = matrix[matrix_start : matrix_start + count * stride].reshape(count, stride)
        out[out_start : out_start + stride] = coefficients[first : first + count * step : step][:count] @ rows

    def shrunk(value, l1):  # type: ignore
        """A number or array moved towards zero by `l1`; unchanged if l1 is None."""
        return value if l1 is None else value - np.clip(value, -l1, l1)

    def growth(old, change, l1):  # type: ignore
        """The growth of the square of `old`, shrunk, if `change` is added to it."""
        before, after = shrunk(old, l1), shrunk(old + change, l1)
        return (after - before) * (after + before)

    def gather_scaled_rows(out, starts, values, first, last, weights, stride, l1):  # type: ignore
        """out[:stride] += Σ_k values[k] · shrunk weights[starts[k]:][:stride], first ≤ k < last."""
        for k in range(first, last):
            out[:stride] += values[k] * shrunk(weights[starts[k] : starts[k] + stride], l1)

    def gather_rows(out, starts, values, first, last, weights, stride, l1):  # type: ignore
        """As `gather_scaled_rows` with all values 1; `values` is not read."""
        gather_scaled_rows(out, starts, np.ones(last), first, last, weights, stride, l1)

    def scatter_scaled_masked_rows(weights, starts, values, first, last, delta, mask, stride, l1):  # type: ignore
        """weights[starts[k]:][:stride] += values[k] · mask · delta[:stride]. Returns the growth of the sum of
        squares of all weights, shrunk."""
        total = 0.0
        for k in range(first, last):
            rows = slice(starts[k], starts[k] + stride)
            change = values[k] * delta[:stride] * mask[rows]
            total += float(growth(weights[rows], change, l1).sum())
            weights[rows] += change
        return total

    def scatter_masked_rows(weights, starts, values, first, last, delta, mask, stride, l1):  # type: ignore
        ones = np.ones(last)
        return scatter_scaled_masked_rows(weights, starts, ones, first, last, delta, mask, stride, l1)

    def scatter_scaled_rows(weights, starts, values, first, last, delta, mask, stride, l1):  # type: ignore
        everywhere = np.ones(len(weights))
        return scatter_scaled_masked_rows(weights, starts, values, first, last, delta, everywhere, stride, l1)

    def scatter_rows(weights, starts, values, first, last, delta, mask, stride, l1):  # type: ignore
        return scatter_scaled_rows(weights, starts, np.ones(last), first, last, delta, mask, stride, l1)
