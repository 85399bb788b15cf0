"""Messages of a training run in CRFsuite's layout, and the parser that gives `Trainer.logparser` its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple


class LabelScore(NamedTuple):
    """How a label was predicted on held-out data; None for shares of nothing."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None

    @classmethod
    def of(cls, match: int, model: int, ref: int) -> LabelScore:
        if not (model or ref):
            return cls(match, model, ref, None, None, None)
        precision, recall = match / max(model, 1), match / max(ref, 1)
        return cls(match, model, ref, precision, recall, 2 * match / (model + ref))


def performance_lines(
    labels: Sequence[str], true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> Iterator[str]:
    """How held-out sequences were labelled."""
    pairs = [pair for t, p in zip(true, predicted, strict=True) for pair in zip(t, p, strict=True)]
    scores = {
        label: LabelScore.of(
            sum(t == p == label for t, p in pairs),
            sum(p == label for _, p in pairs),
            sum(t == label for t, _ in pairs),
        )
        for label in labels
    }
    yield "Performance by label (#match, #model, #ref) (precision, recall, F1):\n"
    for label, score in scores.items():
        shares = ", ".join("******" if each is None else f"{each:.4f}" for each in score[3:])
        yield f"    {label}: ({score.match}, {score.model}, {score.ref}) ({shares})\n"
    n = max(len(scores), 1)
    means = ", ".join(f"{sum(score[k] or 0.0 for score in scores.values()) / n:.6f}" for k in (3, 4, 5))
    yield f"Macro-average precision, recall, F1: ({means})\n"
    right = sum(t == p for t, p in pairs)
    whole = sum(list(t) == list(p) for t, p in zip(true, predicted, strict=True))
    yield f"Item accuracy: {right} / {len(pairs)} ({right / max(len(pairs), 1):.4f})\n"
    yield f"Instance accuracy: {whole} / {len(true)} ({whole / max(len(true), 1):.4f})\n"


_NUMBERS: dict[str, tuple[str, type]] = {
    "loss": (r"Loss: ", float),
    "feature_norm": (r"Feature (?:L2-)?norm: ", float),
    "error_norm": (r"Error norm: ", float),
    "active_features": (r"Active features: ", int),
    "linesearch_trials": (r"Line search trials: ", int),
    "linesearch_step": (r"Line search step: ", float),
    "time": (r"Seconds required for this iteration: ", float),
}
_NUMBER = r"([-+\d.eE]+)"
_ITERATION = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}")
_LABEL = re.compile(r" {4}(.+): \((\d+), (\d+), (\d+)\) \((.+), (.+), (.+)\)")
_MEANS = re.compile(r"Macro-average precision, recall, F1: \((.+), (.+), (.+)\)")
_ACCURACY = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")


class TrainLogParser:
    """Reads the messages of a training run, of partwise or of CRFsuite.

    Attributes
    ----------
    iterations : list of dict
        num, loss, feature_norm, active_features, time; and for held-out data scores, item_accuracy, avg_f1 and more.
    last_iteration : dict or None
    featgen_percent, featgen_num_features : int
    featgen_seconds, training_seconds, storing_seconds : float
    log : list of str
        All messages.
    events : list of (event, first message, last message + 1)
    """

    def __init__(self) -> None:
        self.state = "start"
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []

    def feed(self, line: str) -> str | None:
        """Read a message; the name of the event that it ends, if it ends one."""
        self.log.append(line)
        event = getattr(self, f"_in_{self.state}")(line)
        if len(self.log) == 1:
            event = "start"
        if event is not None:
            first = self.events[-1][2] if self.events else 0
            # The line that ends these two is the first one of what follows.
            last = len(self.log) - (event in ("prepared", "optimization_end"))
            self.events.append((event, first, last))
        return event

    @property
    def last_log(self) -> str:
        """The messages of the last event."""
        _, first, last = self.events[-1]
        return "".join(self.log[first:last])

    def _in_start(self, line: str) -> None:
        if line.startswith("Feature generation"):
            self.state = "features"

    def _in_features(self, line: str) -> str | None:
        if line in "0123456789.10":
            self.featgen_percent += 2
            return "featgen_progress"
        if (n := _found("Number of features: ", line)) is not None:
            self.featgen_num_features = int(n)
        if (seconds := _found("Seconds required: ", line)) is None:
            return None
        self.featgen_seconds = seconds
        self.state = "preparation"
        return "featgen_end"

    def _in_preparation(self, line: str) -> str | None:
        if self._begins(line):
            return "prepared"
        if "terminated with error" in line:
            self.state = "between"
            return "prepare_error"
        return self._stored(line)

    def _in_iteration(self, line: str) -> str | None:
        if self._begins(line):
            return None
        if line == "\n":
            self.state = "between"
            return "iteration"
        known = self.iterations[-1]
        for name, (words, kind) in _NUMBERS.items():
            if (number := _found(words, line)) is not None:
                known[name] = kind(number)
        _read_performance(line, known)
        return None

    def _in_between(self, line: str) -> str | None:
        if self._begins(line):
            return None
        if (seconds := _found("Total seconds required for training: ", line)) is not None:
            self.training_seconds = seconds
        return self._stored(line)

    def _in_storing(self, line: str) -> str | None:
        if (seconds := _found("Seconds required: ", line)) is not None:
            self.storing_seconds = seconds
        return "end" if line == "\n" else None

    def _begins(self, line: str) -> bool:
        """Whether the line is the head of an iteration."""
        head = _ITERATION.match(line)
        if head:
            self.last_iteration = {"num": int(head[1]), "scores": {}}
            self.iterations.append(self.last_iteration)
            self.state = "iteration"
        return bool(head)

    def _stored(self, line: str) -> str | None:
        if not line.startswith("Storing the model"):
            return None
        self.state = "storing"
        return "optimization_end"


def _found(words: str, line: str) -> float | None:
    found = re.match(words + _NUMBER, line)
    return float(found[1]) if found else None


def _read_performance(line: str, known: dict[str, Any]) -> None:
    if found := _LABEL.match(line):
        shares = (None if text.startswith("*") else float(text) for text in found.groups()[4:])
        known["scores"][found[1]] = LabelScore(*map(int, found.groups()[1:4]), *shares)
    elif found := _MEANS.match(line):
        names = ("avg_precision", "avg_recall", "avg_f1")
        known |= dict(zip(names, map(float, found.groups()), strict=True))
    elif found := _ACCURACY.match(line):
        name, share = f"{found[1].lower()}_accuracy", Fraction(int(found[2]), max(int(found[3]), 1))
        known |= {name: share, f"{name}_float": float(share)}
