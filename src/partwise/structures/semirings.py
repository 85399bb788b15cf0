# mypy: ignore-errors
"""Semirings: one text of a recursion gives sums, best scores, samples and best labellings.

A recursion combines alternatives by `plus` and the parts of one alternative by `times`. Its first argument is a
semiring, which chooses the operations when the recursion is compiled:

| semiring | an item keeps | zero | one | plus | times |
|---|---|---|---|---|---|
| ``LINEAR`` | a sum of products of scaled weights: fast, may underflow | 0 | 1 | + | × |
| ``LOGS`` | the logarithm of a sum: slow, for any scores | −inf | 0 | log-add | + |
| ``MAXIMA`` | the largest score | −inf | 0 | max | + |

On the way back from the result to the parts, :func:`choose` takes one alternative of an item: the best (``BEST``), or
one drawn with its probability (:class:`Drawn`). :func:`share` divides an item among all alternatives (``SHARED``), or
gives it to the chosen one.

If every term of an item goes on in one other item only, as in chains, a recursion may also keep lists of the k best
(`ranked.py`). Such recursions make whole rows of items at once, by the functions under "rows of items".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals
from partwise.compiled.dispatch import chosen_by_type, fragment, inner
from partwise.compiled.simd import exponential_row, maximum
from partwise.compiled.simd_max import best_rows
from partwise.compiled.simd_rows import LANES, add_scaled, raise_to, sum_row


class Linear(NamedTuple):
    """Sums of products of scaled weights."""

    zero: float = 0.0
    one: float = 1.0


class Logs(NamedTuple):
    """Logarithms of sums."""

    zero: float = -math.inf
    one: float = 0.0


class Maxima(NamedTuple):
    """Largest scores."""

    zero: float = -math.inf
    one: float = 0.0


LINEAR, LOGS, MAXIMA = Linear(), Logs(), Maxima()


class Best(NamedTuple):
    """Choose the first of the best alternatives."""

    n_uniforms: int = 0


class Shared(NamedTuple):
    """Use all alternatives, with their probabilities."""

    n_uniforms: int = 0


class Drawn(NamedTuple):
    """Draw alternatives with their probabilities, each by one of `uniforms` in [0, 1)."""

    uniforms: Reals


BEST, SHARED = Best(), Shared()


@inner
def log_add(a, b):  # type: ignore
    """log(exp a + exp b). Either may be −inf."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


# -- operations ---------------------------------------------------------------------------------------


@chosen_by_type
def plus(semiring, a, b):
    """The sum of two alternatives."""


@chosen_by_type
def times(semiring, a, b):
    """The product of two parts of one alternative."""


@chosen_by_type
def ratio(semiring, a, b):
    """The quotient of two numbers."""


@chosen_by_type
def number_of(semiring, a):
    """The plain number of which the semiring keeps `a`."""


@inner
def sum_of(semiring, row, count):  # type: ignore
    """The sum of the first `count` numbers of a row."""
    total = semiring.zero
    for k in range(count):
        total = plus(semiring, total, row[k])
    return total


@chosen_by_type
def add_row(semiring, out, out_row, number, source, source_row, first, last):
    """For j in first … last: out[out_row + j] = plus(out[out_row + j], number times source[source_row + j]).

    Rows start at whole vectors. Vector operations also change the rest of the first and of the last vector.
    """


@fragment
def _sum(semiring, a, b):  # type: ignore
    return a + b


@fragment
def _product(semiring, a, b):  # type: ignore
    return a * b


@fragment
def _difference(semiring, a, b):  # type: ignore
    return a - b


@fragment
def _quotient(semiring, a, b):  # type: ignore
    return a / b


@fragment
def _larger(semiring, a, b):  # type: ignore
    return max(a, b)


@fragment
def _log_sum(semiring, a, b):  # type: ignore
    return log_add(a, b)


@fragment
def _itself(semiring, a):  # type: ignore
    return a


@fragment
def _exponential(semiring, a):  # type: ignore
    return math.exp(a)


@fragment
def _add_row(semiring, out, out_row, number, source, source_row, first, last):  # type: ignore
    begin = first & ~(LANES - 1)
    width = ((last + LANES - 1) & ~(LANES - 1)) - begin
    add_scaled(out, out_row + begin, number, source, source_row + begin, width)


@fragment
def _raise_row(semiring, out, out_row, number, source, source_row, first, last):  # type: ignore
    begin = first & ~(LANES - 1)
    width = ((last + LANES - 1) & ~(LANES - 1)) - begin
    raise_to(out, out_row + begin, number, source, source_row + begin, width)


@inner
def _log_add_row(semiring, out, out_row, number, source, source_row, first, last):  # type: ignore
    for j in range(first, last):
        out[out_row + j] = log_add(out[out_row + j], number + source[source_row + j])


plus.register(Linear)(_sum)
plus.register(Logs)(_log_sum)
plus.register(Maxima)(_larger)
times.register(Linear)(_product)
times.register(Logs)(_sum)
times.register(Maxima)(_sum)
ratio.register(Linear)(_quotient)
ratio.register(Logs)(_difference)
number_of.register(Linear)(_itself)
number_of.register(Logs)(_exponential)
add_row.register(Linear)(_add_row)
add_row.register(Logs)(_log_add_row)
add_row.register(Maxima)(_raise_row)


# -- rows of items ------------------------------------------------------------------------------------
#
# The first argument is a semiring, whose items are numbers in the arrays `out` and `source`, or a `Ranked`. Rows have
# `stride` numbers, whole vectors, of which the first `width` count. `room` is for logarithms.


@chosen_by_type
def set_cell(kind, out, cell, number):
    """Make an item that stands for one labelling."""


@chosen_by_type
def join_rows(kind, out, cell, source, first, step, count, table, at, stride, width, room):
    """out[cell + j] = ⊕_a source[first + a·step] ⊗ table[at + a·stride + j], for a < count.

    `table` has zeros (−inf) behind its columns. ``LOGS`` needs two rows of `room`.
    """


@chosen_by_type
def multiply_row(kind, out, cell, scores, at, width):
    """out[cell + j] = out[cell + j] ⊗ scores[at + j]."""


@chosen_by_type
def start_row(kind, out, cell, stride):
    """Prepare a row for :func:`offer_row`."""


@chosen_by_type
def offer_row(kind, out, cell, a, source, first, table, at, stride, width, room):
    """out[cell + j] = out[cell + j] ⊕ source[first + j] ⊗ table[at + j]. It is term number `a` of the row.

    ``LOGS`` needs two rows of `room` and one for every term.
    """


@chosen_by_type
def finish_row(kind, out, cell, count, stride, width, room):
    """Complete a row after `count` calls of :func:`offer_row`."""


@set_cell.register(Logs)
@set_cell.register(Maxima)
@fragment
def _set_number(kind, out, cell, number):  # type: ignore
    out[cell] = number


@multiply_row.register(Logs)
@multiply_row.register(Maxima)
@inner
def _add_scores(kind, out, cell, scores, at, width):  # type: ignore
    # Indices without sign: one that may be negative counts from the end, which would keep vectors out of the loop.
    cell, at = np.uint64(cell), np.uint64(at)
    for j in range(np.uint64(width)):
        out[cell + j] += scores[at + j]


@join_rows.register(Maxima)
@inner
def _join_maxima(kind, out, cell, source, first, step, count, table, at, stride, width, room):  # type: ignore
    best_rows(out, cell, source, first, step, count, table, at, stride)


@start_row.register(Maxima)
@inner
def _start_maxima(kind, out, cell, stride):  # type: ignore
    for j in range(stride):
        out[cell + j] = -np.inf


@offer_row.register(Maxima)
@inner
def _offer_maxima(kind, out, cell, a, source, first, table, at, stride, width, room):  # type: ignore
    cell, first, at = np.uint64(cell), np.uint64(first), np.uint64(at)  # without sign, as in `_add_scores`
    for j in range(np.uint64(width)):
        out[cell + j] = max(out[cell + j], table[at + j] + source[first + j])


@finish_row.register(Maxima)
@inner
def _finish_maxima(kind, out, cell, count, stride, width, room):  # type: ignore
    pass


# Log-sums: a row of maxima in `out`, exponentials of the difference of one term in the first row of `room`, their sums
# in the second one.


@inner
def _start_sums(out, cell, stride, room):  # type: ignore
    for j in range(stride):
        room[stride + j] = 0.0
        out[cell + j] = max(out[cell + j], -1e300)  # finite: −inf minus −inf is no number


@inner
def _add_exponentials(stride, room):  # type: ignore
    exponential_row(room, 0, room, 0, stride, stride, 0.0)
    for j in range(stride):
        room[stride + j] += room[j]


@inner
def _take_logarithms(out, cell, stride, width, room):  # type: ignore
    for j in range(stride):
        total = room[stride + j] if j < width else 0.0
        out[cell + j] = out[cell + j] + math.log(total) if total > 0.0 else -np.inf


@join_rows.register(Logs)
@inner
def _join_logs(kind, out, cell, source, first, step, count, table, at, stride, width, room):  # type: ignore
    best_rows(out, cell, source, first, step, count, table, at, stride)
    _start_sums(out, cell, stride, room)
    for a in range(count):
        number, row = source[first + a * step], at + a * stride
        if number > -np.inf:
            for j in range(stride):
                room[j] = (number + table[row + j]) - out[cell + j]
            _add_exponentials(stride, room)
    _take_logarithms(out, cell, stride, width, room)


@start_row.register(Logs)
@inner
def _start_logs(kind, out, cell, stride):  # type: ignore
    for j in range(stride):
        out[cell + j] = -np.inf


@offer_row.register(Logs)
@inner
def _offer_logs(kind, out, cell, a, source, first, table, at, stride, width, room):  # type: ignore
    term = (2 + a) * stride
    for j in range(width):
        room[term + j] = table[at + j] + source[first + j]
        out[cell + j] = max(out[cell + j], room[term + j])
    for j in range(width, stride):
        room[term + j] = -np.inf


@finish_row.register(Logs)
@inner
def _finish_logs(kind, out, cell, count, stride, width, room):  # type: ignore
    _start_sums(out, cell, stride, room)
    for a in range(count):
        for j in range(stride):
            room[j] = room[(2 + a) * stride + j] - out[cell + j]
        _add_exponentials(stride, room)
    _take_logarithms(out, cell, stride, width, room)


# -- choices ------------------------------------------------------------------------------------------


@chosen_by_type
def weigh(semiring, row, count):
    """Turn the first `count` alternatives of `row` into weights, the largest at most one on logarithms.

    The row is overwritten up to a whole vector, and has ``LANES`` more entries.
    """


@weigh.register(Linear)
@fragment
def _weigh_linear(semiring, row, count):  # type: ignore
    pass


@weigh.register(Logs)
@inner
def _weigh_logs(semiring, row, count):  # type: ignore
    top, n_possible = maximum(row, 0, count), 0
    for k in range(count):
        n_possible += row[k] > top - 708.0  # the exponentials of others are zero
    if n_possible == 1:  # as is usual for large scores
        for k in range(count):
            row[k] = 1.0 if row[k] == top else 0.0
    else:
        exponential_row(row, 0, row, 0, count, (count + LANES - 1) & ~(LANES - 1), top)


@inner
def draw(weights, n, uniform):  # type: ignore
    """The alternative at which the sum of weights passes `uniform` times the total; the last takes rounding."""
    whole, chosen = n & ~(LANES - 1), -1
    left = sum_row(weights, 0, whole)
    for a in range(whole, n):
        left += weights[a]
    left *= uniform
    for a in range(n):
        if weights[a] > 0.0:
            if chosen >= 0 and left < 0.0:
                break
            chosen = a
            left -= weights[a]
    return chosen


@chosen_by_type
def choose(how, semiring, row, count, use):
    """Choose one of the first `count` alternatives in `row`, which may be overwritten. `use` numbers the choices."""


@choose.register(Best)
@inner
def _choose_best(how, semiring, row, count, use):  # type: ignore
    found, top = 0, row[0]
    for k in range(1, count):
        if row[k] > top:
            found, top = k, row[k]
    return found


@choose.register(Drawn)
@inner
def _choose_drawn(how, semiring, row, count, use):  # type: ignore
    if count == 1:
        return 0
    weigh(semiring, row, count)
    return draw(row, count, how.uniforms[use])


@chosen_by_type
def share(how, semiring, row, count, use):
    """Turn the first `count` alternatives in `row` into shares that add up to one."""


@share.register(Shared)
@inner
def _share_among_all(how, semiring, row, count, use):  # type: ignore
    weigh(semiring, row, count)
    total = 0.0
    for k in range(count):
        total += row[k]
    for k in range(count):
        row[k] /= total


@share.register(Best)
@share.register(Drawn)
@inner
def _give_to_one(how, semiring, row, count, use):  # type: ignore
    found = choose(how, semiring, row, count, use)
    for k in range(count):
        row[k] = 1.0 if k == found else 0.0
