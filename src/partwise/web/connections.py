"""Which connections are open: their number is limited, in all and for each client, and those that wait make room."""

from __future__ import annotations

import itertools
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass
class _State:
    client: str
    since: int  # which event began its wait: the smallest has waited longest
    works: bool = False


class Connections:
    """Open connections.

    A connection waits while it is idle or its request arrives. If there is no place for a new connection, the one
    that has waited longest is closed, so that connections that are held open cannot lock others out.

    Parameters
    ----------
    most, most_of_client : int
        Connections in all, and of one address.
    """

    def __init__(self, most: int, most_of_client: int):
        self._most, self._most_of_client = most, most_of_client
        self._open: dict[socket.socket, _State] = {}
        self._lock, self._clock = threading.Lock(), itertools.count()

    def admit(self, connection: socket.socket, client: str) -> bool:
        """Whether the connection has a place now."""
        with self._lock:
            held = Counter(state.client for state in self._open.values())
            if held[client] >= self._most_of_client:
                is_free = self._make_room(client)
            else:
                is_free = len(self._open) < self._most or any(
                    self._make_room(name) for name, _ in held.most_common()
                )
            if is_free:
                self._open[connection] = _State(client, next(self._clock))
            return is_free

    def _make_room(self, client: str) -> bool:
        """Close the connection of a client that has waited longest, if one waits."""
        own = [
            (state.since, each)
            for each, state in self._open.items()
            if state.client == client and not state.works
        ]
        if not own:
            return False
        _, oldest = min(own, key=lambda pair: pair[0])
        del self._open[oldest]
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end of the stream
        return True

    @contextmanager
    def working(self, connection: socket.socket) -> Iterator[None]:
        """While a request of the connection is answered, the connection is not closed to make room."""
        with self._lock:
            state = self._open.get(connection)
            if state:
                state.works = True
        try:
            yield
        finally:
            if state:
                with self._lock:
                    state.works, state.since = False, next(self._clock)

    def leave(self, connection: socket.socket) -> None:
        """The connection is closed."""
        with self._lock:
            self._open.pop(connection, None)
