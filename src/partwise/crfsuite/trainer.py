"""`Trainer`: collects labelled sequences, trains, and writes a model file of CRFsuite."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.crfsuite.algorithms import estimator_for, parameters_of
from partwise.crfsuite.training_log import TrainLogParser, performance_lines
from partwise.errors import InputError
from partwise.storage.crfsuite_file import CrfsuiteModel, Features, write_crfsuite_model
from partwise.tasks.sequences.crfsuite_model import crfsuite_model_of
from partwise.tasks.sequences.item_sequence import plain_items


class CRFSuiteError(InputError):
    """Training failed, for the reason that the message gives."""


class BaseTrainer:
    """The methods of ``pycrfsuite.BaseTrainer``.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa"}, optional
        See `select`.
    params : dict, optional
        See `set_params`.
    verbose : bool
        Whether `message` prints.
    """

    verbose: Any = True
    _algorithm: str

    def __new__(cls, *arguments: Any, **options: Any) -> BaseTrainer:
        # Subclasses need not call __init__ of this class, as in python-crfsuite.
        trainer = super().__new__(cls)
        trainer._examples = []
        BaseTrainer.select(trainer, "lbfgs")
        return trainer

    def __init__(
        self, algorithm: str | None = None, params: Mapping[str, Any] | None = None, verbose: bool = True
    ):
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    _examples: list[tuple[list[Any], list[str], int]]

    def message(self, message: str) -> None:
        """Called with each message of a training run; override it to show them elsewhere."""
        if self.verbose:
            print(message, end="")

    def append(self, xseq: Any, yseq: Any, group: int = 0) -> None:
        """Add a labelled sequence.

        Parameters
        ----------
        xseq : ItemSequence or iterable of items
            See :class:`~partwise.crfsuite.ItemSequence` for the forms of items.
        yseq : iterable of str
            A label for each item.
        group : int
            Chooses sequences to hold out, see `train`.
        """
        items, labels = plain_items(xseq), list(yseq)
        if len(items) != len(labels):
            raise InputError(f"the sequence has {len(items)} items, and there are {len(labels)} labels")
        labels = [label.decode("utf-8") if isinstance(label, bytes) else label for label in labels]
        wrong = [label for label in labels if not isinstance(label, str)]
        if wrong:
            raise InputError(f"labels are strings, and {wrong[0]!r:.40} is none")
        self._examples.append((items, labels, int(group)))

    def clear(self) -> None:
        """Remove all sequences."""
        self._examples.clear()

    # -- algorithm and parameters ---------------------------------------------------------------

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose the algorithm, with all parameters at their defaults.

        Parameters
        ----------
        algorithm : {"lbfgs", "l2sgd", "ap", "pa"}
            "lbfgs" and "l2sgd" name an objective, and partwise's own solver minimises it. "ap" is the averaged
            perceptron. "pa" is passive-aggressive training (MIRA). There is nothing in place of "arow".
        type : {"crf1d"}
        """
        self._algorithm, self._known = parameters_of(algorithm, type)
        self._values: dict[str, Any] = {}

    def params(self) -> list[str]:
        """The names of the algorithm's parameters."""
        return list(self._known)

    def set(self, name: str, value: Any) -> None:
        """Set a parameter."""
        self._values[name] = self._parameter(name).read(name, value)

    def get(self, name: str) -> Any:
        """The value of a parameter."""
        return self._values.get(name, self._parameter(name).default)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set several parameters."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """The values of all parameters."""
        return {name: self.get(name) for name in self._known}

    def help(self, name: str) -> str:
        """The description of a parameter."""
        return self._parameter(name).help

    def _parameter(self, name: str) -> Any:
        if name not in self._known:
            known = ", ".join(self._known)
            raise InputError(f"{self._algorithm!r} has no parameter {name!r:.40}; it has {known}")
        return self._known[name]

    # -- training -------------------------------------------------------------------------------

    def train(self, model: str | os.PathLike[str] | bytes, holdout: int = -1) -> None:
        """Train, and write the model in CRFsuite's format.

        Parameters
        ----------
        model : path
            Nothing is written if it is empty.
        holdout : int
            Sequences of this group are not trained on. The last iteration says how well they are labelled.
        """
        self._before_train()
        path = os.fsdecode(model)
        used, held = (
            [each for each in self._examples if (each[2] == holdout) == is_held] for is_held in (False, True)
        )
        if holdout >= 0:
            self._say(f"Holdout group: {holdout}\n", "\n")
        self._say("Feature generation\n", "type: CRF1d\n")
        values = self.get_params()
        self._say(*(f"{name}: {_shown(values[name])}\n" for name in values if name.startswith("feature.")))
        try:
            if any(labels for _, labels, _ in used):
                found = self._trained(used, held)
            else:
                self._say(*_steps(), "\n", "Number of features: 0\n", "Seconds required: 0.000\n", "\n")
                none = Features(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
                found = CrfsuiteModel([], [], none, none)
            self._store(path, found)
        except InputError as error:
            raise CRFSuiteError(str(error)) from None

    def _trained(self, used: list[Any], held: list[Any]) -> CrfsuiteModel:
        watch = _Watch(self, bool(held))
        estimator = estimator_for(self._algorithm, self.get_params(), self._values, watch)
        X, y = [items for items, _, _ in used], [labels for _, labels, _ in used]
        with warnings.catch_warnings():
            if self._algorithm in ("ap", "pa"):  # these end after so many passes, and have no tolerance
                from sklearn.exceptions import ConvergenceWarning

                warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(X, y)
        if held:
            truth = [labels for _, labels, _ in held]
            predicted = [list(each) for each in estimator.predict([items for items, _, _ in held])]
            watch.flush(*performance_lines(estimator.classes_.tolist(), truth, predicted))
        seconds = time.perf_counter() - watch.began
        self._say(
            f"Training ended: {estimator.stop_reason_}\n",
            f"Total seconds required for training: {seconds:.3f}\n",
            "\n",
        )
        # CRFsuite numbers labels as they come, and of labels with equal scores takes the first.
        return _with_labels(crfsuite_model_of(estimator), dict.fromkeys(label for own in y for label in own))

    def _store(self, path: str, model: CrfsuiteModel) -> None:
        began = time.perf_counter()
        n_active = len(model.transitions.weight) + len(model.states.weight)
        self._say(
            "Storing the model\n",
            f"Number of active features: {n_active}\n",
            f"Number of active attributes: {len(model.attributes)}\n",
            f"Number of active labels: {len(model.labels)}\n",
        )
        if path:
            write_crfsuite_model(path, model)
        self._say(f"Seconds required: {time.perf_counter() - began:.3f}\n", "\n")

    def _say(self, *messages: str) -> None:
        """Messages one by one. As in python-crfsuite, errors in `message` do not end the training."""
        for text in messages:
            try:
                self.message(text)
            except Exception as error:
                warnings.warn(f"message() raised {error!r:.200}", RuntimeWarning, stacklevel=2)

    def _before_train(self) -> None:
        """Called before training."""


class _Watch:
    """The callback of a training run: a message for each certificate.

    Parameters
    ----------
    waits : bool
        Whether the last iteration is only told when its performance is known.
    """

    def __init__(self, trainer: BaseTrainer, waits: bool):
        self.trainer, self.waits = trainer, waits
        self.began = self._before = time.perf_counter()
        self._n_told, self._waiting = 0, list[str]()

    def begin(self, problem: Any, encoder: Any) -> None:
        """Before training: how many features there are, and the parameters."""
        say, values = self.trainer._say, self.trainer.get_params()
        say(*_steps(), "\n", f"Number of features: {problem.n_weights}\n")
        say(f"Seconds required: {time.perf_counter() - self.began:.3f}\n", "\n", "Optimization by partwise\n")
        say(
            *(f"{name}: {_shown(values[name])}\n" for name in values if not name.startswith("feature.")), "\n"
        )
        self.began = self._before = time.perf_counter()

    def __call__(self, progress: Any) -> None:
        record, weights = progress.record, progress.weights
        if record is None:
            return
        self.flush()
        now, self._n_told = time.perf_counter(), self._n_told + 1
        self._waiting = [f"***** Iteration #{self._n_told} *****\n", f"Loss: {record.primal:.6f}\n"]
        if weights is not None:
            self._waiting.append(f"Feature norm: {float(np.linalg.norm(weights)):.6f}\n")
            self._waiting.append(f"Active features: {np.count_nonzero(weights)}\n")
        self._waiting.append(f"Relative duality gap: {record.relative_gap:.6f}\n")
        self._waiting.append(f"Seconds required for this iteration: {now - self._before:.3f}\n")
        self._before = now
        if not self.waits:
            self.flush()

    def flush(self, *more: str) -> None:
        """Tell the iteration that waits."""
        if self._waiting:
            self.trainer._say(*self._waiting, *more, "\n")
        self._waiting = []


class Trainer(BaseTrainer):
    """The methods of ``pycrfsuite.Trainer``: `BaseTrainer` whose messages are read, see `logparser`.

    Attributes
    ----------
    logparser : TrainLogParser or None
        What the messages of the last run said, iteration by iteration.

    Examples
    --------
    >>> from partwise.crfsuite import Trainer
    >>> trainer = Trainer("lbfgs", {"c1": 0.1, "c2": 0.01}, verbose=False)
    >>> trainer.append([["word=a"], {"word": "dog", "length": 3}], ["D", "N"])
    >>> trainer.train("model.crfsuite")
    """

    logparser: TrainLogParser | None = None

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()

    def message(self, message: str) -> None:
        """Read a message, and call the method of the event that it ends."""
        parser = self.logparser = self.logparser or TrainLogParser()
        event = parser.feed(message)
        if not self.verbose or event is None:
            return
        more = {"featgen_progress": (parser.featgen_percent,), "iteration": (parser.last_iteration,)}
        getattr(self, f"on_{event}")(parser.last_log, *more.get(event, ()))

    def on_start(self, log: str) -> None:
        """Training begins."""
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        """Features are made."""
        print(log, end="")

    def on_featgen_end(self, log: str) -> None:
        """Features have been made."""
        print(log, end="")

    def on_prepared(self, log: str) -> None:
        """The optimisation begins."""
        print(log, end="")

    def on_prepare_error(self, log: str) -> None:
        """The optimisation cannot begin."""
        print(log, end="")

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """An iteration has ended: a certificate of the weights so far."""
        print(log, end="")

    def on_optimization_end(self, log: str) -> None:
        """The optimisation has ended."""
        print(log, end="")

    def on_end(self, log: str) -> None:
        """The model has been written."""
        print(log, end="")


def _steps() -> list[str]:
    """The marks of progress that CRFsuite prints while it makes features."""
    return [text for tenth in range(10) for text in (str(tenth), ".", ".", ".", ".")] + ["10"]


def _shown(value: Any) -> str:
    return f"{value:f}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)


def _with_labels(model: CrfsuiteModel, order: Mapping[str, Any]) -> CrfsuiteModel:
    """The same model with its labels in another order."""
    place = {label: number for number, label in enumerate(order)}
    number = np.array([place[label] for label in model.labels], np.int64)
    before, after, weight = model.transitions
    source, target, own = model.states
    transitions, states = (
        Features(number[before], number[after], weight),
        Features(source, number[target], own),
    )
    return CrfsuiteModel(list(order), model.attributes, transitions, states)
