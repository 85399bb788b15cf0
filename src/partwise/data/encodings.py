"""Text in other encodings than UTF-8, which is read as if it were UTF-8."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from partwise.errors import InputError

_AT_ONCE = 1 << 16
_chosen: list[str] = []


def check_encoding(encoding: Any) -> None:
    """Raise unless Python knows an encoding of text of this name."""
    try:
        is_text = isinstance("".encode(encoding), bytes)
    except (LookupError, TypeError, ValueError):
        is_text = False
    if not is_text:
        raise InputError(f"encoding {encoding!r:.40} is unknown; examples are latin-1, cp1252 and utf-16")


@contextmanager
def reading(encoding: str | None) -> Iterator[None]:
    """Within, all text files are of this encoding; None is UTF-8."""
    if encoding is None:
        yield
        return
    check_encoding(encoding)
    _chosen.append(encoding)
    try:
        yield
    finally:
        _chosen.pop()


def recoded(handle: Any, path: object) -> Any:
    """`handle`, a buffered binary file, as UTF-8, if its encoding was chosen to be another one."""
    return io.BufferedReader(_Recoded(handle, _chosen[-1], path)) if _chosen else handle


class _Recoded(io.RawIOBase):
    def __init__(self, source: Any, encoding: str, path: object):
        self._source, self._encoding, self._path = source, encoding, path
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._is_over:
            data = self._source.read1(_AT_ONCE)
            self._is_over = not data
            try:
                self._ready = self._decoder.decode(data, self._is_over).encode("utf-8", "surrogatepass")
            except UnicodeError as error:
                raise InputError(f"not text in {self._encoding} ({error})", self._path) from None
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n
