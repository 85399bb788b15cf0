"""Read files whose lines end in CR alone, as some spreadsheets write them, as if lines ended in LF."""

from __future__ import annotations

import io
from typing import Any

_PEEKED = 8192


def with_newlines(handle: Any) -> Any:
    """`handle`, a buffered binary file at its start, with LF for CR if its first lines end in CR alone."""
    head = bytes(handle.peek(_PEEKED)[:_PEEKED])
    # The last byte may be the first half of a CRLF. Zero bytes mean that this is no text.
    if b"\r" not in head[:-1] or b"\n" in head or b"\0" in head:
        return handle
    return io.BufferedReader(_Translated(handle))


class _Translated(io.RawIOBase):
    def __init__(self, source: Any):
        self.source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.source.read1(len(buffer)).replace(b"\r", b"\n")
        buffer[: len(data)] = data
        return len(data)
