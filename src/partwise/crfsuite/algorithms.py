"""CRFsuite's five training algorithms: their parameters, and what partwise trains in their place."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from partwise.errors import InputError
from partwise.tasks.sequences.crf import CRF
from partwise.tasks.sequences.labeler import SequenceLabeler

ALIASES = {"averaged-perceptron": "ap", "passive-aggressive": "pa"}
# Without slack variables, passive-aggressive updates have no upper bound. This l2 makes it 1e9.
_NO_BOUND = 1e-9


class Parameter(NamedTuple):
    """A parameter of an algorithm.

    Attributes
    ----------
    default : bool, int, float or str
        Values are of the same type.
    help : str
    is_used : bool
        False for settings of CRFsuite's own optimisers.
    """

    default: Any
    help: str
    is_used: bool = True

    def read(self, name: str, value: Any) -> Any:
        """A value from what users set, text included."""
        kind = type(self.default)
        try:
            if kind is str:
                return str(value)
            number = float(value)
            if not math.isfinite(number) or (kind is not float and number != int(number)):
                raise ValueError
            return kind(number)
        except (TypeError, ValueError, OverflowError):
            names = {bool: "0 or 1", int: "a whole number", float: "a number"}
            raise InputError(f"{name} must be {names[kind]}, not {value!r:.40}") from None


_FEATURES = {
    "feature.minfreq": Parameter(0.0, "Attributes seen less often are dropped."),
    "feature.possible_states": Parameter(False, "Weights for all pairs of attributes and labels."),
    "feature.possible_transitions": Parameter(
        False, "Weights for all transitions; they always have them here.", False
    ),
}
_OWN = {
    "tol": Parameter(1e-3, "Relative duality gap to stop at."),
    "n_jobs": Parameter(1, "Threads."),
}
_PASSES = {"max_iterations": Parameter(100, "Passes over the data.")}
_STOPPING = {
    "period": Parameter(10, "Of CRFsuite's stopping rule.", False),
    "delta": Parameter(1e-5, "Of CRFsuite's stopping rule; tol replaces it.", False),
}
_L2 = {"c2": Parameter(1.0, "Strength of the L2 regulariser, c2 times the squared norm of the weights.")}

ALGORITHMS: dict[str, dict[str, Parameter]] = {
    "lbfgs": {
        **_FEATURES,
        "c1": Parameter(0.0, "Strength of the L1 regulariser, c1 times the sum of absolute weights."),
        **_L2,
        "max_iterations": Parameter(2**31 - 1, "Most passes over the data."),
        "num_memories": Parameter(6, "Of CRFsuite's L-BFGS.", False),
        "epsilon": Parameter(1e-5, "Of CRFsuite's stopping rule; tol replaces it.", False),
        **_STOPPING,
        "linesearch": Parameter("MoreThuente", "Of CRFsuite's L-BFGS.", False),
        "max_linesearch": Parameter(20, "Of CRFsuite's L-BFGS.", False),
        **_OWN,
    },
    "l2sgd": {
        **_FEATURES,
        **_L2,
        "max_iterations": Parameter(1000, "Most passes over the data."),
        **_STOPPING,
        "delta": Parameter(1e-6, "Of CRFsuite's stopping rule; tol replaces it.", False),
        "calibration.eta": Parameter(0.1, "Of CRFsuite's learning rate.", False),
        "calibration.rate": Parameter(2.0, "Of CRFsuite's learning rate.", False),
        "calibration.samples": Parameter(1000.0, "Of CRFsuite's learning rate.", False),
        "calibration.candidates": Parameter(10, "Of CRFsuite's learning rate.", False),
        "calibration.max_trials": Parameter(20, "Of CRFsuite's learning rate.", False),
        **_OWN,
    },
    "ap": {**_FEATURES, **_PASSES, "epsilon": Parameter(0.0, "Of CRFsuite's stopping rule.", False)},
    "pa": {
        **_FEATURES,
        "type": Parameter(1, "0: updates without a bound; 1: bounded by c (PA-I). 2 (PA-II) is not known here."),
        "c": Parameter(1.0, "The most that one sequence moves the weights."),
        "error_sensitive": Parameter(True, "The margin grows with the number of wrong labels: always here.", False),
        "averaging": Parameter(True, "The weights are averaged: always here.", False),
        **_PASSES,
        "epsilon": Parameter(0.0, "Of CRFsuite's stopping rule.", False),
    },
}  # fmt: skip


def parameters_of(algorithm: str, kind: str = "crf1d") -> tuple[str, dict[str, Parameter]]:
    """An algorithm's short name and its parameters; an error if partwise has nothing in its place."""
    name = algorithm.lower() if isinstance(algorithm, str) else algorithm
    name = ALIASES.get(name, name)
    if kind != "crf1d":
        raise InputError(f"type must be 'crf1d', not {kind!r:.40}")
    if name == "arow":
        raise InputError("algorithm 'arow' has no counterpart here; use 'pa', or 'lbfgs' for a CRF")
    if name not in ALGORITHMS:
        raise InputError(f"algorithm must be one of {', '.join(ALGORITHMS)}, not {algorithm!r:.40}")
    return name, ALGORITHMS[name]


def estimator_for(
    algorithm: str, values: Mapping[str, Any], changed: Collection[str], callback: Callable[..., Any]
) -> SequenceLabeler:
    """The estimator to train, unfitted; a warning names parameters that were changed and have no effect."""
    own = ALGORITHMS[algorithm]
    ignored = [name for name in changed if not own[name].is_used and values[name] != own[name].default]
    ignored = [name for name in ignored if name != "feature.possible_transitions"]
    if ignored:
        warnings.warn(f"settings that have no effect here: {', '.join(ignored)}", stacklevel=3)
    estimator = _ESTIMATORS[algorithm](values)
    estimator.callback = callback
    return estimator


def _crf(values: Mapping[str, Any]) -> SequenceLabeler:
    return CRF(
        c1=values.get("c1", 0.0),
        c2=values["c2"],
        min_freq=values["feature.minfreq"],
        all_possible_states=values["feature.possible_states"],
        max_iterations=values["max_iterations"],
        tol=values["tol"],
        n_jobs=values["n_jobs"],
    )


def _perceptron(values: Mapping[str, Any]) -> SequenceLabeler:
    return SequenceLabeler("perceptron", solver="perceptron", **_online(values))


def _passive_aggressive(values: Mapping[str, Any]) -> SequenceLabeler:
    if values["type"] not in (0, 1):
        raise InputError(f"type must be 0 or 1 (PA-I), not {values['type']}: PA-II has no counterpart here")
    if not values["c"] > 0:
        raise InputError(f"c must be above 0, not {values['c']:g}")
    l2 = 1.0 / values["c"] if values["type"] else _NO_BOUND
    return SequenceLabeler("hinge", l2=l2, solver="mira", **_online(values))


def _online(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "max_passes": values["max_iterations"],
        "min_count": max(1, math.ceil(values["feature.minfreq"])),
        "pairs": "all" if values["feature.possible_states"] else "observed",
    }


_ESTIMATORS: dict[str, Callable[[Mapping[str, Any]], SequenceLabeler]] = {
    "lbfgs": _crf,
    "l2sgd": _crf,
    "ap": _perceptron,
    "pa": _passive_aggressive,
}
