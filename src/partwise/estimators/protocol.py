"""Scikit-learn's estimator protocol without scikit-learn: what loads a model to predict must not import it.

`clone`, pipelines and searches ask estimators for methods, not for a base class. Those that answer with
scikit-learn's own objects (tags, routing, HTML) import it when they are called, and only then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from functools import update_wrapper
from types import MethodType
from typing import Any, ClassVar


class Estimator:
    """Parameters are the arguments of ``__init__``, kept unchanged under their names."""

    _accepts_sparse: ClassVar[bool] = False
    _requires_y: ClassVar[bool] = False

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(_defaults(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep : bool
            Also those of parameters that have parameters themselves, as ``name__inner``.
        """
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": each for inner, each in value.get_params().items()}
            found[name] = value
        return found

    def set_params(self, **parameters: Any) -> Any:
        """Set parameters by name, ``name__inner`` for those of a parameter; returns the estimator."""
        names = self._get_param_names()
        for name, value in parameters.items():
            own, _, inner = name.partition("__")
            if own not in names:
                raise ValueError(
                    f"Invalid parameter {own!r} for estimator {self}. Valid parameters are: {names!r}."
                )
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, own, value)
        return self

    def __repr__(self) -> str:
        """The parameters that are not at their defaults."""
        defaults = _defaults(type(self))
        values = {name: getattr(self, name, defaults[name]) for name in sorted(defaults)}
        shown = [
            f"{name}={value!r:.200}" for name, value in values.items() if _differs(value, defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """What notebooks show: facts about a fitted estimator, scikit-learn's view of any other."""
        if hasattr(self, "objective_"):
            from partwise.report.notebook import estimator_html

            return {"text/plain": repr(self), "text/html": estimator_html(self)}
        from sklearn.utils import estimator_html_repr

        return {"text/plain": repr(self), "text/html": estimator_html_repr(self)}

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        target_tags, input_tags = TargetTags(self._requires_y), InputTags(sparse=self._accepts_sparse)
        return Tags(estimator_type=None, target_tags=target_tags, input_tags=input_tags)

    # -- metadata routing -----------------------------------------------------------------------

    def get_metadata_routing(self) -> Any:
        """What scikit-learn's routing may hand to `fit` and `score` besides X and y."""
        if hasattr(self, "_metadata_request"):
            return deepcopy(self._metadata_request)
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        for method in ("fit", "score"):
            for name in _metadata(getattr(type(self), method)):
                getattr(request, method).add_request(param=name, alias=None)
        return request

    def set_fit_request(self, **requested: bool | str | None) -> Any:
        """Ask for metadata in `fit`, by name: ``set_fit_request(sample_weight=True)``."""
        return self._ask("fit", requested)

    def set_score_request(self, **requested: bool | str | None) -> Any:
        """Ask for metadata in `score`, by name."""
        return self._ask("score", requested)

    def _ask(self, method: str, requested: dict[str, Any]) -> Any:
        known = _metadata(getattr(type(self), method))
        for name in requested:
            if name not in known:
                raise TypeError(f"Unexpected args: {name}; {method} of {type(self).__name__} takes {known}")
        request = self.get_metadata_routing()
        for name, alias in requested.items():
            getattr(request, method).add_request(param=name, alias=alias)
        self._metadata_request = request
        return self


class ClassifierProtocol(Estimator):
    """What scikit-learn expects of classifiers besides."""

    _estimator_type = "classifier"
    _requires_y = True
    predict: Callable[[Any], Any]

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of examples whose class is predicted.

        Classes that were not in training can never be predicted and count as errors; a warning names them.
        """
        from sklearn.metrics import accuracy_score

        from partwise.estimators.labels import warn_of_unknown

        warn_of_unknown(self._labels_in(X, y), self._known_labels())  # type: ignore[attr-defined]
        return accuracy_score(y, self.predict(X), sample_weight=sample_weight)


class available_if:
    """Decorator of a method that is there only where ``condition(estimator)`` raises no AttributeError."""

    def __init__(self, condition: Callable[[Any], object]):
        self.condition = condition

    def __call__(self, method: Callable) -> Any:
        self.method = method
        return update_wrapper(self, method)

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:
            return self.method
        self.condition(estimator)
        return MethodType(self.method, estimator)


def not_fitted(estimator: Any) -> Exception:
    """The exception that scikit-learn raises in the same case."""
    from sklearn.exceptions import NotFittedError

    return NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call fit first")


def _defaults(cls: type) -> dict[str, Any]:
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    return {each.name: each.default for each in parameters}


def _differs(value: Any, default: Any) -> bool:
    return value is not default and repr(value) != repr(default)


def _metadata(method: Callable) -> list[str]:
    """Arguments of a method besides self, X and y."""
    return list(inspect.signature(method).parameters)[3:]
