# mypy: ignore-errors
"""Calls between compiled functions by address, and the records that they pass.

A pass is compiled once and serves every structure: it calls the structure's compiled functions by address. Their
arguments are *records*, NamedTuples of numbers and arrays. :func:`pack` writes a record as a row of 64-bit words: a
number as its bits, an array as its address and shape. :func:`load_record` reads it in compiled code.

Without compilation (``NUMBA_DISABLE_JIT``) an address is the object itself: a function, a record, or a view of an array
that starts at the entry.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np

from partwise.compiled.dispatch import cgutils, fragment, intrinsic, ir, types
from partwise.compiled.kernels import (
    BOOLEAN,
    INTEGER,
    IS_OFF,
    IS_TUPLE,
    N_RESULTS,
    NOTHING,
    REAL,
    data_address,
)

# Types of arrays in records: number type and number of axes.
Reals = Annotated[np.ndarray, np.float64, 1]
RealMatrix = Annotated[np.ndarray, np.float64, 2]
Singles = Annotated[np.ndarray, np.float32, 1]
SingleMatrix = Annotated[np.ndarray, np.float32, 2]
Integers = Annotated[np.ndarray, np.int64, 1]
IntegerMatrix = Annotated[np.ndarray, np.int64, 2]
ShortIntegers = Annotated[np.ndarray, np.int32, 1]


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
        words += [data_address(value), *value.shape]
    return np.array(words, np.int64)


def array_address(array: np.ndarray) -> Any:
    """The address of an array, as a field of a record whose reader knows the array's type."""
    return array if IS_OFF else data_address(array)


def addresses(functions: list[Any]) -> Any:
    """Addresses of compiled functions (:class:`Addressed`), int64 (n,)."""
    if IS_OFF:
        return [function.__wrapped__ for function in functions]
    return np.array([each.address for each in functions], np.int64)


def stack_packed(records: list[Any]) -> Any:
    """Packed records of one class as the rows of a matrix."""
    return records if IS_OFF else np.stack(records)


# -- in compiled code --------------------------------------------------------------------------------


def _word() -> Any:
    return ir.IntType(64)


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


class _Words:
    """Reads one word after another from an address."""

    def __init__(self, builder: Any, address: Any):
        self.builder, self.at = builder, 0
        self.base = builder.inttoptr(address, _word().as_pointer())

    def next(self) -> Any:
        self.at += 1
        return self.builder.load(self.builder.gep(self.base, [ir.Constant(_word(), self.at - 1)]))


def _number(context: Any, builder: Any, kind: Any, word: Any) -> Any:
    if isinstance(kind, types.Boolean):
        return builder.icmp_unsigned("!=", word, ir.Constant(_word(), 0))
    return builder.bitcast(word, ir.DoubleType()) if isinstance(kind, types.Float) else word


@intrinsic
def _load_record(typing, record, address):
    from numba import from_dtype

    fields = _fields(record.instance_class)
    plain = {int: types.int64, float: types.float64, bool: types.boolean}
    field_types = [
        plain[kind] if dimensions == 0 else types.Array(from_dtype(kind), dimensions, "C")
        for _, kind, dimensions in fields
    ]
    record_type = types.BaseTuple.from_types(field_types, record.instance_class)

    def emit(context, builder, signature, arguments):
        words, values = _Words(builder, arguments[1]), []
        for (_, _, dimensions), kind in zip(fields, field_types, strict=True):
            word = words.next()
            if dimensions:
                values.append(_array(context, builder, kind, word, [words.next() for _ in range(dimensions)]))
            else:
                values.append(_number(context, builder, kind, word))
        return context.make_tuple(builder, record_type, values)

    return record_type(record, types.int64), emit


def argument_loader(argument_types: Any) -> Any:
    """An intrinsic that reads the arguments of a kernel, as a tuple, from the address of its row of words."""
    from numba.extending import intrinsic as known_intrinsic

    arguments_type = types.Tuple(argument_types)

    def value(context: Any, builder: Any, kind: Any, words: _Words) -> Any:
        if isinstance(kind, types.NoneType):
            return context.get_dummy_value()
        if isinstance(kind, types.BaseTuple):
            return context.make_tuple(builder, kind, [value(context, builder, each, words) for each in kind])
        word = words.next()
        if not isinstance(kind, types.Array):
            return _number(context, builder, kind, word)
        # NumPy's array object: its address, its number of axes in a word of its own, the address of its shape.
        fields = _Words(builder, word)
        data, _, shape = fields.next(), fields.next(), _Words(builder, fields.next())
        return _array(context, builder, kind, data, [shape.next() for _ in range(kind.ndim)])

    @known_intrinsic
    def load(typing, address):
        def emit(context, builder, signature, arguments):
            words = _Words(builder, arguments[0])
            words.at = N_RESULTS
            return value(context, builder, arguments_type, words)

        return arguments_type(types.int64), emit

    return load


@intrinsic
def result_writer(typing, address, result):
    """Write the results of a kernel to its row of words. Returns what `kernels.py` reads them by."""
    is_tuple = isinstance(result, types.BaseTuple)
    kinds = list(result) if is_tuple else [] if isinstance(result, types.NoneType) else [result]

    def emit(context, builder, signature, arguments):
        place, code = builder.inttoptr(arguments[0], _word().as_pointer()), NOTHING
        for k, kind in reversed(list(enumerate(kinds))):
            found = builder.extract_value(arguments[1], k) if is_tuple else arguments[1]
            is_real, is_boolean = isinstance(kind, types.Float), isinstance(kind, types.Boolean)
            own = types.float64 if is_real else types.int64
            found = context.cast(builder, found, types.unliteral(kind), own)
            word = builder.bitcast(found, _word())
            builder.store(word, builder.gep(place, [ir.Constant(_word(), k)]))
            code = 4 * code + (REAL if is_real else BOOLEAN if is_boolean else INTEGER)
        return ir.Constant(_word(), code | (IS_TUPLE if is_tuple else 0))

    return types.int64(types.int64, result), emit


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
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), _word())

    return types.int64(array, types.int64), emit


@intrinsic
def _row_address(typing, matrix, row):
    def emit(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        return builder.add(builder.ptrtoint(array.data, _word()), builder.mul(stride, arguments[1]))

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
