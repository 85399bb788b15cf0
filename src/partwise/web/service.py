"""The answers of the server, without HTTP: from the values of a request to the values of an answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from partwise.errors import InputError
from partwise.report.summary import Summary
from partwise.tasks.task import Task
from partwise.web.work import Workers

_MOST_LABELS_SHOWN = 1000


@dataclass(frozen=True)
class Limits:
    """Limits of one request.

    Attributes
    ----------
    bytes : int
        The largest body.
    seconds : float
        The longest time for waiting and answering together.
    at_once : int
        Requests that are answered at the same time; others wait.
    kbest : int
        The largest number of best answers.
    list : int
        The largest number of requests in a list.
    """

    bytes: int = 1_000_000
    seconds: float = 30.0
    at_once: int = 4
    kbest: int = 20
    list: int = 100


class Service:
    """A model that answers requests, several at once.

    Parameters
    ----------
    task : Task
    summary : Summary
        Facts about the model, for `about`.
    limits : Limits
    """

    def __init__(self, task: Task, summary: Summary, limits: Limits | None = None):
        self.task, self.summary = task, summary
        self.limits = limits or Limits()
        self._workers = Workers(self.limits.at_once, self.limits.seconds)

    def predict(self, request: Any) -> dict[str, Any]:
        """The answer to one request; InputError if the request is invalid."""
        own = _object(request)
        kbest = own.pop("kbest", 3)
        if isinstance(kbest, bool) or not isinstance(kbest, int) or not 1 <= kbest <= self.limits.kbest:
            raise InputError(f'"kbest" must be a whole number from 1 to {self.limits.kbest}')
        x = self._example(own)
        return self._workers.run(lambda: self.task.answer(x, kbest=kbest))

    def best(self, request: Any) -> dict[str, Any]:
        """The best answer to one request, and nothing else; InputError if the request is invalid."""
        x = self._example(_object(request))
        return self._workers.run(lambda: self.task.best(x))

    def each(self, request: Any, one: Callable[[Any], dict[str, Any]]) -> Any:
        """The answer to one request, or to each of a list of requests."""
        if not isinstance(request, list):
            return one(request)
        if not 0 < len(request) <= self.limits.list:
            raise InputError(f"a list must have 1 to {self.limits.list} requests, not {len(request):,}")
        found = []
        for k, own in enumerate(request):
            try:
                found.append(one(own))
            except InputError as error:
                raise InputError(f"request {k} of the list: {error}") from None
        return found

    def _example(self, request: dict[str, Any]) -> Any:
        x = self.task.read(request)
        size, longest = self.task.size(x), self.task.longest
        if size > longest:
            raise InputError(f"{size:,} positions; at most {longest:,} are answered at a time")
        return x

    def about(self) -> dict[str, Any]:
        """Facts about the model, and how requests are written."""
        model = self.task.estimator
        labels = [str(label) for label in model._known_labels()]
        return {
            "estimator": self.summary.kind,
            "kind": self.task.kind,
            "labels": labels[:_MOST_LABELS_SHOWN],
            "n_labels": len(labels),
            "probabilities": self.task.has_probabilities,
            **self.task.expects(),
            "settings": self.summary.settings,
            "certificate": self.summary.certificate,
            "limits": {
                "bytes": self.limits.bytes,
                "seconds": self.limits.seconds,
                "at_once": self.limits.at_once,
                "kbest": self.limits.kbest,
                "list": self.limits.list,
                "positions": self.task.longest,
            },
        }

    def warm_up(self) -> None:
        """Answer the example once, so that no request waits for code to be loaded or compiled."""
        with suppress(InputError):  # the example of a graph may have other features than the model's
            self.task.answer(self.task.read({"text": self.task.expects()["example"]}))


def _object(request: Any) -> dict[str, Any]:
    """A request as a dict of its own."""
    if not isinstance(request, dict):
        raise InputError("a request must be a JSON object")
    return dict(request)
