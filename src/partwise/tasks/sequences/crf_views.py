"""What sklearn_crfsuite.CRF shows of a trained model besides weights: its tagger and its training log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.errors import InputError
from partwise.storage.crfsuite_file import file_header
from partwise.tasks.sequences.crfsuite_model import crfsuite_bytes, crfsuite_model_of
from partwise.tasks.sequences.item_sequence import ItemSequence

if TYPE_CHECKING:
    from partwise.tasks.sequences.crf import CRF


class TaggerError(InputError, RuntimeError):
    """A tagger was asked what it cannot answer. python-crfsuite raises a ValueError or a RuntimeError then."""


class CrfsuiteTagger:
    """The methods of ``pycrfsuite.Tagger`` over a fitted model."""

    def __init__(self, model: CRF):
        self._open(model)

    def _open(self, model: CRF | None) -> None:
        self._opened = model
        self._sequence: list[Any] | None = None
        self._marginals: list[list[float]] | None = None
        self._numbers: dict[Any, int] = {}

    @property
    def _model(self) -> CRF:
        if self._opened is None:
            raise TaggerError("the tagger is not open: call open(path) first")
        return self._opened

    def labels(self) -> list[Any]:
        """All labels."""
        return self._model.classes_.tolist()

    def set(self, xseq: Any) -> None:
        """Choose the sequence that the other methods are about."""
        self._model  # noqa: B018 - raises if the tagger is closed
        self._sequence = xseq.items() if isinstance(xseq, ItemSequence) else list(xseq)
        self._marginals = None

    def tag(self, xseq: Any = None) -> list[Any]:
        """The best labels, of `xseq` if it is given."""
        return self._answer(lambda model, x: model.predict_single(x), xseq)

    def marginal(self, y: Any, pos: int) -> float:
        """Probability of label `y` at position `pos`."""
        if self._marginals is None:
            self._marginals = self._answer(lambda model, x: model.predict_marginals_array([x])[0].tolist())
            self._numbers = {label: number for number, label in enumerate(self.labels())}
        if not 0 <= pos < len(self._marginals) or y not in self._numbers:
            raise TaggerError(
                f"there is no position {pos!r:.20} of {len(self._marginals)} with a label {y!r:.60}"
            )
        return self._marginals[pos][self._numbers[y]]

    def probability(self, yseq: Any) -> float:
        """Probability of a whole sequence of labels; 0 for an empty sequence, as in python-crfsuite."""
        labels = list(yseq)
        known = set(self.labels())
        unknown = [label for label in labels if label not in known]
        if unknown:
            raise TaggerError(f"the model has no label {unknown[0]!r:.60}")

        def answer(model: CRF, x: Any) -> float:
            if len(x) != len(labels):
                raise TaggerError(f"the sequence has {len(x)} items, and there are {len(labels)} labels")
            return float(np.exp(model.predict_log_proba_of([x], [labels])[0])) if labels else 0.0

        return self._answer(answer)

    def info(self) -> SimpleNamespace:
        """All weights: `transitions`, `state_features`, `labels` and `attributes` by name, and the file's `header`."""
        model = self._model
        return SimpleNamespace(
            header=file_header(crfsuite_bytes(model)),
            labels={label: str(number) for number, label in enumerate(self.labels())},
            attributes={name: str(number) for number, name in enumerate(model.attributes_)},
            transitions=model.transition_features_,
            state_features=model.state_features_,
        )

    def dump(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write the model as text, in CRFsuite's layout, to a file or to standard output."""
        from partwise.storage.atomic import write_atomically

        text = "".join(self._dumped())
        if filename is None:
            sys.stdout.write(text)
        else:
            data = text.encode("utf-8", "surrogateescape")
            write_atomically(filename, lambda handle: handle.write(data))

    def _dumped(self) -> Iterator[str]:
        model = crfsuite_model_of(self._model)
        yield "FILEHEADER = {\n"
        yield from (f"  {name}: {value}\n" for name, value in self.info().header.items())
        for title, names in (("LABELS", model.labels), ("ATTRIBUTES", model.attributes)):
            yield f"}}\n\n{title} = {{\n"
            yield from (f"  {number:5d}: {name}\n" for number, name in enumerate(names))
        kinds = (("TRANSITIONS", 1, model.labels, model.transitions),
                 ("STATE_FEATURES", 0, model.attributes, model.states))  # fmt: skip
        for title, kind, names, features in kinds:
            yield f"}}\n\n{title} = {{\n"
            for source, target, weight in zip(*(each.tolist() for each in features), strict=True):
                yield f"  ({kind}) {names[source]} --> {model.labels[target]}: {weight:f}\n"
        yield "}\n\n"

    def _answer(self, answer: Any, xseq: Any = None) -> Any:
        """The answer of the model; also for items that only python-crfsuite knows, such as names in bytes."""
        if xseq is not None:
            self.set(xseq)
        model, sequence = self._model, self._sequence
        if sequence is None:
            raise TaggerError("there is no sequence yet: call set(xseq) first")
        try:
            return answer(model, sequence)
        except TaggerError:
            raise
        except InputError:
            self._sequence = ItemSequence(sequence).items()
            return answer(model, self._sequence)


class TrainingLog:
    """The certificates of a training run under the names that ``sklearn_crfsuite`` gives to iterations.

    Attributes
    ----------
    iterations : list of dict
        num (passes), loss (the objective), dual, gap and time (seconds since the one before) of every certificate.
    """

    def __init__(self, history: list[dict[str, Any]]):
        before, self.iterations = 0.0, []
        for record in history:
            known = {"num": record["passes"], "loss": record["primal"], "dual": record["dual"]}
            self.iterations.append({**known, "gap": record["gap"], "time": record["seconds"] - before})
            before = record["seconds"]

    @property
    def last_iteration(self) -> dict[str, Any]:
        """The last certificate."""
        if not self.iterations:
            raise InputError("this model was not trained here, so there is no training log")
        return self.iterations[-1]
