"""What the commands do with a model, by the kind of data it is for: sequences, segments, classes, trees, graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.tasks import class_of

if TYPE_CHECKING:
    from partwise.tasks.data_options import DataOptions

Write = Callable[[TextIO], None]


@dataclass(frozen=True)
class Wanted:
    """What `predict` is asked for.

    Attributes
    ----------
    marginals : bool
        Probabilities besides.
    kbest : int
        How many labellings.
    json : bool
        JSON lines instead of the data's own format.
    html : str or None
        Page to draw on.
    """

    marginals: bool = False
    kbest: int = 1
    json: bool = False
    html: str | None = None


class Evaluation(NamedTuple):
    """Scores as JSON values, and what prints them on a console."""

    values: dict[str, Any]
    show: Callable[[Any], None]


class Task(ABC):
    """A fitted estimator together with how its data are read.

    Attributes
    ----------
    estimator : StructuredEstimator
    options : DataOptions
        As the model file has them, with the format that the user named.
    model : str
        The model file, for messages.
    """

    def __init__(self, estimator: Any, options: DataOptions, model: str = "", format: str | None = None):
        self.estimator = estimator
        self.options = options if format is None else replace(options, format=format)
        self.model = model

    @property
    def loss(self) -> Loss:
        return Loss.of(self.estimator.loss)

    def answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        """Predictions for a file, in pieces to be written as they arrive; refuses what cannot be at once."""
        if wanted.html is not None:
            raise InputError("--html draws trees; this model is no parser", self.model)
        return self._answers(path, wanted)

    @abstractmethod
    def _answers(self, path: str, wanted: Wanted) -> Iterator[Write]: ...

    @abstractmethod
    def evaluation(self, path: str) -> Evaluation:
        """Scores on a labelled file."""

    @abstractmethod
    def labelled(self, path: str) -> tuple[Any, Any]:
        """Inputs and truths of a labelled file, as the task's explorer takes them."""

    @abstractmethod
    def dev_scores(self, x: Any, y: Any) -> dict[str, Any]:
        """Scores on data that are in memory, for the training record."""

    def dev_words(self, dev: dict[str, Any]) -> str:
        """What `dev_scores` returned, in words."""
        return f"dev accuracy {100 * dev['accuracy']:.2f} %  {dev['f1_kind']} F1 {100 * dev['f1']:.2f}"


def task_of(estimator: Any, options: DataOptions, model: str = "", format: str | None = None) -> Task:
    """The task of an estimator; an error if no file format holds its data."""
    return class_of(estimator, "commands", model)(estimator, options, model, format)
