# mypy: ignore-errors
"""Products of small matrices, for charts of dense grammars.

Eight rows of the result are computed at a time, so that every vector that is loaded serves eight products.
"""

from __future__ import annotations

from typing import Any

from partwise.compiled.dispatch import IS_OFF, cgutils, intrinsic, ir, types
from partwise.compiled.simd import LANES, Emitter

_ROWS = 8  # Rows of the result at a time: their vectors still fit into registers.


@intrinsic
def _add_matrix_product(  # type: ignore
    typing, out, out_start, out_stride, a, a_start, a_row, a_step, b, b_start, b_stride, rows, count, width
):
    index = types.intp
    signature = types.void(
        out, index, index, a, index, index, index, b, index, index, index, index, index
    )  # fmt: skip

    def emit(context, builder, signature, arguments):  # type: ignore
        out, out_start, out_stride, a, a_start, a_row, a_step, b, b_start, b_stride, rows, count, width = (
            arguments
        )
        e = Emitter(context, builder, signature.args[0].dtype)
        out, a, b = (e.data(signature.args[k], arguments[k]) for k in (0, 3, 7))
        totals = [cgutils.alloca_once(builder, e.vector) for _ in range(_ROWS)]

        def number(value: int) -> Any:
            return ir.Constant(rows.type, value)

        def block(first: Any, size: int) -> None:
            """Rows first … first + size − 1 of the result."""
            own = [builder.add(first, number(r)) for r in range(size)]
            starts = [builder.add(a_start, builder.mul(row, a_row)) for row in own]
            places = [builder.add(out_start, builder.mul(row, out_stride)) for row in own]
            with e.lanes(width) as lane:
                for total, place in zip(totals, places, strict=False):
                    builder.store(e.load(e.address(out, builder.add(place, lane))), total)
                with cgutils.for_range(builder, count) as loop:
                    at = builder.add(b_start, builder.add(builder.mul(loop.index, b_stride), lane))
                    vector, step = e.load(e.address(b, at)), builder.mul(loop.index, a_step)
                    for total, start in zip(totals, starts, strict=False):
                        x = e.splat(e.scalar(a, builder.add(start, step)))
                        builder.store(e.multiply_add(x, vector, builder.load(total)), total)
                for total, place in zip(totals, places, strict=False):
                    e.store(builder.load(total), e.address(out, builder.add(place, lane)))

        whole = builder.and_(rows, number(-_ROWS))
        with cgutils.for_range_slice(builder, number(0), whole, number(_ROWS)) as (first, _):
            block(first, _ROWS)
        with cgutils.for_range_slice(builder, whole, rows, number(1)) as (first, _):
            block(first, 1)
        return context.get_dummy_value()

    return signature, emit


if not IS_OFF:
    add_matrix_product = _add_matrix_product
else:

    def add_matrix_product(  # type: ignore
        out, out_start, out_stride, a, a_start, a_row, a_step, b, b_start, b_stride, rows, count, width
    ):
        """Row r of `out` += Σ_k a[r, k] · (row k of `b`), for rows of `width` numbers, a multiple of ``LANES``.

        Row r of `out` begins at out_start + r · out_stride, a[r, k] lies at a_start + r · a_row + k · a_step, and row k
        of `b` begins at b_start + k · b_stride.
        """
        for r in range(rows):
            row = out[out_start + r * out_stride :][:width]
            for k in range(count):
                row += a[a_start + r * a_row + k * a_step] * b[b_start + k * b_stride :][:width]


__all__ = ["LANES", "add_matrix_product"]
