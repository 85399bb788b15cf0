"""Model files: JSON header and raw arrays in one safetensors file; nothing in it can execute.

A file holds the arrays, and in its metadata four strings: the format's name, its version, the header as JSON
and a checksum of header and arrays. Long lists of strings (vocabularies) are stored as arrays of UTF-8.
Loading reads the file into memory, so that nothing done to it later matters, and checks everything in it.
Saving loads what it is about to write, and writes nothing that would not load.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from hashlib import blake2b
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np

from partwise.errors import InputError, MissingFileError
from partwise.storage.atomic import writable_target, write_atomically
from partwise.storage.checks import expect_header
from partwise.storage.header import is_packed, plain, restored

FORMAT = "partwise"
VERSION = 1
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_LARGEST_JSON = 100_000_000  # safetensors' own limit on all it calls header
# Errors that code which rebuilds an estimator can raise if its values make no sense together.
_NONSENSE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip


def save_model(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    path : path
    header : dict
        JSON values; also NumPy scalars, and inf and nan. ``header["estimator"]`` names the class.
    arrays : dict of str to ndarray
        Numbers or booleans.
    """
    front, payload = _packed(header, arrays, path)
    _write(path, front, payload)


def save_estimator(
    path: str | os.PathLike[str], estimator: Any, record: Mapping[str, Any] | None = None
) -> None:
    """Save a fitted estimator, after loading what will be written.

    Parameters
    ----------
    record : dict or None
        More entries of the header.
    """
    writable_target(path)
    _write(path, *_checked(estimator, record, path))


def estimator_as_bytes(estimator: Any) -> bytes:
    """The bytes of the file that saving a fitted estimator would write."""
    return b"".join(_checked(estimator, None, None))


def estimator_of_bytes(data: bytes) -> Any:
    """The estimator whose file has these bytes."""
    try:
        header, arrays = _read(*_container(np.frombuffer(bytearray(data), np.uint8)))
    except InputError:
        raise
    except _NONSENSE as error:
        raise InputError(f"damaged model file ({type(error).__name__})") from None
    return estimator_from(header, arrays)


def _checked(estimator: Any, record: Mapping[str, Any] | None, path: object) -> tuple[bytes, memoryview]:
    """The bytes of a model file that has been loaded once."""
    header, arrays = estimator._state()
    front, payload = _packed({**header, **(record or {})}, arrays, path)
    try:
        whole = np.frombuffer(bytearray(front) + payload, np.uint8)
        estimator_from(*_read(*_container(whole)))
    except InputError as error:
        reason = str(error).removeprefix("damaged model file: ")
        raise InputError(
            f"this model cannot be saved, as it could not be loaded again: {reason}", path
        ) from None
    return front, payload


def check_header(names: Any) -> None:
    """Raise if names that a model will hold, as JSON values, are too long for the header of a file."""
    text = json.dumps(plain({"names": names}, {}), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    size = len(json.dumps(text))  # the header is a string within JSON
    if size > _LARGEST_JSON:
        raise InputError(
            f"the names of attributes take {size / 1e6:,.0f} MB, and a model file has room for "
            f"{_LARGEST_JSON / 1e6:,.0f} MB of them: raise --min-count, or shorten them"
        )


def size_of(estimator: Any) -> int:
    """Bytes of the file that saving a fitted estimator would write."""
    header, arrays = estimator._state()
    front, payload = _packed(header, arrays, "")
    return len(front) + len(payload)


def _packed(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: object
) -> tuple[bytes, memoryview]:
    """The bytes of a model file: what safetensors calls header, and the arrays."""
    from safetensors.numpy import save

    packed: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        packed[name] = np.ascontiguousarray(array)
        if packed[name].dtype.newbyteorder("<").str not in _DTYPE_CODES:
            raise InputError(f"array {name!r} has dtype {array.dtype}, which a model file cannot hold")
    text = json.dumps(plain(header, packed), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "header": text,
        "checksum": _checksum(text, packed),
    }
    front, payload = _in_order(save(packed, metadata))
    if len(front) > _LARGEST_JSON:
        raise InputError("the header of this model is larger than a model file can hold", path)
    return front, payload


def _write(path: str | os.PathLike[str], front: bytes, payload: memoryview) -> None:
    def write(handle: BinaryIO) -> None:
        handle.write(front)
        handle.write(payload)

    write_atomically(path, write)


def load_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a model file back; also one of another program, if a task can read those.

    Returns
    -------
    header : dict
    arrays : dict of str to ndarray
        Views of a copy of the file in memory.
    """
    try:
        whole = _bytes_of(path)
        foreign = import_module("partwise.tasks").foreign_reader(whole[:64].tobytes())  # by name, as below
        header, arrays = _read(*_container(whole)) if foreign is None else foreign(whole.tobytes())
    except InputError as error:
        raise InputError(str(error), path) from None
    except FileNotFoundError:
        raise MissingFileError("no such file", path) from None
    except IsADirectoryError:
        raise InputError("this is a directory; a model file is needed", path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path) from None
    except _NONSENSE as error:
        raise InputError(f"damaged model file ({type(error).__name__})", path) from None
    return header, arrays


def load(path: str | os.PathLike[str]) -> Any:
    """Load the estimator that ``save`` wrote. Models of CRFsuite load as a :class:`~partwise.CRF`.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        Of the class that was saved.
    """
    return estimator_from(*load_model(path), path)


def estimator_from(header: dict[str, Any], arrays: dict[str, np.ndarray], path: object = None) -> Any:
    """Rebuild the estimator that a header and arrays describe, checking that they fit together."""
    tasks = import_module("partwise.tasks")  # by name: tasks stand on storage
    name, known = header.get("estimator"), tasks.estimator_names(drop_ins=True)
    if name not in known:
        raise InputError(f"holds a model of unknown kind {name!r:.40}; known are {', '.join(known)}", path)
    estimator = tasks.estimator_class(name)
    try:
        expect_header(header)
        return estimator._from_state(header, arrays)
    except InputError as error:
        raise InputError(f"damaged model file: {error}", path) from None
    except _NONSENSE as error:
        detail = f"{type(error).__name__}: {error}"
        raise InputError(f"damaged model file: its parts do not fit together ({detail:.120})", path) from None


def _in_order(data: bytes) -> tuple[bytes, memoryview]:
    """The bytes that safetensors wrote, with metadata in a fixed order, so that equal models are equal files."""
    end = 8 + int.from_bytes(data[:8], "little")
    text = json.dumps(json.loads(data[8:end]), sort_keys=True, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, memoryview(data)[end:]


# -- opening: bytes to metadata and raw arrays ---------------------------------------------------


def _bytes_of(path: str | os.PathLike[str]) -> np.ndarray:
    """The file in memory. A map of it would end the process when another one cuts the file short."""
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise InputError("a model must be an ordinary file")
    with open(path, "rb", buffering=0) as handle:
        whole = np.fromfile(handle, np.uint8, os.fstat(handle.fileno()).st_size)
    if not len(whole):
        raise InputError("this file is empty; a model file is needed")
    return whole


def _container(whole: np.ndarray) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays of a safetensors file: arrays lie one after another and fill it to its end."""
    length = int.from_bytes(whole[:8].tobytes(), "little")
    if not 0 < length <= min(_LARGEST_JSON, len(whole) - 8):
        raise InputError("not a model file, or a damaged one (its header does not fit in it)")
    try:
        front = json.loads(whole[8 : 8 + length].tobytes().decode("utf-8"))
        metadata = front.pop("__metadata__", {})
        entries = {
            name: (each["dtype"], each["shape"], *each["data_offsets"]) for name, each in front.items()
        }
        ordered = sorted(entries.items(), key=lambda item: item[1][2:])
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"not a model file, or a damaged one ({type(error).__name__} in its header)"
        ) from None
    if not isinstance(metadata, dict) or not all(isinstance(each, str) for each in metadata.values()):
        raise InputError("not a model file, or a damaged one (its metadata are not strings)")
    return metadata, _views(whole[8 + length :], ordered)


def _views(data: np.ndarray, entries: list[tuple[str, tuple[Any, ...]]]) -> dict[str, np.ndarray]:
    offset, views = 0, {}
    for name, (code, shape, begin, end) in entries:
        if not isinstance(code, str) or code not in _DTYPES:
            raise InputError(f"array {name!r:.40} is of type {code!r:.40}, which models do not use")
        whole_numbers = isinstance(shape, list) and all(type(n) is int for n in (*shape, begin, end))
        if not whole_numbers or len(shape) > 8 or not all(0 <= n < 2**40 for n in shape):
            raise InputError(f"not a model file, or a damaged one (array {name!r:.40} has no proper shape)")
        dtype = np.dtype(_DTYPES[code])
        if begin != offset or end != begin + dtype.itemsize * math.prod(shape) or end > len(data):
            raise InputError(
                f"not a model file, or a damaged one (array {name!r:.40} does not fit in the file)"
            )
        view = data[begin:end].view(dtype).reshape(shape)
        # Compiled code reads aligned arrays; safetensors aligns what it writes, others may not.
        views[name] = view if view.flags.aligned else view.copy()
        if code == "BOOL" and (data[begin:end] > 1).any():
            raise InputError(f"array {name!r:.40} holds bytes that are neither true nor false")
        offset = end
    if offset != len(data):
        raise InputError("not a model file, or a damaged one (bytes after its last array)")
    return views


# -- reading: metadata to header -----------------------------------------------------------------


def _read(
    metadata: dict[str, str], stored: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if metadata.get("format") != FORMAT:
        raise InputError("this is a safetensors file, but no partwise model")
    version = metadata.get("version", "")
    if not (version.isascii() and version.isdigit() and len(version) < 10 and int(version) > 0):
        raise InputError(f"damaged model file: {version!r:.20} is no version")
    if int(version) > VERSION:
        versions = f"file version {version}, this one reads up to {VERSION}"
        raise InputError(f"made by a newer partwise ({versions}): upgrade partwise")
    text = metadata.get("header", "")
    if metadata.get("checksum") != _checksum(text, stored):
        raise InputError("damaged model file: its checksum does not match its contents")
    try:
        header = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"damaged model file: its header is not JSON ({reason:.100})") from None
    if not isinstance(header, dict):
        raise InputError("damaged model file: its header is not a JSON object")
    remaining = dict(stored)
    header = restored(header, remaining)
    return header, {name: array for name, array in remaining.items() if not is_packed(name)}


def _checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        kind = array.dtype.newbyteorder("<").str
        digest.update(f"\0{name}\0{kind}\0{array.shape}\0".encode("utf-8", "surrogatepass"))
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


_DTYPE_CODES = {np.dtype(text).newbyteorder("<").str for text in _DTYPES.values()}


def _refuse(name: str) -> Any:
    raise InputError(f"{name} is not JSON")
