"""Decorators that compile: `entry` for calls from Python, `inner` for calls from compiled code, `fragment` to paste.

:func:`chosen_by_type` chooses an implementation by the type of the first argument, at compile time. :func:`intrinsic`
marks a function that emits instructions. Nothing is compiled, and the compiler is not even imported, before a kernel is
called of which there is no machine code (`machine_code.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from importlib import import_module
from typing import Any

from partwise.compiled.kernels import IS_OFF, Entry, callable_by_kernels


def entry(function: Callable | None = None, *, allocates: bool = False) -> Any:
    """Compile `function` for the types of each call from Python. A function that `allocates` arrays must say so."""
    if function is None:
        return partial(entry, allocates=allocates)
    return function if IS_OFF else Entry(function, allocates)


def inner(function: Callable | None = None, *, allocates: bool = False) -> Any:
    """Compile `function` for calls from compiled code. A function that `allocates` arrays must say so."""
    if function is None:
        return partial(inner, allocates=allocates)
    return function if IS_OFF else Deferred(function, "inner", allocates)


def fragment(function: Callable) -> Any:
    """Paste a function of a line or two into its callers. Longer functions compile faster as `inner`."""
    return function if IS_OFF else Deferred(function, "fragment")


def intrinsic(function: Callable) -> Any:
    """A function that emits instructions: Numba's intrinsic."""
    return Deferred(function, "intrinsic")


def python_form(function: Any) -> Callable:
    """The Python function that is compiled."""
    return getattr(function, "py_func", function)


class Deferred:
    """A function that the compiler gets to know when something must be compiled.

    `numba_compiler.py` replaces it then, in every module, by what the compiler made of it.
    """

    def __init__(self, function: Callable, role: str, allocates: bool = False):
        own: Any = self
        update_wrapper(own, function)
        self.py_func, self.role, self.allocates = function, role, allocates
        self.made: Any = None  # what the compiler made of it
        callable_by_kernels.append(function)
        deferred.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """As plain Python, which serves small things such as sizes."""
        return self.py_func(*arguments)

    def __reduce__(self) -> Any:
        return _named, (self.py_func.__module__, self.py_func.__qualname__)


def _named(module: str, name: str) -> Any:
    """The object of this name in a module."""
    return getattr(import_module(module), name)


class LazyModule:
    """A module of the compiler, imported when one of its names is first needed."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


deferred: list[
    Any
] = []  # functions of :class:`Deferred` and :class:`Generic` that the compiler does not know yet
cgutils: Any = LazyModule("numba.core.cgutils")
ir: Any = LazyModule("llvmlite.ir")
types: Any = LazyModule("numba.core.types")


# -- implementations by type -------------------------------------------------------------------------


class Generic:
    """A function chosen by the class of its first argument. Without compilation it is called as it is."""

    def __init__(self, stub: Callable):
        self.__name__, self.stub = stub.__name__, stub
        self.implementations: dict[type, Any] = {}

    def __call__(self, specification: Any, *arguments: Any) -> Any:
        return self.implementations[type(specification)](specification, *arguments)

    def register(self, specification: type) -> Callable:
        def decorate(function: Callable) -> Callable:
            self.implementations[specification] = function
            return function

        return decorate


def chosen_by_type(stub: Callable) -> Any:
    """Make `stub` generic over the NamedTuple class of its first argument. ``stub.register(Class)`` decorates an
    implementation."""
    generic: Any = Generic(stub)
    if IS_OFF:
        return generic
    deferred.append(generic)
    call: Any = stub
    call.register = generic.register
    return call
