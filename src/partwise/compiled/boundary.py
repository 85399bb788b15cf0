# mypy: ignore-errors
"""The boundary between passes, structures and rows: functions called by their address, over flat arrays.

A pass is compiled once and serves every structure, because all it knows of one is the addresses of a few compiled
functions. What these need is handed over as *records*, NamedTuples of numbers and arrays, each written as a row
of integers (:func:`pack`): numbers as they are, arrays as address and shape. :func:`load_record` reads them back.

Without compilation (``NUMBA_DISABLE_JIT``) an address is the object itself: a function, a record, or an array from
the given entry on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.ccallback import CFunc
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from partwise.compiled.cache_folder import kept_on_disk
from partwise.compiled.dispatch import IS_OFF, OPTIONS, fragment, stamp_of

# Arrays in records; the last number counts dimensions.
Reals = Annotated[np.ndarray, np.float64, 1]
RealMatrix = Annotated[np.ndarray, np.float64, 2]
Singles = Annotated[np.ndarray, np.float32, 1]
SingleMatrix = Annotated[np.ndarray, np.float32, 2]
Integers = Annotated[np.ndarray, np.int64, 1]
IntegerMatrix = Annotated[np.ndarray, np.int64, 2]
ShortIntegers = Annotated[np.ndarray, np.int32, 1]

_WORD = ir.IntType(64)


@cache
def _fields(record: type) -> tuple[tuple[str, Any, int], ...]:
    """Name, type of number and number of dimensions of each field; a plain number has dimension 0."""
    found = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        if hint in (int, float, bool):
            found.append((name, hint, 0))
        else:
            _, dtype, dimensions = get_args(hint)
            found.append((name, np.dtype(dtype), dimensions))
    return tuple(found)


def pack(record: NamedTuple) -> Any:
    """The record as a row of integers; whoever holds it must hold the record, too."""
    if IS_OFF:
        return record
    words: list[int] = []
    for (name, kind, dimensions), value in zip(_fields(type(record)), record, strict=True):
        if dimensions == 0:
            words.append(int(np.float64(value).view(np.int64)) if kind is float else int(value))
            continue
        if value.dtype != kind or value.ndim != dimensions or not value.flags.c_contiguous:
            raise TypeError(f"{type(record).__name__}.{name} must be {kind}, {dimensions} axes, contiguous")
        words += [value.ctypes.data, *value.shape]
    return np.array(words, np.int64)


def array_address(array: np.ndarray) -> Any:
    """What a record holds of an array whose type only the reader knows."""
    return array if IS_OFF else array.ctypes.data


def addresses(functions: list[Any]) -> Any:
    """Where compiled functions (see :class:`Addressed`) lie."""
    if IS_OFF:
        return [function.__wrapped__ for function in functions]
    return np.array([each.address for each in functions], np.int64)


def stack_packed(records: list[Any]) -> Any:
    """Packed records of one class as the rows of a matrix."""
    return records if IS_OFF else np.stack(records)


# -- in compiled code --------------------------------------------------------------------------------


def _array(context: Any, builder: Any, array_type: Any, address: Any, shape: list[Any]) -> Any:
    """An array over memory that somebody else owns."""
    array, element = make_array(array_type)(context, builder), context.get_data_type(array_type.dtype)
    item = context.get_constant(types.intp, context.get_abi_sizeof(element))
    strides, stride = [], item
    for size in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, size)
    populate_array(
        array,
        data=builder.inttoptr(address, element.as_pointer()),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=item,
        meminfo=None,
    )
    return array._getvalue()


@intrinsic
def _load_record(typing, record, address):
    fields = _fields(record.instance_class)
    plain = {int: types.int64, float: types.float64, bool: types.boolean}
    field_types = [
        plain[kind] if dimensions == 0 else types.Array(from_dtype(kind), dimensions, "C")
        for _, kind, dimensions in fields
    ]
    record_type = types.BaseTuple.from_types(field_types, record.instance_class)

    def emit(context, builder, signature, arguments):
        base, at = builder.inttoptr(arguments[1], _WORD.as_pointer()), 0

        def next_word():
            nonlocal at
            at += 1
            return builder.load(builder.gep(base, [ir.Constant(_WORD, at - 1)]))

        values = []
        for (_, kind, dimensions), field_type in zip(fields, field_types, strict=True):
            word = next_word()
            if dimensions:
                shape = [next_word() for _ in range(dimensions)]
                values.append(_array(context, builder, field_type, word, shape))
            elif kind is bool:
                values.append(builder.icmp_unsigned("!=", word, ir.Constant(_WORD, 0)))
            else:
                values.append(builder.bitcast(word, ir.DoubleType()) if kind is float else word)
        return context.make_tuple(builder, record_type, values)

    return record_type(record, types.int64), emit


@intrinsic
def _array_at(typing, dtype, address, size):
    array_type = types.Array(dtype.dtype, 1, "C")

    def emit(context, builder, signature, arguments):
        return _array(context, builder, array_type, arguments[1], [arguments[2]])

    return array_type(dtype, types.int64, types.int64), emit


@intrinsic
def _address_of(typing, array, index):
    def emit(context, builder, signature, arguments):
        data = make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), _WORD)

    return types.int64(array, types.int64), emit


@intrinsic
def _row_address(typing, matrix, row):
    def emit(context, builder, signature, arguments):
        array = make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        return builder.add(builder.ptrtoint(array.data, _WORD), builder.mul(stride, arguments[1]))

    return types.int64(matrix, types.int64), emit


@intrinsic
def _call_address(typing, address, arguments):
    def emit(context, builder, signature, values):
        handed_over = cgutils.unpack_tuple(builder, values[1])
        function = ir.FunctionType(ir.DoubleType(), [value.type for value in handed_over])
        return builder.call(builder.inttoptr(values[0], function.as_pointer()), handed_over)

    return types.float64(types.int64, arguments), emit


if not IS_OFF:
    load_record, array_at, address_of = _load_record, _array_at, _address_of
    row_address, call_address = _row_address, _call_address

    @fragment
    def record_address(words):  # type: ignore
        return _address_of(words, 0)

else:

    def record_address(words):
        """Address of a packed record."""
        return words

    def load_record(record, address):
        """The record of this class whose packed form begins at `address`."""
        return address

    def array_at(dtype, address, size):
        """The array of `size` numbers of this type at `address`."""
        return address[:size]

    def address_of(array, index):
        """Address of an entry of an array with one axis."""
        return array[index:]

    def row_address(matrix, row):
        """Address of a row of a matrix."""
        return matrix[row]

    def call_address(address, arguments):
        """Call the function at `address` with a tuple of integers and floats; it returns a float."""
        return address(*arguments)


class _NotCached(Exception):
    """A function that was only to be loaded is not on disk."""


class Addressed(CFunc):
    """A function that compiled code calls by its `address`; cached on disk.

    Parameters
    ----------
    function : callable
    arguments : str
        A letter for each argument: i for integers and addresses, d for double precision. It returns a double.
    """

    def __init__(self, function: Callable, arguments: str):
        letters = {"i": types.int64, "d": types.float64}
        signature = tuple(letters[letter] for letter in arguments), types.float64
        super().__init__(function, signature, locals={}, options={"nopython": True, "_nrt": False, **OPTIONS})
        self._is_only_loaded = False
        kept_on_disk(self._with_cache, stamp_of(function))

    def _with_cache(self, wanted: bool) -> Addressed:
        if wanted:
            self.enable_caching()
        return self

    def is_cached(self) -> bool:
        """Whether the function was on disk; it is loaded then."""
        self._is_only_loaded = True
        try:
            self.compile()
        except _NotCached:
            return False
        finally:
            self._is_only_loaded = False
        return True

    def _compile_uncached(self) -> Any:
        if self._is_only_loaded:
            raise _NotCached
        return super()._compile_uncached()
