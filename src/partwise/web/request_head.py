"""The head of a request: read whole within a time limit, and refused unless it can be read in one way only."""

from __future__ import annotations

import io
import ipaddress
import re
import socket
import time
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

MOST_BYTES = 32_768  # of a request line with all header fields
SECONDS = 10.0  # from the first byte of a head to its last

_END = re.compile(rb"\r?\n\r?\n")
_REQUEST = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/([0-9]+)\.([0-9]+)")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_HOST = re.compile(r"(?:\[(?P<six>[^][]+)\]|(?P<name>[^][:]+))(?::[0-9]{1,5})?")
_ONCE = ("host", "content-length", "transfer-encoding", "content-type")


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, message: str):
        super().__init__(message)
        self.status = status


def read_head(connection: socket.socket, stream: io.BufferedReader, idle: float) -> bytes:
    """The bytes up to the empty line; b"" if the client sends none.

    Parameters
    ----------
    connection : socket
        Its timeout is `idle` again afterwards.
    stream : buffered reader of the connection
        What follows the head stays in it.
    idle : float
        Seconds to wait for the first byte.
    """
    head, end = b"", time.monotonic() + idle
    try:
        while True:
            connection.settimeout(max(end - time.monotonic(), 0.001))
            part = stream.peek(1)
            if not head:
                end = time.monotonic() + SECONDS
            if not part:
                if head:
                    raise Refusal(HTTPStatus.BAD_REQUEST, "the request ends within its head")
                return b""
            found = _END.search(head + part)
            length = found.end() if found else len(head + part)
            if length > MOST_BYTES:
                message = f"a request line with its header fields has at most {MOST_BYTES:,} bytes"
                raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)
            stream.read(length - len(head))
            head = (head + part)[:length]
            if found:
                return head
    except TimeoutError:
        if head:
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "the head did not arrive") from None
        return b""
    finally:
        connection.settimeout(idle)


class Head(NamedTuple):
    """The head of a request.

    Attributes
    ----------
    method : str
    path : str
        Without a query.
    minor : int
        0 or 1: of the version of HTTP.
    fields : dict of str
        By names in lower case; of repeated fields the last.
    """

    method: str
    path: str
    minor: int
    fields: dict[str, str]

    @property
    def closes(self) -> bool:
        """Whether the connection closes after the answer."""
        wanted = self.fields.get("connection", "").lower()
        return wanted == "close" or (self.minor == 0 and wanted != "keep-alive")

    @property
    def has_body(self) -> bool:
        return any(self.fields.get(name, "0") != "0" for name in ("content-length", "transfer-encoding"))


def parsed_head(head: bytes) -> Head:
    """A head; raises a `Refusal` unless it is of HTTP/1.0 or 1.1 and says once what must be said once."""
    first, *lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    request = _REQUEST.fullmatch(first)
    if not request:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the first line is not that of an HTTP request")
    method, target, major, minor = (each.decode("ascii") for each in request.groups())
    if major != "1" or minor not in ("0", "1"):
        raise Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.0 and HTTP/1.1 are answered")
    fields: dict[str, str] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if not field:
            raise Refusal(HTTPStatus.BAD_REQUEST, "a header field is not a name, a colon and a value")
        name = field[1].decode("ascii").lower()
        if name in fields and name in _ONCE:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"more than one {name.title()} header")
        fields[name] = field[2].decode("latin-1").strip()
    if "content-length" in fields and "transfer-encoding" in fields:
        raise Refusal(HTTPStatus.BAD_REQUEST, "both Content-Length and Transfer-Encoding headers")
    return Head(method, target.partition("?")[0], int(minor), fields)


def names_server(host: str, own: str) -> bool:
    """Whether a Host header names this server: by an address, as localhost, or by its own name."""
    found = _HOST.fullmatch(host)
    if not found:
        return False
    if found["name"] and found["name"].lower() in ("localhost", own.lower()):
        return True
    with suppress(ValueError):
        ipaddress.IPv6Address(found["six"]) if found["six"] else ipaddress.IPv4Address(found["name"])
        return True
    return False
