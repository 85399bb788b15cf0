# mypy: ignore-errors
"""How functions are compiled: `entry` from Python, `inner` from compiled code, `fragment` pasted into its callers.

Also the choice of an implementation by the type of the first argument (:func:`chosen_by_type`), made while
compiling, so that it costs nothing per call. What crosses the boundary between passes, structures and rows is in
`boundary.py`.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from llvmlite.binding import Linkage
from numba import config, njit, types
from numba.core import codegen, event
from numba.extending import overload

from partwise.compiled.cache_folder import kept_on_disk

# −inf is a legal score, so nothing may assume that numbers are finite.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "afn"}
OPTIONS: dict[str, Any] = {"fastmath": FAST_MATH, "error_model": "numpy", "boundscheck": False}

IS_OFF: bool = bool(config.DISABLE_JIT)  # everything then runs as plain Python

_SOURCE = Path(__file__).parents[2]
_IMPORT = re.compile(rb"^\s*from (partwise[\w.]*) import", re.MULTILINE)


def entry(function: Callable | None = None, *, allocates: bool = False) -> Any:
    """Compile `function` for the types it is first called with from Python, and cache it on disk.

    Unless it `allocates` arrays, it only borrows those it is given: counting references is half of what a compiler
    would have to read.
    """
    if function is None:
        return partial(entry, allocates=allocates)
    options = {"nogil": True, "_nrt": allocates, **OPTIONS}
    return kept_on_disk(lambda cache: njit(function, cache=cache, **options), stamp_of(function))


def inner(function: Callable | None = None, *, allocates: bool = False) -> Any:
    """Compile `function` for the use of compiled code only: Python cannot call it."""
    if function is None:
        return partial(inner, allocates=allocates)
    if IS_OFF:
        return function
    compiled = njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=allocates, **OPTIONS)
    _INNER.add(compiled)
    return compiled


def fragment(function: Callable) -> Any:
    """A line or two that are pasted into their callers; more than that compiles faster as `inner`."""
    return njit(function, inline="always", **OPTIONS)


def python_form(function: Any) -> Callable:
    """The function as it was before it was compiled."""
    return getattr(function, "py_func", function)


# -- the cache on disk -------------------------------------------------------------------------------


@cache
def source_digest(path: Path) -> str:
    """Hash of a source file, of those beside it, which may register what it calls, and of all that these import."""
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
    """What the cache depends on. Numba notices a change of the file that holds the function, not of the files it
    calls; this is a hash of all of them."""
    return lambda: source_digest(Path(function.__code__.co_filename))


# -- optimising once ---------------------------------------------------------------------------------

_INNER: set[Any] = set()


class _Stack(threading.local, event.Listener):
    """The functions that this thread is compiling, the innermost last."""

    def __init__(self) -> None:
        self.functions: list[Any] = []

    def on_start(self, happened: Any) -> None:
        self.functions.append((happened.data or {}).get("dispatcher"))

    def on_end(self, happened: Any) -> None:
        self.functions.pop()


def _optimise_where_used() -> None:
    """Do not optimise inner functions on their own.

    Numba runs LLVM's optimisation on every function by itself, and again on everything that it is linked into.
    Inner functions are never called by themselves, so that only the second counts; leaving out the first halves
    the time of compiling. Where Numba has no such hook, compiling takes longer and nothing else changes.
    """
    library = getattr(codegen, "CPUCodeLibrary", None)
    original = getattr(library, "_optimize_final_module", None)
    if original is None:
        return
    stack = _Stack()
    event.register("numba:compile", stack)

    def optimise(self: Any) -> None:
        if stack.functions and stack.functions[-1] in _INNER:
            return
        # Else the process that compiles would call the inner functions' own code, which is not optimised.
        for function in self._final_module.functions:
            is_linked = not function.is_declaration and function.linkage == Linkage.linkonce_odr
            if is_linked and "partwise" in function.name:
                function.linkage = Linkage.internal
        original(self)

    library._optimize_final_module = optimise


if not IS_OFF:
    _optimise_where_used()


# -- implementations by type -------------------------------------------------------------------------


class _Generic:
    """A function chosen by the class of its first argument; plain Python when compilation is off."""

    def __init__(self, name: str):
        self.__name__ = name
        self.implementations: dict[type, Callable] = {}

    def __call__(self, specification: Any, *arguments: Any) -> Any:
        return self.implementations[type(specification)](specification, *arguments)


def chosen_by_type(stub: Callable) -> Any:
    """Make `stub` generic over the NamedTuple class of its first argument; ``stub.register(Class)`` decorates its
    implementations."""
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
    return namespace["forward"]
