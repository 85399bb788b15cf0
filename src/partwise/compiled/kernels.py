"""Compiled functions, and how Python calls them.

A *kernel* is one function compiled for one list of argument types. It takes the address of a row of 64-bit words: room
for its results, then its arguments. A number is its bits, an array is the address of NumPy's array object, a record is
its fields. Python calls it through ctypes, which lets other threads run meanwhile.

A kernel is named after its function, with a hash of the argument types and of all sources that it may depend on. So a
name never stands for two different codes, wherever the code is kept (`machine_code.py`).
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import os
import re
import struct
from array import array
from collections.abc import Callable
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np

from partwise.compiled import machine_code

IS_OFF: bool = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")  # all code then runs as plain Python

N_RESULTS = 4  # words before the arguments: no kernel returns more numbers
# Bytes of a Python object before the fields of its type. NumPy's arrays begin with their address, their number of axes
# and the address of their shape: the layout that its C interface promises.
_HEAD = object.__basicsize__

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_DOUBLE, _WORD = struct.Struct("d"), struct.Struct("q")
_SOURCE = Path(__file__).parents[2]
_IMPORT = re.compile(rb"^\s*from (partwise[\w.]*) import", re.MULTILINE)

callable_by_kernels: list[Callable] = []  # functions whose names the compiler must be able to resolve


class Kernel:
    """A function and the types of its arguments.

    Parameters
    ----------
    function : callable
    types : str
        As :func:`described`; or for functions that other kernels call, the letters of :class:`Addressed`.
    allocates : bool
        Whether the code makes arrays.
    """

    def __init__(self, function: Callable, types: str, allocates: bool = False):
        self.__wrapped__, self.types, self.allocates = function, types, allocates
        self.is_addressed = types.isalpha()
        self.task: str | None = None  # its name in `background_compile.py`, if it has one

    @property
    def name(self) -> str:
        return f"{self.__wrapped__.__module__}.{self.__wrapped__.__qualname__}"

    def __str__(self) -> str:
        """How lists of kernels name it (`build.py`)."""
        return self.task or f"{self.__wrapped__.__module__}:{self.__wrapped__.__qualname__} {self.types}"

    @property
    def symbol(self) -> str:
        """The name of the machine code."""
        sources = source_digest(Path(self.__wrapped__.__code__.co_filename))
        hashed = hashlib.blake2b(f"{self.types} {sources}".encode(), digest_size=10).hexdigest()
        return f"{re.sub(r'[^A-Za-z0-9_]', '_', self.name)}_{hashed}"

    @property
    def address(self) -> int:
        """The address of the machine code. Compiles the function if there is none."""
        return machine_code.address_of(self)

    def compile(self) -> None:
        """Compile the function, or load it."""
        machine_code.address_of(self)

    def is_cached(self) -> bool:
        """Whether the function need not be compiled; it is loaded then."""
        return machine_code.find(self) is not None


class Entry:
    """A function that Python calls, compiled for each list of argument types that it is called with.

    Arguments are integers, floats, None, C-contiguous arrays, and tuples of these. It returns None, a number or a tuple
    of numbers.
    """

    def __init__(self, function: Callable, allocates: bool = False):
        update_wrapper(self, function)
        self.py_func, self.allocates, self.role = function, allocates, "inner"
        self.made: Any = None  # what the compiler made of it for other kernels
        self._calls: dict[tuple[Any, ...], Any] = {}
        callable_by_kernels.append(function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if named:
            arguments = inspect.signature(self.py_func).bind(*arguments, **named).args
        words: list[int] = [0] * N_RESULTS
        kinds: list[Any] = []
        _append(arguments, words, kinds)
        row, key = array("q", words), tuple(kinds)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _FUNCTION(self.kernel(described(arguments)).address)
        return _results(call(row.buffer_info()[0]), row)

    def prepared(self, *arguments: Any) -> Callable[[], Any]:
        """The call with these arguments, as a function. What is in the arrays may change, and their shapes too."""
        words: list[int] = [0] * N_RESULTS
        _append(arguments, words, [])
        row, call = array("q", words), _FUNCTION(self.kernel(described(arguments)).address)
        address = row.buffer_info()[0]

        def again() -> Any:
            return _results(call(address), row)

        again.arguments = arguments  # type: ignore[attr-defined]  # they must stay alive
        return again

    @property
    def n_kernels(self) -> int:
        """The number of lists of argument types that it was called with."""
        return len(self._calls)

    def kernel(self, types: str) -> Kernel:
        """The kernel for argument types in the form of :func:`described`."""
        return Kernel(self.py_func, types, self.allocates)


class Addressed(Kernel):
    """A function that other kernels call by its `address`.

    Parameters
    ----------
    function : callable
    arguments : str
        A letter for each argument: i for integers and addresses, d for double precision. It returns a double.
    """

    def __init__(self, function: Callable, arguments: str):
        super().__init__(function, arguments)
        callable_by_kernels.append(function)


# -- arguments and results ---------------------------------------------------------------------------


def _append(values: tuple[Any, ...], words: list[int], kinds: list[Any]) -> None:
    """Append the words of arguments, and what their types depend on."""
    for value in values:
        kind = type(value)
        if kind is np.ndarray or isinstance(
            value, np.ndarray
        ):  # the first is quick, the second knows maps of files
            if not value.flags.c_contiguous:
                raise TypeError("compiled code reads contiguous arrays only")
            words.append(id(value) + _HEAD)
            kinds.append(value.dtype.num << 8 | value.ndim)
        elif kind is int:
            words.append(value)
            kinds.append(int)
        elif kind is float:
            words.append(_WORD.unpack(_DOUBLE.pack(value))[0])
            kinds.append(float)
        elif value is None:
            kinds.append(None)
        elif isinstance(value, tuple):
            kinds.append(kind if kind is not tuple else -len(value))
            _append(value, words, kinds)
        elif isinstance(value, np.generic):
            _append((value.item(),), words, kinds)
        elif kind is bool:
            words.append(int(value))
            kinds.append(bool)
        else:
            raise TypeError(f"compiled code cannot read a {kind.__name__}")


def data_address(value: np.ndarray) -> int:
    """The address of an array's numbers, in a tenth of the time of ``value.ctypes.data``."""
    return ctypes.c_int64.from_address(id(value) + _HEAD).value


def described(value: Any) -> str:
    """The type of an argument, or of a tuple of arguments, such as ``(float64[2],int,package.module:Record(int))``."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}[{value.ndim}]"
    if isinstance(value, tuple):
        name = "" if type(value) is tuple else f"{type(value).__module__}:{type(value).__qualname__}"
        return f"{name}({','.join(map(described, value))})"
    if value is None:
        return "none"
    kinds = {"bool": (bool, np.bool_), "int": (int, np.integer), "float": (float, np.floating)}
    return next(name for name, types in kinds.items() if isinstance(value, types))


# A kernel returns what it returned: a number that starts with 1, and has a digit to the base 4 for each result.
INTEGER, REAL, BOOLEAN = 1, 2, 3
NOTHING, IS_TUPLE = 1, 1 << 32


def _results(code: int, row: array[int]) -> Any:
    """Results of a call, from what the kernel returned."""
    if code == NOTHING:
        return None
    if code == 0:
        raise MemoryError("compiled code found no room for an array")
    found = []
    for k, kind in enumerate(_digits(code & (IS_TUPLE - 1))):
        word = row[k]
        found.append(
            word if kind == INTEGER else _DOUBLE.unpack(_WORD.pack(word))[0] if kind == REAL else bool(word)
        )
    return tuple(found) if code & IS_TUPLE else found[0]


@cache
def _digits(code: int) -> tuple[int, ...]:
    """Digits of a number to the base 4 without its first, the last first."""
    found = []
    while code > 1:
        found.append(code % 4)
        code //= 4
    return tuple(found)


# -- names -------------------------------------------------------------------------------------------


@cache
def source_digest(path: Path) -> str:
    """Hash of a source file, of the files beside it, which may register implementations, and of all their imports."""
    waiting = sorted(path.parent.glob("*.py")) if path.is_relative_to(_SOURCE / "partwise") else [path]
    seen = set(waiting)
    digest = hashlib.blake2b(digest_size=16)
    while waiting:
        hashed, imported = _source(waiting.pop())
        digest.update(hashed)
        for found in imported:
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return digest.hexdigest()


@cache
def _source(path: Path) -> tuple[bytes, list[Path]]:
    """Hash of one source file, and the files of partwise that it imports from."""
    text, imported = path.read_bytes(), []
    for name in sorted(set(_IMPORT.findall(text))):
        module = _SOURCE.joinpath(*name.decode().split("."))
        imported += [each for each in (module.with_suffix(".py"), module / "__init__.py") if each.is_file()]
    return hashlib.blake2b(text, digest_size=16).digest(), imported
