"""The head of a request: read whole within a time limit, and refused unless it can be read in one way only."""

from __future__ import annotations

import io
import ipaddress
import re
import socket
import time
from contextlib import suppress
from http import HTTPStatus

MOST_BYTES = 32_768  # of a request line with all header fields
SECONDS = 10.0  # from the first byte of a head to its last

_END = re.compile(rb"\r?\n\r?\n")
_REQUEST = re.compile(rb"[A-Z]+ [!-~]+ HTTP/([0-9]+)\.([0-9]+)")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*[\t\x20-\x7e\x80-\xff]*")
_HOST = re.compile(r"(?:\[(?P<six>[^][]+)\]|(?P<name>[^][:]+))(?::[0-9]{1,5})?")
_ONCE = (b"host", b"content-length", b"transfer-encoding", b"content-type")


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


def check_head(head: bytes) -> None:
    """Raise a `Refusal` unless a head is of HTTP/1.0 or 1.1 and says once what must be said once."""
    first, *fields = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    request = _REQUEST.fullmatch(first)
    if not request:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the first line is not that of an HTTP request")
    if request[1] != b"1" or request[2] not in (b"0", b"1"):
        raise Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.0 and HTTP/1.1 are answered")
    names = []
    for field in fields:
        named = _FIELD.fullmatch(field)
        if not named:
            raise Refusal(HTTPStatus.BAD_REQUEST, "a header field is not a name, a colon and a value")
        names.append(named[1].lower())
    for name in _ONCE:
        if names.count(name) > 1:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"more than one {name.decode().title()} header")
    if b"content-length" in names and b"transfer-encoding" in names:
        raise Refusal(HTTPStatus.BAD_REQUEST, "both Content-Length and Transfer-Encoding headers")


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
