"""Folders of raw arrays with one JSON header, for data that are larger than memory; nothing in them can execute.

A folder holds `dataset.json`, which says of every array its type, shape and checksum, and one file of raw numbers for
each array. It is written under another name and renamed when it is whole, so that what has the right name is whole;
what killed processes left behind is removed by the next one that writes beside it. Opening it checks names, sizes and
types, follows no links, and reads no array.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.storage.atomic import UNFINISHED, lock, sync_folder
from partwise.storage.header import is_packed, plain, restored

HEADER, LOCK = "dataset.json", ".lock"
FORMAT, VERSION = "partwise-dataset", 1
_DTYPES = ("<f8", "<f4", "<i8", "<i4", "<u4", "<u2", "|u1", "|b1")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,99}")
_SCRATCH = ".scratch"
_LARGEST_HEADER = 50_000_000
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class ArrayFile:
    """An array that is written piece by piece.

    Parameters
    ----------
    dtype : dtype
        To which all that is written must fit.
    width : int or None
        Columns of a matrix, which is written some rows at a time.
    """

    def __init__(self, folder: Path, name: str, dtype: Any, width: int | None = None):
        self.path, self.dtype, self.width, self.n = folder / name, np.dtype(dtype), width, 0
        self._handle = open(self.path, "xb", buffering=1 << 20)  # noqa: SIM115  closed by `close`
        self._digest = blake2b(digest_size=16)

    def write(self, array: np.ndarray) -> None:
        """Append numbers, or rows (n, width) of a matrix."""
        data = np.ascontiguousarray(array, self.dtype).reshape(-1).view(np.uint8).data
        self._handle.write(data)
        self._digest.update(data)
        self.n += len(array)

    def close(self) -> dict[str, Any]:
        """Its entry in the header."""
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self._handle.close()
        shape = [self.n] if self.width is None else [self.n, self.width]
        return {"dtype": self.dtype.str, "shape": shape, "checksum": self._digest.hexdigest()}


class FolderWriter:
    """A folder that is being written; made by :func:`writing_folder`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._files: dict[str, ArrayFile] = {}

    def array(self, name: str, dtype: Any, width: int | None = None) -> ArrayFile:
        """A new array, to be written piece by piece."""
        self._files[name] = ArrayFile(self.folder, name, np.dtype(dtype).newbyteorder("<"), width)
        return self._files[name]

    def scratch(self) -> Path:
        """A folder within for what is not to stay."""
        folder = self.folder / _SCRATCH
        folder.mkdir(exist_ok=True)
        return folder

    def finish(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Write the header, and small arrays at once; long lists of strings in the header become arrays, too."""
        shutil.rmtree(self.folder / _SCRATCH, ignore_errors=True)
        small = dict(arrays)
        entries = plain(header, small)
        shapes = {}
        for name, array in small.items():
            kind = array.dtype.newbyteorder("<") if array.dtype.str not in _DTYPES else array.dtype
            self.array(name, kind).write(array.reshape(-1))
            shapes[name] = list(array.shape)
        listed = {name: file.close() for name, file in self._files.items()}
        for name, shape in shapes.items():
            listed[name]["shape"] = shape
        text = json.dumps({"header": entries, "arrays": listed}, sort_keys=True, allow_nan=False)
        whole = {"format": FORMAT, "version": VERSION, "checksum": _checksum(text), "content": text}
        with open(self.folder / HEADER, "x", encoding="ascii") as handle:
            json.dump(whole, handle)
            handle.flush()
            os.fsync(handle.fileno())


@contextlib.contextmanager
def writing_folder(path: str | os.PathLike[str]) -> Iterator[FolderWriter]:
    """Within, a folder under another name; at the end, if `finish` was called, it takes the name `path`."""
    target = folder_target(path)
    remove_abandoned(target.parent)
    unfinished = target.parent / f".{target.name[:40]}.{secrets.token_hex(6)}{UNFINISHED}"
    descriptor = -1
    try:
        os.mkdir(unfinished)
        descriptor = os.open(unfinished / LOCK, os.O_CREAT | os.O_RDWR, 0o666)
        lock(descriptor)
        yield FolderWriter(unfinished)
        sync_folder(unfinished)
        os.rename(unfinished, target)
        (target / LOCK).unlink()
        sync_folder(target.parent)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", path) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if descriptor >= 0:
            os.close(descriptor)


def folder_target(path: str | os.PathLike[str]) -> Path:
    """The path of a folder to be made. Raises an error with the reason if it cannot be made there."""
    target = Path(os.path.abspath(os.fspath(path)))
    if os.path.lexists(target):
        raise InputError("already exists: remove it first, or choose another name", path)
    if not target.parent.is_dir():
        raise InputError(f"cannot write here: there is no directory {str(target.parent)!r:.200}", path)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError("cannot write here: the directory is read-only", path)
    return target


def remove_abandoned(parent: Path) -> None:
    """Remove the unfinished folders that nobody is writing any more."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(parent):
            if not entry.name.endswith(UNFINISHED) or not entry.is_dir(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError):
                descriptor = os.open(os.path.join(entry.path, LOCK), os.O_RDWR | _NO_LINKS)
                try:
                    if lock(descriptor, wait=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                finally:
                    os.close(descriptor)


# -- reading ---------------------------------------------------------------------------------------


class StoredArray(NamedTuple):
    """An array of a folder, not read yet; the file is as large as the array is."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    checksum: str


class Folder:
    """A folder that :func:`writing_folder` wrote.

    Attributes
    ----------
    path : str
    header : dict
    arrays : dict of StoredArray
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        try:
            content = _content(_read(self.path))
            self.arrays = {name: _described(name, each) for name, each in content["arrays"].items()}
            for each in self.arrays.values():
                os.close(self.open(each.name))
            strings = {name: self.read(name) for name in list(self.arrays) if is_packed(name)}
            self.header = restored(content["header"], strings)
            if not isinstance(self.header, dict):
                raise InputError("its header is not a JSON object")
        except InputError as error:
            raise InputError(f"damaged dataset: {error.message}", path) from None
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror or error})", path) from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(f"damaged dataset ({type(error).__name__} in its header)", path) from None

    def open(self, name: str) -> int:
        """A descriptor of the file of an array, which has the size it must have."""
        stored = self.arrays[name]
        try:
            descriptor = os.open(os.path.join(self.path, name), os.O_RDONLY | _NO_LINKS)
        except OSError as error:
            raise InputError(f"array {name!r} cannot be read ({error.strerror or error})") from None
        found = os.fstat(descriptor)
        wanted = stored.dtype.itemsize * math.prod(stored.shape)
        if stat.S_ISREG(found.st_mode) and found.st_size == wanted:
            return descriptor
        os.close(descriptor)
        what = f"{found.st_size} bytes, not {wanted}" if stat.S_ISREG(found.st_mode) else "no ordinary file"
        raise InputError(f"the file of array {name!r} is {what}")

    def read(self, name: str) -> np.ndarray:
        """A whole array in memory, its checksum compared."""
        stored = self.arrays[name]
        with open(self.open(name), "rb", buffering=0) as handle:
            flat = np.fromfile(handle, stored.dtype, math.prod(stored.shape))
        if len(flat) != math.prod(stored.shape) or digest_of(flat) != stored.checksum:
            raise InputError(f"the checksum of array {name!r} does not match its contents")
        return flat.reshape(stored.shape)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether this is a folder with a dataset, be it damaged."""
    return os.path.isfile(os.path.join(path, HEADER))


def digest_of(array: np.ndarray) -> str:
    """The checksum of an array's bytes."""
    return blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()


def _checksum(text: str) -> str:
    return blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def _read(path: str) -> bytes:
    if not os.path.isdir(path):
        raise InputError("this is no directory" if os.path.lexists(path) else "no such directory")
    try:
        descriptor = os.open(os.path.join(path, HEADER), os.O_RDONLY | _NO_LINKS)
    except FileNotFoundError:
        raise InputError(f"there is no {HEADER} in this directory") from None
    except OSError as error:
        raise InputError(f"{HEADER} cannot be read ({error.strerror or error})") from None
    with open(descriptor, "rb") as handle:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_HEADER:
            raise InputError(f"{HEADER} is no ordinary file, or too large")
        return handle.read(_LARGEST_HEADER + 1)


def _content(data: bytes) -> dict[str, Any]:
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{HEADER} is not JSON ({type(error).__name__})") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise InputError(f"{HEADER} is not that of a partwise dataset")
    version, text = whole.get("version"), whole.get("content")
    if type(version) is not int or version < 1:
        raise InputError(f"{version!r:.20} is no version")
    if version > VERSION:
        versions = f"dataset version {version}, this one reads up to {VERSION}"
        raise InputError(f"made by a newer partwise ({versions}): upgrade partwise")
    if not isinstance(text, str) or not text.isascii() or whole.get("checksum") != _checksum(text):
        raise InputError(f"the checksum of {HEADER} does not match its contents")
    content = json.loads(text)
    if not isinstance(content, dict) or not isinstance(content.get("arrays"), dict):
        raise InputError("its header does not name arrays")
    return content


def _described(name: str, entry: Mapping[str, Any]) -> StoredArray:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r:.60} cannot be the name of an array")
    dtype, shape, checksum = entry["dtype"], entry["shape"], entry["checksum"]
    if dtype not in _DTYPES:
        raise InputError(f"array {name!r} is of type {dtype!r:.20}, which datasets do not use")
    proper = isinstance(shape, list) and len(shape) in (1, 2)
    if not proper or not all(type(n) is int and 0 <= n < 2**48 for n in shape) or math.prod(shape) >= 2**56:
        raise InputError(f"array {name!r} has no proper shape")
    if not isinstance(checksum, str):
        raise InputError(f"array {name!r} has no checksum")
    return StoredArray(name, np.dtype(dtype), tuple(shape), checksum)
