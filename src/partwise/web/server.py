"""HTTP around a service: a thread per connection, and a small part of HTTP/1.1, which checks strictly.

Requests come from programs and pages on this machine. Pages of other sites cannot reach the model through a browser:
checking the Host header blocks DNS rebinding, and a body must have the type application/json, for which browsers ask
for permission (CORS) that the server does not give.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from partwise.errors import InputError
from partwise.report.json_values import finite_only
from partwise.web.connections import Connections
from partwise.web.openapi import description
from partwise.web.request_head import Head, Refusal, names_server, parsed_head, read_head
from partwise.web.service import Service
from partwise.web.work import Busy, TooSlow

_MOST_CONNECTIONS = 128  # open connections; each has a thread
_MOST_OF_CLIENT = 96  # open connections of one address
_IDLE = 15.0  # seconds after which a silent connection is closed
_DROPPED = 16_000_000  # bytes that are read of a body that is too large, so that the client sees the error
_GRACE = 5.0  # seconds that a stopping server waits for requests being answered
_FIELDS = (  # of every answer
    "Server: partwise",
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
)
_METHODS = {
    "/": "GET", "/model": "GET", "/health": "GET", "/openapi.json": "GET", "/predict": "POST", "/best": "POST",
}  # fmt: skip


class ModelServer(socketserver.ThreadingTCPServer):
    """One thread per connection, at most `_MOST_CONNECTIONS` of them.

    Parameters
    ----------
    host : str
        Address or name to listen at.
    port : int
        0 takes one that is free.
    service : Service
    page : str
        HTML of the page for people.
    """

    daemon_threads = allow_reuse_address = True
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, host: str, port: int, service: Service, page: str):
        self.service, self.page, self.host_given = service, page.encode("utf-8", "replace"), host
        self.connections = Connections(_MOST_CONNECTIONS, _MOST_OF_CLIENT)
        self._in_work, self._changed = 0, threading.Condition()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), Handler)

    @property
    def address(self) -> str:
        """The address of the page."""
        host, port = str(self.server_address[0]), self.server_address[1]
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.connections.admit(request, client_address[0]):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Errors of connections that clients closed are not printed."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            print(f"partwise: a request failed: {type(error).__name__}: {error}", file=sys.stderr)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Around the answer to a request, which a stopping server waits for."""
        with self._changed:
            self._in_work += 1
        try:
            yield
        finally:
            with self._changed:
                self._in_work -= 1
                self._changed.notify_all()

    def stop(self) -> None:
        """Take no more requests, wait for those being answered, and close."""
        self.shutdown()
        with self._changed:
            self._changed.wait_for(lambda: self._in_work == 0, _GRACE)
        self.server_close()


class Handler(socketserver.StreamRequestHandler):
    """One connection."""

    server: ModelServer
    timeout = _IDLE
    disable_nagle_algorithm = True  # an answer would wait for the client's acknowledgement of the one before
    head: Head | None
    _closes, _is_read = (
        False,
        True,
    )  # whether the connection closes, and whether the request has been read whole

    def handle(self) -> None:
        while not self._closes:
            self._answer_one()

    def _answer_one(self) -> None:
        self.head, self._is_read, self._closes = None, False, True
        try:
            if not (head := read_head(self.connection, self.rfile, _IDLE)):  # type: ignore[arg-type]
                return
            self.head = parsed_head(head)
            self._closes, self._is_read = self.head.closes, not self.head.has_body
            self._answer(self.head)
        except Refusal as refusal:
            self._refuse(refusal.status, str(refusal))
        except InputError as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except Busy:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; try again")
        except TooSlow:
            seconds = self.server.service.limits.seconds
            self._refuse(HTTPStatus.GATEWAY_TIMEOUT, f"no answer within {seconds:g} s; ask for less")
        except OSError:
            self._closes = True  # nobody is there to hear it
        except MemoryError:
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, "out of memory; ask for less")
        except Exception as error:
            path = "" if self.head is None else self.head.path
            print(f"partwise: {path:.80}: {type(error).__name__}: {error!s:.200}", file=sys.stderr)
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"internal error ({type(error).__name__})")

    def _answer(self, head: Head) -> None:
        if not names_server(head.fields.get("host", ""), self.server.host_given):
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "the Host header names another server")
        if head.method not in ("GET", "HEAD", "POST"):
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{head.method:.20} is not answered")
        if head.path not in _METHODS:
            raise Refusal(HTTPStatus.NOT_FOUND, f"there are {', '.join(_METHODS)}")
        if _METHODS[head.path] != head.method.replace("HEAD", "GET"):
            message = f"{head.path} answers {_METHODS[head.path]}, not {head.method}"
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, message)
        service = self.server.service
        with self.server.working():
            if head.path == "/":
                self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
            elif head.path == "/model":
                self._send_json(HTTPStatus.OK, service.about())
            elif head.path == "/openapi.json":
                self._send_json(HTTPStatus.OK, description(service))
            elif head.path == "/health":
                self._send_json(HTTPStatus.OK, {"status": "ok"})
            else:
                request = self._request(head)
                with self.server.connections.working(self.connection):
                    one = service.best if head.path == "/best" else service.predict
                    self._send_json(HTTPStatus.OK, service.each(request, one))

    # -- requests ---------------------------------------------------------------------------------

    def _request(self, head: Head) -> Any:
        """The JSON value of a body."""
        kind = head.fields.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
        try:
            return json.loads(self._body(head))
        except (ValueError, RecursionError) as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON ({error!s:.100})") from None

    def _body(self, head: Head) -> bytes:
        """The body of a request, of at most so many bytes, within so much time."""
        limits = self.server.service.limits
        text = head.fields.get("content-length", "")
        if "transfer-encoding" in head.fields or not (text.isascii() and text.isdigit() and len(text) < 12):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "a body needs a Content-Length")
        if head.minor and head.fields.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = int(text)
        if length > limits.bytes:
            # A client that is still sending would not see the answer.
            self._received(min(length, _DROPPED), limits.seconds, keep=False)
            message = f"{length:,} bytes; at most {limits.bytes:,} are read"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        body = self._received(length, limits.seconds)
        self._is_read = True
        return body

    def _received(self, length: int, seconds: float, keep: bool = True) -> bytes:
        end, parts = time.monotonic() + seconds, []
        while length:
            part = self.rfile.read1(min(length, 1 << 16))  # type: ignore[attr-defined]
            if not part or time.monotonic() > end:
                raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive")
            length -= len(part)
            if keep:
                parts.append(part)
        return b"".join(parts)

    # -- answers ----------------------------------------------------------------------------------

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        with suppress(OSError):
            self._send_json(status, {"error": " ".join(message.split())})

    def _send_json(self, status: HTTPStatus, value: Any) -> None:
        text = json.dumps(finite_only(value), ensure_ascii=True, allow_nan=False)
        self._send(status, "application/json", text.encode("ascii") + b"\n")

    def _send(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        self._closes = self._closes or not self._is_read
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Date: {formatdate(usegmt=True)}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(data)}",
            *_FIELDS,
            *(["Connection: close"] if self._closes else []),
        ]
        head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
        self.wfile.write(head if self.head is not None and self.head.method == "HEAD" else head + data)
