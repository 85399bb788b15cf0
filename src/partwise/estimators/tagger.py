"""`Tagger` and `EntityTagger`: a fitted model for one example at a time, as services need it."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.estimators.entities import Entity


class Tagger:
    """A fitted model that answers one example at a time. ``model.tagger()`` makes it.

    Threads may share a tagger. It keeps the memory of a call for the next one, as many times as there are threads at
    work at once. A later `fit` of the model does not change it. Errors are those of the model's methods.

    Parameters
    ----------
    model : estimator
    """

    def __init__(self, model: Any):
        model._require_fitted()
        self._model = copy(model)

    @property
    def labels(self) -> list[Any]:
        """The labels that training saw."""
        return self._model._known_labels()

    def predict(self, x: Any) -> Any:
        """The best labelling of one example, as in the model's `predict`.

        Parameters
        ----------
        x
            One example, as `fit` takes a list of them.
        """
        return self._model.predict(self._model._alone(x))[0]

    def probabilities(self, x: Any) -> Any:
        """Probabilities for one example, as in the model's `predict_marginals` or `predict_proba`."""
        self._model._sharpness()  # raises if the loss has no probabilities
        return getattr(self._model, self._model._probability_method)(self._model._alone(x))[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"


class EntityTagger(Tagger):
    """A tagger of a model whose labellings have entities."""

    def entities(self, x: Any, threshold: float | None = None) -> list[Entity]:
        """The entities of one example with their exact probabilities, as in the model's `predict_entities`.

        Parameters
        ----------
        threshold : float, optional
            Return all entities with at least this probability, instead of those of the best labelling.
        """
        return self._model.predict_entities([x], threshold)[0]
