"""`Tagger`: labels and probabilities from a model file of CRFsuite."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, closing
from typing import Any

from partwise.errors import InputError
from partwise.tasks.sequences.crf_views import CrfsuiteTagger, TaggerError
from partwise.tasks.sequences.crfsuite_model import model_from


class Tagger(CrfsuiteTagger):
    """The methods of ``pycrfsuite.Tagger``: open a model, then ask.

    Items may have all forms that :class:`ItemSequence` takes.

    Examples
    --------
    >>> from partwise.crfsuite import Tagger, Trainer
    >>> trainer = Trainer(params={"c2": 0.1}, verbose=False)
    >>> trainer.append([["word=a"], ["word=dog"]], ["D", "N"])
    >>> trainer.train("model.crfsuite")
    >>> with Tagger().open("model.crfsuite") as tagger:
    ...     tagger.tag([["word=a"], ["word=cat"]])
    ['D', 'N']
    """

    def __init__(self) -> None:
        self._open(None)

    def open(self, name: str | os.PathLike[str]) -> AbstractContextManager[Tagger]:
        """Open a model file. In a ``with`` statement, it is closed at the end.

        Parameters
        ----------
        name : path
        """
        with open(name, "rb") as handle:
            data = handle.read()
        try:
            self._open(model_from(data))
        except InputError as error:
            raise TaggerError(str(error), name) from None
        return closing(self)

    def open_inmemory(self, value: bytes) -> AbstractContextManager[Tagger]:
        """Open the bytes of a model file."""
        self._open(model_from(bytes(value)))
        return closing(self)

    def close(self) -> None:
        """Forget the model."""
        self._open(None)

    def __repr__(self) -> str:
        opened: Any = self._opened
        return f"<Tagger, {'closed' if opened is None else f'{len(opened.classes_)} labels'}>"
