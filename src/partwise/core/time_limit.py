"""A time limit inside passes: visits and sums over examples look at the clock between pieces of a pass.

Visits that come too late are left out; examples without a visit keep their dual variables, so that all bounds hold.
Sums need all examples. They are given up by an exception, and the state before them stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.compiled.clock import working_time


class OutOfTimeError(Exception):
    """Sums over examples were given up because the time limit was reached."""


@dataclass
class Deadline:
    """When passes end, on the clock of `working_time`.

    Attributes
    ----------
    ends : float
    at_once : int
        Examples between two looks at the clock. It follows from sizes alone, so that equal runs stay equal.
    gives_up_sums : bool
    n_done : int
        Examples visited or summed up so far.
    is_cut : bool
        Whether visits were left out.
    """

    ends: float
    at_once: int
    gives_up_sums: bool = True
    n_done: int = 0
    is_cut: bool = False

    @property
    def is_over(self) -> bool:
        return working_time()[0] >= self.ends

    def visits_end(self) -> bool:
        """Whether the time is over, so that the visits that follow are left out; never before the first piece."""
        self.is_cut = self.is_cut or (self.n_done > 0 and self.is_over)
        return self.is_cut


_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def until(deadline: Deadline | None) -> Iterator[None]:
    """Passes that begin in this context, on this thread, end at the deadline; None: they do not end early."""
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def current_deadline() -> Deadline | None:
    """The deadline of passes that this thread begins now."""
    return _DEADLINE.get()


def is_out_of_time() -> bool:
    """Whether the time of this thread's passes is over."""
    deadline = _DEADLINE.get()
    return deadline is not None and deadline.is_over


def visited_in_time(order: np.ndarray) -> Iterator[np.ndarray]:
    """`order` in pieces, until the time is over; in one piece without a time limit."""
    deadline = _DEADLINE.get()
    if deadline is None or not len(order):
        yield order
        return
    for first in range(0, len(order), deadline.at_once):
        if deadline.visits_end():
            return
        piece = order[first : first + deadline.at_once]
        yield piece
        deadline.n_done += len(piece)


def summed_in_time(work: Callable[..., None]) -> Callable[..., None]:
    """``work(first, last, …)`` in pieces, between which it raises :class:`OutOfTimeError` if the time is over."""
    deadline = _DEADLINE.get()
    if deadline is None:
        return work

    def in_pieces(first: int, last: int, *arguments: Any) -> None:
        for begin in range(first, last, deadline.at_once):
            if deadline.gives_up_sums and deadline.n_done and deadline.is_over:
                raise OutOfTimeError
            end = min(begin + deadline.at_once, last)
            work(begin, end, *arguments)
            deadline.n_done += end - begin

    return in_pieces
