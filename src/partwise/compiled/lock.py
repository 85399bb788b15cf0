# mypy: ignore-errors
"""A lock and a barrier for threads in compiled code.

Waiting threads read the lock in a loop (a spin lock). This takes microseconds if every thread has a core of its own.
After many reads a thread yields its core.
"""

from __future__ import annotations

import sys

from partwise.compiled.dispatch import IS_OFF, entry, inner, intrinsic, ir, types

_LOOKS = 100_000  # Reads of a lock before a thread yields its core: takes much longer than a lock is held.
_GIVE_WAY = "sched_yield"


def _first(context, builder, signature, arguments):
    """The address of the first entry of an array."""
    return context.make_array(signature.args[0])(context, builder, arguments[0]).data


@intrinsic
def _exchange(typing, place, value):
    """Set the first entry of `place`, and return its old value."""

    def emit(context, builder, signature, arguments):
        first = _first(context, builder, signature, arguments)
        return builder.atomic_rmw("xchg", first, arguments[1], "acq_rel")

    return types.int64(place, types.int64), emit


@intrinsic
def _count(typing, place):
    """Add one to the first entry of `place`."""

    def emit(context, builder, signature, arguments):
        first = _first(context, builder, signature, arguments)
        return builder.atomic_rmw("add", first, ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(place), emit


@intrinsic
def _look(typing, place):
    """The first entry of `place`, with the writes of other threads."""

    def emit(context, builder, signature, arguments):
        return builder.load_atomic(_first(context, builder, signature, arguments), "acquire", 8)

    return types.int64(place), emit


@intrinsic
def _give_way(typing):
    """Yield the core to other threads, except on Windows, which has no such function."""

    def emit(context, builder, signature, arguments):
        if sys.platform != "win32":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(
                builder.module.globals.get(_GIVE_WAY) or ir.Function(builder.module, kind, _GIVE_WAY), []
            )
        return context.get_dummy_value()

    return types.void(), emit


@inner
def acquire(lock):  # type: ignore
    """Wait until `lock`, int64 (1,), is free, and take it."""
    looks = 0
    while _exchange(lock, 1) != 0:
        while _look(lock) != 0:
            looks += 1
            if looks % _LOOKS == 0:
                _give_way()


@inner
def release(lock):  # type: ignore
    """Free `lock`."""
    _exchange(lock, 0)


@entry
def arrive(counter, n):  # type: ignore
    """Wait until `n` threads have called this with `counter`, int64 (1,), which starts at 0."""
    _count(counter)
    looks = 0
    while _look(counter) < n:
        looks += 1
        if looks % _LOOKS == 0:
            _give_way()


if IS_OFF:  # one thread, see `solvers/threads.py`

    def acquire(lock):
        """Nothing to wait for: there is one thread."""

    release = acquire
