"""`Task`: all that the command line, reports and the server ask of one kind of data."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, TextIO

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators.labels import unknown_labels
from partwise.report.output import write_text
from partwise.tasks import task_of
from partwise.tasks.options import DataOptions
from partwise.tasks.page import Evidence, Term, difference, shown_terms, term_of

Write = Callable[[TextIO], None]
AUTO = DataOptions("auto")
_BEST = ("labels", "heads", "segments", "tree")  # what an answer says of the best labelling


@dataclass(frozen=True)
class Wanted:
    """The options of `predict`.

    Attributes
    ----------
    marginals : bool
        Write probabilities, too.
    kbest : int
        How many labellings to write.
    json : bool
        Write JSON lines instead of the data's own format.
    html : str or None
        The page to draw trees on.
    entities : bool
        Write entities with their probabilities.
    threshold : float or None
        Write all entities that are at least so probable, instead of those of the labels.
    decode : {"viterbi", "marginal", "mbr"}
        What labels and entities are best at.
    risk : float or None
        Leave out entities so that at most this share is wrong.
    text : bool
        Read running text.
    """

    marginals: bool = False
    kbest: int = 1
    json: bool = False
    html: str | None = None
    entities: bool = False
    threshold: float | None = None
    decode: str = "viterbi"
    risk: float | None = None
    text: bool = False


@dataclass
class LabelledData:
    """A labelled file for training.

    Attributes
    ----------
    x, y
        As `fit` takes them.
    n_examples : int
    options : DataOptions
        How the file was read, once it is known.
    weights : ndarray (n_examples,) or None
    parameters : dict
        Parameters of the estimator that were chosen by the data.
    note : str or None
        What was chosen, for the line that is printed before training.
    facts : dict
        JSON values about the data that the model file keeps: see `Task.trained`.
    """

    x: Any
    y: Any
    n_examples: int
    options: DataOptions
    weights: Any = None
    parameters: dict[str, Any] = field(default_factory=dict)
    note: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class Scores(NamedTuple):
    """Scores of labelled data: all of them as JSON values, the main ones, these in words, and a table for a console."""

    values: dict[str, Any]
    main: dict[str, Any]
    words: str
    show: Callable[[Any], None]


class SmallProblem(NamedTuple):
    """A problem whose training and predictions compile one kind of code, for ``partwise compile``.

    Attributes
    ----------
    name : str
    estimator : class
    parameters : dict
        All but loss and solver.
    X, y
        As `fit` takes them.
    answers : tuple of str
        Methods that are called with X.
    is_usual : bool
        Whether the code is needed by default; if not, ``partwise compile --all`` compiles it.
    """

    name: str
    estimator: Any
    parameters: dict[str, Any]
    X: Any
    y: Any
    answers: tuple[str, ...]
    is_usual: bool = False


class Task(ABC):
    """A fitted estimator together with how its data are read, written, scored, explained and drawn.

    A subclass fills in the abstract methods and the class attributes. X stands for examples as the estimator's methods
    take them, x for a single example as `pick` returns it.

    Attributes
    ----------
    command : str
        NAME of ``partwise train NAME``.
    formats : tuple of str
        The names of the file formats besides "auto".
    kind : str
        How pages draw an answer: "trees", "constituents" and "graphs" have drawings of their own. Any other kind is
        drawn as a row of words with labels.
    rereads_format : bool
        Whether the format of each new file is found by looking at the file, whatever the format of the training data.
    draws_trees : bool
        Whether ``predict --html`` works.
    finds_entities : bool
        Whether ``predict --entities`` and ``predict --decode`` work.
    longest : int
        The largest number of positions of an example that the server answers.
    estimator
        The fitted estimator.
    options : DataOptions
        As the model file has them, with the format that the user named.
    model : str
        The model file, for messages.
    trained : dict
        The training record of the command line in the model file; empty for models saved from Python.
    """

    command: ClassVar[str]
    formats: ClassVar[tuple[str, ...]]
    kind: ClassVar[str]
    rereads_format: ClassVar[bool] = False
    draws_trees: ClassVar[bool] = False
    finds_entities: ClassVar[bool] = False
    longest: ClassVar[int] = 2000

    def __init__(self, estimator: Any, options: DataOptions = AUTO, model: str = ""):
        self.estimator, self.options, self.model = estimator, options, model
        self.trained: dict[str, Any] = {}

    # -- training -------------------------------------------------------------------------------

    @classmethod
    def read_labelled(cls, path: str, options: DataOptions, purpose: str) -> LabelledData:
        """Read a labelled file; `purpose` is "training", "--dev" or "evaluation", for messages.

        A task whose training data are not read as those that are scored has the next methods of its own instead.
        """
        raise NotImplementedError

    @classmethod
    def training_data(cls, path: str, options: Any) -> LabelledData:
        """Read a training file; `options` is what ``partwise train NAME`` was given."""
        return cls.read_labelled(path, options.data(), "training")

    @classmethod
    def dev_data(cls, path: str, options: Any, train: LabelledData) -> tuple[Any, Any]:
        """Read labelled data that are scored during training, as X and the truths that `scores` takes.

        Parameters
        ----------
        train : LabelledData
            The training data.
        """
        data = cls.read_labelled(path, train.options, "--dev")
        return data.x, data.y

    @classmethod
    def encode(
        cls, path: str, output: str, options: Any, tell: Callable[[str, int], None]
    ) -> tuple[NamedTuple, str, DataOptions]:
        """Encode a training file to a folder. Returns the sizes, the sizes in words, and how the file was read."""
        raise NotImplementedError

    @classmethod
    def small_problems(cls) -> list[SmallProblem]:
        """Problems that ``partwise compile`` trains, so that the code of this task is compiled."""
        return []

    @classmethod
    def check_format(cls, format: str) -> None:
        """Raise unless the task can read this format."""
        if format not in ("auto", *cls.formats):
            *names, last = ("auto", *cls.formats)
            raise InputError(f"--format must be {', '.join(names)} or {last}, not {format!r:.40}")

    # -- labelled files -------------------------------------------------------------------------

    def labelled(self, path: str) -> tuple[Any, Any]:
        """Read a labelled file as X and truths."""
        data = self.read_labelled(path, self.options, "evaluation")
        return data.x, data.y

    def unknown_labels(self, X: Any, truths: Any) -> str:
        """What is to be said of labels that training did not have, with all their names; "" if there are none."""
        found, known = self.estimator._labels_in(X, truths), self.estimator._known_labels()
        return unknown_labels(found, known) if known else ""

    @abstractmethod
    def scores(self, X: Any, truths: Any) -> Scores:
        """Score predictions for X."""

    def entity_scores(self, X: Any, truths: Any) -> Any:
        """Probabilities of entities beside the truth, if the task finds entities."""
        raise NotImplementedError

    def examples(self, X: Any, truths: Any) -> tuple[Any, Any]:
        """What `labelled` returned, in a form that `pick` and `evidence` take; empty examples may be dropped."""
        return X, truths

    def pick(self, X: Any, truths: Any, i: int) -> tuple[Any, Any]:
        """Example i and its truth."""
        return X[i], truths[i]

    @abstractmethod
    def evidence(self, X: Any, truths: Any) -> Evidence:
        """Scores, the confusion matrix, errors of every example, and probabilities beside the truth."""

    # -- predictions for files ------------------------------------------------------------------

    def answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        """Predictions for a file, in pieces to be written as they arrive. Invalid requests raise before any output."""
        if wanted.html is not None and not self.draws_trees:
            raise InputError("--html draws trees; this model is no parser", self.model)
        if wanted.html is not None and wanted.kbest > 1:
            raise InputError("--html draws one tree a sentence; leave out --kbest")
        if self.draws_trees and wanted.kbest > 1 and not wanted.json:
            raise InputError("--kbest gives several trees a sentence, which only --json can show")
        self.check_wanted(wanted)
        return self.predictions(path, wanted)

    def check_wanted(self, wanted: Wanted) -> None:
        """Raise if the options of `predict` do not fit the model."""
        if (wanted.entities or wanted.decode != "viterbi") and not self.finds_entities:
            option = "--entities" if wanted.entities else "--decode"
            raise InputError(f"{option} is for models of sequences and segments", self.model)
        if wanted.text and not self.finds_entities:
            raise InputError("--text is for models of sequences and segments", self.model)
        for name in ("threshold", "risk"):
            if getattr(wanted, name) is not None and not wanted.entities:
                raise InputError(f"--{name} is for --entities")
        needs_probabilities = wanted.marginals or wanted.entities or wanted.decode != "viterbi"
        if needs_probabilities and not self.has_probabilities:
            raise InputError(
                "this model's loss has beta = inf and so no probabilities; train with --loss log", self.model
            )

    def predictions(self, path: str, wanted: Wanted) -> Iterator[Write]:
        """Read a file in batches, and return what to write for each."""
        for batch in self.batches(path):
            yield partial(write_text, text=self.text(batch, wanted))

    def batches(self, path: str) -> Iterator[Any]:
        """A file with or without labels, in batches."""
        raise NotImplementedError

    def text(self, batch: Any, wanted: Wanted) -> str:
        """A batch with its predictions, as it is written."""
        raise NotImplementedError

    # -- one example, for pages and the server --------------------------------------------------

    @abstractmethod
    def read(self, request: dict[str, Any]) -> Any:
        """The example x of a request ({"text": ...} or the task's own key); InputError if there is none."""

    @abstractmethod
    def expects(self) -> dict[str, str]:
        """How a person writes an example: ``format``, a sentence, and ``example``, a text that `read` takes."""

    @abstractmethod
    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        """The prediction for one example as plain values; docs/serving.md describes them."""

    def best(self, x: Any) -> dict[str, Any]:
        """The best answer alone, under the keys of `answer`."""
        found = self.answer(x, kbest=1)
        return {key: found[key] for key in _BEST if key in found}

    def size(self, x: Any) -> int:
        """The number of positions of an example."""
        return len(x)

    def why(self, x: Any) -> dict[str, Any]:
        """The terms of the answer's score, and those of its lead over the next best answer."""
        if not self.estimator._has_weights:
            return {}
        explained = self.estimator.explain(x)
        found: dict[str, Any] = {"score": explained.score, "terms": shown_terms(self.terms(explained))}
        with suppress(InputError):  # there may be no other answer
            other = self.estimator.explain(x, against="runner-up")
            found["against"] = difference(self.shown_rival(other.against), other.score, self.terms(other))
        return found

    def terms(self, explanation: Any) -> Iterable[Term]:
        """The terms of what `explain` returns."""
        return map(term_of, explanation.contributions)

    def shown_rival(self, against: Any) -> Any:
        """The next best answer as plain values."""
        return list(map(str, against))

    # -- for subclasses -------------------------------------------------------------------------

    @property
    def loss(self) -> Loss:
        return Loss.of(self.estimator.loss)

    @property
    def has_probabilities(self) -> bool:
        return not self.loss.is_hard

    @property
    def value_name(self) -> str:
        """What the numbers of the k best answers are."""
        return "probability" if self.has_probabilities else "score"

    def valued(self, ranked: Iterable[tuple[dict[str, Any], float]]) -> list[dict[str, Any]]:
        """The k best answers of one example, each with its probability or score."""
        return [{**answer, self.value_name: float(value)} for answer, value in ranked]


def opened_task(estimator: Any, header: dict[str, Any], model: str = "", format: str | None = None) -> Task:
    """The task of an estimator from a model file.

    Parameters
    ----------
    header : dict
        Of the model file.
    format : str, optional
        The format that the user named for new files.
    """
    kind = task_of(estimator, model)
    options = DataOptions.of(header, model)
    if options.format not in ("auto", *kind.formats):
        raise InputError("damaged model file: it does not say how its data is read", model)
    if format is not None:
        kind.check_format(format)
        options = replace(options, format=format)
    elif kind.rereads_format:
        options = replace(options, format="auto")
    task = kind(estimator, options, model)
    trained = header.get("training")
    task.trained = trained if isinstance(trained, dict) else {}
    return task


def json_lines(objects: Iterable[dict[str, Any]]) -> str:
    """Objects as JSON lines."""
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects)


def add_each(objects: Iterable[dict[str, Any]], name: str, values: Iterable[Any]) -> None:
    """Give each object its own value under `name`."""
    for each, value in zip(objects, values, strict=True):
        each[name] = value
