"""HTTP around a service: the standard library's server, with additional checks.

Requests come from programs and pages on this machine. Pages of other sites cannot reach the model through a browser:
checking the Host header blocks DNS rebinding, and a body must have the type application/json, for which browsers ask
for permission (CORS) that the server does not give.
"""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from partwise.errors import InputError
from partwise.report.json_values import finite_only
from partwise.web.connections import Connections
from partwise.web.request_head import Refusal, check_head, names_server, read_head
from partwise.web.service import Service
from partwise.web.work import Busy, TooSlow

_MOST_CONNECTIONS = 64  # open connections; each has a thread
_MOST_OF_CLIENT = 48  # open connections of one address
_IDLE = 15.0  # seconds after which a silent connection is closed
_DROPPED = 16_000_000  # bytes that are read of a body that is too large, so that the client sees the error
_GRACE = 5.0  # seconds that a stopping server waits for requests being answered


class ModelServer(ThreadingHTTPServer):
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

    daemon_threads = True
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


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: ModelServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "partwise", ""
    timeout = _IDLE
    _is_read = True  # whether nothing of the request is left in the connection

    def handle_one_request(self) -> None:
        """Answer one request, whose head is checked before the standard library reads it."""
        self.close_connection, self.requestline = True, ""
        self.request_version, self.command = self.protocol_version, "GET"  # for refusals before parsing
        stream: Any = self.rfile
        try:
            head = read_head(self.connection, stream, _IDLE)
            if not head:
                return
            check_head(head)
        except Refusal as refusal:
            self._refuse(refusal.status, str(refusal))
            return
        except OSError:
            return
        line, _, fields = head.partition(b"\n")
        self.raw_requestline, self.rfile = line, io.BytesIO(fields)
        try:
            is_whole = self.parse_request()
        finally:
            self.rfile = stream
        if is_whole:
            getattr(self, f"do_{self.command}", self._refuse_method)()

    def parse_request(self) -> bool:
        is_whole = super().parse_request()
        names = ("Content-Length", "Transfer-Encoding")
        self._is_read = is_whole and all(self.headers.get(name, "0") == "0" for name in names)
        return is_whole

    def do_GET(self) -> None:
        self._answer({"/": self._page, "/model": self._model, "/health": self._health}, "GET")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self._answer({"/predict": self._predict}, "POST")

    def _refuse_method(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    def _answer(self, known: dict[str, Any], method: str) -> None:
        path = self.path.partition("?")[0]
        try:
            if not names_server(self.headers.get("Host", ""), self.server.host_given):
                raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "the Host header names another server")
            if path not in known:
                raise self._unknown(path, method)
            with self.server.working():
                known[path]()
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
            self.close_connection = True  # nobody is there to hear it
        except MemoryError:
            self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, "out of memory; ask for less")
        except Exception as error:
            print(f"partwise: {self.path:.80}: {type(error).__name__}: {error!s:.200}", file=sys.stderr)
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"internal error ({type(error).__name__})")

    def _unknown(self, path: str, method: str) -> Refusal:
        other = {"/predict": "POST", "/": "GET", "/model": "GET", "/health": "GET"}.get(path)
        if other is None:
            return Refusal(HTTPStatus.NOT_FOUND, "there are /, /model, /health and /predict")
        return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} answers {other}, not {method}")

    # -- answers ----------------------------------------------------------------------------------

    def _page(self) -> None:
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def _model(self) -> None:
        self._send_json(HTTPStatus.OK, self.server.service.about())

    def _health(self) -> None:
        self._send_json(HTTPStatus.OK, {"status": "ok"})

    def _predict(self) -> None:
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
        body = self._body()
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON ({error!s:.100})") from None
        with self.server.connections.working(self.connection):
            self._send_json(HTTPStatus.OK, self.server.service.predict(request))

    def _body(self) -> bytes:
        """The body of a request, of at most so many bytes, within so much time."""
        limits = self.server.service.limits
        text = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (
            text.isascii() and text.isdigit() and len(text) < 12
        ):
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "a body needs a Content-Length")
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

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        with suppress(OSError):
            self._send_json(status, {"error": " ".join(message.split())})

    def _send_json(self, status: HTTPStatus, value: Any) -> None:
        text = json.dumps(finite_only(value), ensure_ascii=True, allow_nan=False)
        self._send(status, "application/json", text.encode("ascii") + b"\n")

    def _send(self, status: HTTPStatus, kind: str, data: bytes) -> None:
        self.close_connection = self.close_connection or not self._is_read
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(data))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Unknown methods, and errors that the standard library's server finds."""
        self.close_connection, self.command = True, self.command or "GET"
        self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged, since they hold texts of users."""
