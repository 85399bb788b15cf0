# mypy: ignore-errors
"""Compiled code from the on-disk cache, without the compiler that made it."""

from __future__ import annotations

from typing import Any

from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from partwise.compiled.clock import listen

listen()


class LightCache(FunctionCache):
    """A cache that loads machine code without loading the compiler.

    Before it looks into a cache, Numba imports everything that it can compile, SciPy's linear algebra included:
    0.3 CPU seconds in every process. Code that is there needs only the runtime that counts references. Where
    it is not there, compiling imports the rest in any case.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def load_without_compiler(dispatcher: Any) -> None:
    """Give a compiled function this cache; one whose cache is not Numba's usual one keeps its own."""
    cache = getattr(dispatcher, "_cache", None)
    if type(cache) is FunctionCache:
        cache.__class__ = LightCache
