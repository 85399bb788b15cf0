# mypy: ignore-errors
"""Calls between compiled functions by address, and the records that they pass.

A pass is compiled once and serves every structure: it calls the structure's compiled functions by address. Their
arguments are *records*, NamedTuples of numbers and arrays. :func:`pack` writes a record as a row of 64-bit words: a
number as its bits, an array as its address and shape. :func:`load_record` reads it in compiled code.

Without compilation (``NUMBA_DISABLE_JIT``) an address is the object itself: a function, a record, or a view of an array
that starts at the entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic

from partwise.compiled.cache_folder import kept_on_disk
from partwise.compiled.dispatch import IS_OFF, OPTIONS, fragment, stamp_of
from partwise.compiled.numba_hooks import callback, private_options

# Types of arrays in records: number type and number of axes.
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
    """Name, number type and number of axes of each field. A plain number has no axis."""
    found = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        if hint in (int, float, bool):
            found.append((name, hint, 0))
        else:
            _, dtype, dimensions = get_args(hint)
            found.append((name, np.dtype(dtype), dimensions))
    return tuple(found)


def pack(record: NamedTuple) -> Any:
    """The record as a row of 64-bit words. The caller must keep the record alive as long as the row."""
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
    """The address of an array, as a field of a record whose reader knows the array's type."""
    return array if IS_OFF else array.ctypes.data


def addresses(functions: list[Any]) -> Any:
    """Addresses of compiled functions (:class:`Addressed`), int64 (n,)."""
    if IS_OFF:
        return [function.__wrapped__ for function in functions]
    return np.array([each.address for each in functions], np.int64)


def stack_packed(records: list[Any]) -> Any:
    """Packed records of one class as the rows of a matrix."""
    return records if IS_OFF else np.stack(records)


# -- in compiled code --------------------------------------------------------------------------------


def _array(context: Any, builder: Any, array_type: Any, address: Any, shape: list[Any]) -> Any:
    """An array over memory that the caller owns."""
    array, element = context.make_array(array_type)(context, builder), context.get_data_type(array_type.dtype)
    item = context.get_constant(types.intp, context.get_abi_sizeof(element))
    strides, stride, n_items = [], item, context.get_constant(types.intp, 1)
    for size in reversed(shape):
        strides.insert(0, stride)
        stride, n_items = builder.mul(stride, size), builder.mul(n_items, size)
    array.data = builder.inttoptr(address, element.as_pointer())
    array.shape, array.strides = cgutils.pack_array(builder, shape), cgutils.pack_array(builder, strides)
    array.itemsize, array.nitems = item, n_items
    array.meminfo, array.parent = (
        cgutils.get_null_value(each.type) for each in (array.meminfo, array.parent)
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
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), _WORD)

    return types.int64(array, types.int64), emit


@intrinsic
def _row_address(typing, matrix, row):
    def emit(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
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
        """The address of a packed record."""
        return words

    def load_record(record, address):
        """The record of class `record` at `address`."""
        return address

    def array_at(dtype, address, size):
        """The array of `size` numbers of type `dtype` at `address`."""
        return address[:size]

    def address_of(array, index):
        """The address of entry `index` of an array with one axis."""
        return array[index:]

    def row_address(matrix, row):
        """The address of a row of a matrix."""
        return matrix[row]

    def call_address(address, arguments):
        """Call the function at `address` with a tuple of integers and floats. It returns a float."""
        return address(*arguments)


class Addressed:
    """A function that compiled code calls by its `address`; cached on disk.

    Parameters
    ----------
    function : callable
    arguments : str
        A letter for each argument: i for integers and addresses, d for double precision. It returns a double.
    """

    def __init__(self, function: Callable, arguments: str):
        self.__wrapped__ = function
        letters = {"i": types.int64, "d": types.float64}
        signature = types.float64(*(letters[letter] for letter in arguments))
        options = {**private_options(_nrt=False), **OPTIONS}
        self._callback = kept_on_disk(
            lambda cached: callback(function, signature, options, cached), stamp_of(function)
        )

    def compile(self) -> None:
        """Compile the function, or load it from disk."""
        self._callback.compile()

    def is_cached(self) -> bool:
        """Whether the function was on disk; it is loaded then."""
        return self._callback.load()

    @property
    def address(self) -> int:
        return self._callback.address

    @property
    def cache_hits(self) -> int:
        """1 if the function was loaded from disk, 0 if it was compiled."""
        return self._callback.cache_hits
