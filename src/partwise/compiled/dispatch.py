"""Decorators that compile: `entry` for calls from Python, `inner` for calls from compiled code, `fragment` to paste.

:func:`chosen_by_type` chooses an implementation by the type of the first argument, at compile time. Records that cross
from one compiled function to another are in `boundary.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from numba import config, njit, types
from numba.extending import overload

from partwise.compiled.cache_folder import kept_on_disk
from partwise.compiled.numba_hooks import OPTIMISE_ONCE, private_options

# "nnan" and "ninf" are left out: −inf is a legal score.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "afn"}
OPTIONS: dict[str, Any] = {"fastmath": FAST_MATH, "error_model": "numpy", "boundscheck": False}

IS_OFF: bool = bool(getattr(config, "DISABLE_JIT", 0))  # everything then runs as plain Python

_SOURCE = Path(__file__).parents[2]
_IMPORT = re.compile(rb"^\s*from (partwise[\w.]*) import", re.MULTILINE)


def entry(function: Callable | None = None, *, allocates: bool = False) -> Any:
    """Compile `function` for the types of its first call from Python, and cache it on disk.

    A function that `allocates` arrays must say so. All other functions are compiled without reference counts, which
    are half of the code.
    """
    if function is None:
        return partial(entry, allocates=allocates)
    options = {"nogil": True, **private_options(_nrt=allocates), **OPTIONS}
    if IS_OFF:
        return function
    compiled = kept_on_disk(lambda cache: njit(function, cache=cache, **options), stamp_of(function))
    OPTIMISE_ONCE.ours[compiled] = False
    return compiled


def inner(function: Callable | None = None, *, allocates: bool = False) -> Any:
    """Compile `function` for calls from compiled code. Python cannot call it."""
    if function is None:
        return partial(inner, allocates=allocates)
    if IS_OFF:
        return function
    private = private_options(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=allocates)
    compiled = njit(function, **private, **OPTIONS)
    OPTIMISE_ONCE.ours[compiled] = True
    return compiled


def fragment(function: Callable) -> Any:
    """Paste a function of a line or two into its callers. Longer functions compile faster as `inner`."""
    return njit(function, inline="always", **OPTIONS)


def python_form(function: Any) -> Callable:
    """The Python function that was compiled."""
    return getattr(function, "py_func", function)


# -- the cache on disk -------------------------------------------------------------------------------


@cache
def source_digest(path: Path) -> str:
    """Hash of a source file, of the files beside it, which may register implementations, and of all their imports."""
    waiting = sorted(path.parent.glob("*.py")) if path.is_relative_to(_SOURCE / "partwise") else [path]
    seen = set(waiting)
    digest = hashlib.blake2b(digest_size=16)
    while waiting:
        source = waiting.pop().read_bytes()
        digest.update(source)
        for name in sorted(set(_IMPORT.findall(source))):
            module = _SOURCE.joinpath(*name.decode().split("."))
            for found in (module.with_suffix(".py"), module / "__init__.py"):
                if found.is_file() and found not in seen:
                    seen.add(found)
                    waiting.append(found)
    return digest.hexdigest()


def stamp_of(function: Callable) -> Callable[[], str]:
    """The stamp of a function's compiled code: a hash of every file that it may call. Numba's own stamp is of the
    function's file only."""
    return lambda: source_digest(Path(function.__code__.co_filename))


# -- implementations by type -------------------------------------------------------------------------


class _Generic:
    """A function chosen by the class of its first argument, without compilation."""

    def __init__(self, name: str):
        self.__name__ = name
        self.implementations: dict[type, Callable] = {}

    def __call__(self, specification: Any, *arguments: Any) -> Any:
        return self.implementations[type(specification)](specification, *arguments)


def chosen_by_type(stub: Callable) -> Any:
    """Make `stub` generic over the NamedTuple class of its first argument. ``stub.register(Class)`` decorates an
    implementation."""
    generic = _Generic(stub.__name__)

    def register(specification: type) -> Callable:
        def decorate(function: Callable) -> Callable:
            generic.implementations[specification] = function
            return function

        return decorate

    if IS_OFF:
        call: Any = generic
    else:
        call = stub
        names = stub.__code__.co_varnames[: stub.__code__.co_argcount]

        def choose(*argument_types: Any) -> Any:
            specification: Any = argument_types[0]
            if not isinstance(argument_types[0], types.BaseNamedTuple):
                return None
            return _forwarder(generic.implementations[specification.instance_class], names)

        # Numba requires the same argument names in the chooser and in the function that it returns.
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
    return namespace["forward"]
