# mypy: ignore-errors
"""How kernels are compiled: one decorator for all of them, and dispatch on the kind of structure.

A structure's data is a NamedTuple class of its own; a *generic kernel* (:func:`structure_kernel`)
picks the implementation registered for that class at compile time, so that one fused pass serves
every structure, costs nothing per call, and is found in the on-disk cache by the next process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from numba import config, njit, types
from numba.extending import overload

from partwise.compiled.cache_folder import kept_on_disk

# −inf is a legal score, so nothing may assume that numbers are finite.
_FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "afn"}


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Hash of every source file with compiled code: what the on-disk cache depends on."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parents[1].glob("*/**/*.py")):
        source = path.read_bytes()
        if b"partwise.compiled.dispatch import" in source:
            digest.update(source)
    return digest.hexdigest()


def kernel(function: Callable, inline: str = "never") -> Any:
    """Compile `function` with the project's options and cache it on disk.

    Numba's cache notices a change of the file that holds the function, not of the files it calls;
    the stamp is therefore replaced by a hash of all kernel sources.
    """
    options = {"nogil": True, "fastmath": _FAST_MATH, "error_model": "numpy", "boundscheck": False}
    return kept_on_disk(lambda cache: njit(function, cache=cache, inline=inline, **options), source_digest)


def fragment(function: Callable) -> Any:
    """A piece of a kernel that is pasted into its callers: each level of calls is optimised anew."""
    return kernel(function, inline="always")


class _Generic:
    """A kernel chosen by the class of its first argument; plain Python when compilation is off."""

    def __init__(self, name: str):
        self.__name__ = name
        self.implementations: dict[type, Callable] = {}

    def __call__(self, specification: Any, *arguments: Any) -> Any:
        return self.implementations[type(specification)](specification, *arguments)


def structure_kernel(stub: Callable) -> Any:
    """Make `stub` a generic kernel; ``stub.register(Specification)`` decorates its implementations."""
    generic = _Generic(stub.__name__)

    def register(specification: type) -> Callable:
        def decorate(function: Callable) -> Callable:
            generic.implementations[specification] = function
            return function

        return decorate

    if config.DISABLE_JIT:
        call: Any = generic
    else:
        call = stub
        names = stub.__code__.co_varnames[: stub.__code__.co_argcount]

        def choose(*argument_types: Any) -> Any:
            specification = argument_types[0]
            if not isinstance(specification, types.BaseNamedTuple):
                return None
            return _forwarder(generic.implementations[specification.instance_class], names)

        # Numba compares the argument names of the chooser and of what it returns.
        namespace: dict[str, Any] = {"choose": choose}
        arguments = ", ".join(names)
        exec(f"def typed({arguments}):\n    return choose({arguments})", namespace)
        overload(call, strict=False, inline="always")(namespace["typed"])
    call.register = register
    return call


def _forwarder(implementation: Any, names: tuple[str, ...]) -> Callable:
    arguments = ", ".join(names)
    namespace = {"implementation": implementation}
    exec(f"def forward({arguments}):\n    return implementation({arguments})", namespace)
    return namespace["forward"]  # type: ignore
