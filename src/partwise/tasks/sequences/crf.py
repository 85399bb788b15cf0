"""`CRF`: sklearn_crfsuite's class over `SequenceLabeler`, so that its scripts run with another import."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass
from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.tasks.sequences.crf_views import CrfsuiteTagger, TrainingLog
from partwise.tasks.sequences.crfsuite_model import write_crfsuite
from partwise.tasks.sequences.labeler import SequenceLabeler

_WITHOUT_C2 = 0.01
_ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")


@dataclass(eq=False, repr=False)
class _Parameters:
    """The parameters of ``sklearn_crfsuite.CRF``, and five of partwise."""

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    verbose: bool = False
    tol: float = 1e-3
    random_state: Any = 0
    n_jobs: int | None = 1
    scheme: str | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    calibration_eta: float | None = None
    calibration_rate: float | None = None
    calibration_samples: int | None = None
    calibration_candidates: int | None = None
    calibration_max_trials: int | None = None
    pa_type: int | None = None
    c: float | None = None
    error_sensitive: bool | None = None
    averaging: bool | None = None
    variance: float | None = None
    gamma: float | None = None
    trainer_cls: Any = None
    model_filename: str | None = None
    keep_tempfiles: bool | None = None
    warm_start: bool = False


class CRF(_Parameters, SequenceLabeler):  # type: ignore[misc]
    """A conditional random field with the parameters of ``sklearn_crfsuite.CRF``.

    Parameters
    ----------
    algorithm : str
        Any of CRFsuite's names. "lbfgs" and "l2sgd" name the objective that is optimised here too, by
        partwise's own solver; "ap", "pa" and "arow" have no objective, and the CRF is trained instead.
    c1 : float
        CRFsuite's c1 ‖w‖₁; the same as ``l1 = c1``.
    c2 : float
        CRFsuite's c2 ‖w‖²; the same as ``l2 = 2 * c2``. The duality gap needs some of it: 0 becomes
        ``l2 = max(c1, 0.1) / 100``, and a warning says what that is proved to change.
    min_freq : float
        Attributes seen less often are dropped.
    max_iterations : int or None
        Most passes over the data; None is 200.
    all_possible_states, all_possible_transitions : bool
        Weights for (attribute, label) pairs not seen in training; transitions always have them here.
    verbose : bool
    tol, random_state, n_jobs, scheme
        As in :class:`~partwise.SequenceLabeler`.
    warm_start : bool
        `fit` starts from the weights of a model that was loaded, or from the last fit.
    model_filename : str or None
        Where `fit` saves the model, in partwise's own format.
    num_memories, …, keep_tempfiles
        Accepted with a warning: they steer CRFsuite's own optimisers and files.

    Attributes
    ----------
    attributes_ : list of str
        Attributes that have a weight.
    num_attributes_, size_ : int
        How many these are; bytes of the saved model.
    tagger_ : CrfsuiteTagger
        The methods of ``pycrfsuite.Tagger``, one object until the next fit.
    training_log_ : TrainingLog
        `iterations` and `last_iteration`.
    modelfile : SimpleNamespace
        `name` is the `model_filename`.
    """

    __init__ = _Parameters.__init__

    # What SequenceLabeler reads; not parameters here.
    loss = "log"
    solver = "auto"
    cost = "hamming"
    transitions = "all"
    order = 1
    template = hash_size = time_limit = memory_limit = callback = certificate_every = None

    @property
    def l2(self) -> float:  # type: ignore[override]
        if self.c2 == 0:
            return _WITHOUT_C2 * max(self.l1, 0.1)
        return 2.0 * (1.0 if self.c2 is None else self.c2)

    @property
    def l1(self) -> float:  # type: ignore[override]
        return 0.0 if self.c1 is None else self.c1

    @property
    def pairs(self) -> str:  # type: ignore[override]
        return "all" if self.all_possible_states else "observed"

    @property
    def max_passes(self) -> float:  # type: ignore[override]
        return 200 if self.max_iterations is None else self.max_iterations

    @property
    def min_count(self) -> int:  # type: ignore[override]
        return max(1, math.ceil(self.min_freq or 0))

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> CRF:  # type: ignore[override]
        """Train; with `verbose`, the accuracy on the development data is printed at the end."""
        self._check_translation()
        super().fit(X, y)
        if self.c2 == 0:
            warnings.warn(self._what_l2_changed(), stacklevel=2)
        if self.model_filename is not None:
            self.save(self.model_filename)
        if self.verbose and X_dev is not None:
            print(f"development accuracy {self.score(X_dev, y_dev):.4f}")
        return self

    def _set_certificate(self, solution: Any) -> None:
        super()._set_certificate(solution)
        in_own_words = self.stop_reason_.replace("max_passes", "max_iterations").replace(
            "raise l2", "raise c2"
        )
        self.stop_reason_ = in_own_words

    def predict(  # type: ignore[override]
        self, X: Any, fixed: Any = None, forbid: Any = None, decode: str = "viterbi"
    ) -> np.ndarray:
        """Best labels: an array of lists, as scikit-learn's ``cross_val_predict`` needs them."""
        return _array_of_lists(super().predict(X, fixed, forbid, decode))

    def predict_marginals(self, X: Any, fixed: Any = None, forbid: Any = None) -> np.ndarray:  # type: ignore[override]
        """Probabilities {label: probability} at every position: an array of lists of dicts."""
        return _array_of_lists(super().predict_marginals(X, fixed, forbid))

    def _what_l2_changed(self) -> str:
        """How far from an optimum without l2 the weights may be.

        There |v| ≤ l1 must hold, and holds for mixtures of the model's distributions with the true labels, whose v is
        0: the share of the former that keeps it is l1 / max |v|, and entropy is at least that share of theirs.
        """
        words = f"c2=0 was trained with l2={self.l2:g}, since the duality gap needs some of it"
        if self.certificate_kind_ == "local":
            return (
                f"{words}; labels that were not observed leave nothing to be proved of the optimum without it"
            )
        if not self.l1:
            return f"{words}; without any regulariser there may be no optimum"
        problem, weights = self._training.problem, self._training.weights
        model = problem.at_weights(weights, 1.0)
        entropy = float(problem.example_weight @ model.entropy)
        share = min(self.l1 / float(np.abs(model.v).max(initial=self.l1)), 1.0)
        plain = self.objective_ - 0.5 * self.l2 * float(weights @ weights)
        return f"{words}; the objective without it is proved within {1 - share * entropy / plain:.2%} of its optimum"

    @classmethod
    def _parameters_in_file(cls) -> list[str]:
        # A class cannot be saved, and gamma is a kernel's parameter in model files.
        return [name for name in super()._parameters_in_file() if name not in ("trainer_cls", "gamma")]

    @property
    def attributes_(self) -> list[str]:
        self._require_fitted()
        return self._encoder.names()

    @property
    def num_attributes_(self) -> int:
        return len(self.attributes_)

    @property
    def size_(self) -> int:
        from partwise.storage.model_file import size_of

        self._require_fitted()
        return size_of(self)

    @property
    def tagger_(self) -> CrfsuiteTagger:
        """The same object until the model changes, so that ``crf.tagger_.set(x)`` is remembered."""
        self._require_fitted()
        of_model, tagger = self.__dict__.get("_tagger", (None, None))
        if of_model is not self._model:
            tagger = CrfsuiteTagger(self)
            self._tagger = (self._model, tagger)
        return tagger

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_tagger", None)
        return state

    def write_crfsuite(self, path: str | os.PathLike[str], encoding: str = "utf-8") -> None:
        """Write the model as a file that CRFsuite, python-crfsuite and sklearn-crfsuite read.

        Parameters
        ----------
        path : path
        encoding : str
            Of the names of labels and attributes.
        """
        write_crfsuite(self, path, encoding)

    @property
    def training_log_(self) -> TrainingLog:
        self._require_fitted()
        return TrainingLog(self.history_)

    @property
    def modelfile(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.model_filename)

    def _check_translation(self) -> None:
        if self.algorithm is not None and self.algorithm not in _ALGORITHMS:
            raise InputError(f"algorithm must be one of {', '.join(_ALGORITHMS)}, not {self.algorithm!r}")
        for name in ("c1", "c2"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and 0 <= float(value) < math.inf):
                raise InputError(f"{name} must be a number >= 0 or None, not {value!r:.60}")
        if self.min_freq is not None and not (
            isinstance(self.min_freq, Real) and abs(self.min_freq) < math.inf
        ):
            raise InputError(f"min_freq must be a finite number or None, not {self.min_freq!r:.60}")
        if not isinstance(self.all_possible_states, (bool, int, np.bool_, type(None))):
            states = f"{self.all_possible_states!r:.60}"
            raise InputError(f"all_possible_states must be True, False or None, not {states}")
        ignored = [name for name in _OPTIMISER_SETTINGS if getattr(self, name) is not None]
        if self.algorithm in ("ap", "pa", "arow"):
            words = f"algorithm={self.algorithm!r} has no objective to optimise: a CRF is trained instead"
            warnings.warn(f"{words}, with c1={self.l1:g} and c2={self.l2 / 2:g}", stacklevel=3)
        if ignored:
            warnings.warn(
                f"settings of CRFsuite's optimisers have no effect here: {', '.join(ignored)}", stacklevel=3
            )


def _array_of_lists(lists: list[Any]) -> np.ndarray:
    result = np.empty(len(lists), object)
    result[:] = lists
    return result


_OPTIMISER_SETTINGS = (
    "num_memories", "epsilon", "period", "delta", "linesearch", "max_linesearch", "calibration_eta",
    "calibration_rate", "calibration_samples", "calibration_candidates", "calibration_max_trials", "pa_type",
    "c", "error_sensitive", "averaging", "variance", "gamma", "trainer_cls", "keep_tempfiles",
)  # fmt: skip
