"""What there is to say about a model: settings, certificate, sizes and largest weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.errors import InputError


@dataclass
class Summary:
    """A model in a few tables.

    Attributes
    ----------
    kind : str
        Class of the estimator.
    settings, sizes, certificate, training : dict of str to value
    top_features : list of (attribute, label, weight)
    top_transitions : list of (before, after, weight)
    history : list of dict
    tol : float
    """

    kind: str
    settings: dict[str, Any]
    sizes: dict[str, Any]
    certificate: dict[str, Any]
    training: dict[str, Any]
    top_features: list[tuple[str, Any, float]]
    top_transitions: list[tuple[Any, Any, float]]
    history: list[dict[str, float]]
    tol: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        features = [{"attribute": a, "label": str(b), "weight": w} for a, b, w in self.top_features]
        transitions = [{"before": str(a), "after": str(b), "weight": w} for a, b, w in self.top_transitions]
        return {
            "estimator": self.kind, "settings": self.settings, "sizes": self.sizes,
            "certificate": self.certificate, "training": self.training, "top_features": features,
            "top_transitions": transitions, "history": self.history,
        }  # fmt: skip


def summarize(model: Any, header: Mapping[str, Any], top: int = 20, label: str | None = None) -> Summary:
    """Summarize a loaded model.

    Parameters
    ----------
    model : SequenceLabeler, Classifier, DependencyParser, or a kernel form, which has support points, not weights
    header : dict
        Of its file.
    top : int
        How many of the largest weights.
    label : str or None
        Only weights of this label.
    """
    kind = str(header["estimator"])
    chosen = _label_named(model, label)
    features: list[tuple[Any, Any, float]] = []
    if kind == "Classifier":
        features = _class_features(model, top, chosen)
    elif not _is_kernel(model):
        features = model.top_features(top, chosen)
    transitions = _transitions(model, top, chosen) if kind == "SequenceLabeler" else []
    return Summary(
        kind=kind,
        settings=_settings(model, kind),
        sizes=_sizes(model, header, kind),
        certificate=_certificate(model),
        training=_training(header),
        top_features=features,
        top_transitions=transitions,
        history=[each for each in model.history_ if isinstance(each, dict)],
        tol=float(model.tol),
    )


def _is_kernel(model: Any) -> bool:
    return hasattr(model, "dual_coef_")


def _settings(model: Any, kind: str) -> dict[str, Any]:
    loss = Loss.of(model.loss)
    names = {"log": "log (CRF)", "hinge": "hinge (max-margin)"}
    settings: dict[str, Any] = {
        "loss": names.get(loss.name, loss.name), "beta": loss.beta, "gamma": loss.gamma, "l2": model.l2,
        "solver": str(model.solver), "tol": model.tol,
    }  # fmt: skip
    if _is_kernel(model):
        settings |= {"kernel": str(model.kernel)}
    if kind == "DependencyParser":
        settings |= {"structure": model.structure, "single root": model.single_root_, "cost": model.cost}
        settings["heads left by pruning"] = None if model._pruner is None else model._pruner.n_heads
    if kind == "SequenceLabeler":
        settings |= {"order": model.order, "scheme": model.scheme, "pairs": model.pairs}
        template = getattr(getattr(model, "_encoder", None), "template", None)
        if template is not None:
            settings["template"] = str(model.template or template.path or "given as text")
    return settings


def _sizes(model: Any, header: Mapping[str, Any], kind: str) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    if kind == "DependencyParser":
        sizes = {"relations": len(model.relations_), "arc features": model._encoder.n_attributes}
        sizes |= {"relation features": model._encoder.n_edge_attributes} if model.relations_ else {}
        sizes |= {"pruning recall": model.pruning_.recall} if model.pruning_ is not None else {}
    elif kind == "SequenceLabeler":
        sizes = {"labels": len(model.classes_)}
        sizes["attributes"] = int(model._encoder.n_dense + model._encoder.n_attributes)
    else:
        sizes = {"classes": len(model.classes_), "features": int(model.n_features_in_)}
    if _is_kernel(model):
        sizes |= {"support points": len(model.dual_coef_), "bound on the score error": model.score_error_}
    else:
        sizes["weights other than zero"] = int(np.count_nonzero(model.coef_))
    training = header.get("training")
    if isinstance(training, dict) and isinstance(training.get("n_examples"), int):
        sizes["training examples"] = training["n_examples"]
    return sizes


def _certificate(model: Any) -> dict[str, Any]:
    return {
        "primal": model.objective_,
        "dual": model.dual_objective_,
        "relative gap": model.duality_gap_,
        "kind": model.certificate_kind_,
        "converged": model.converged_,
        "passes": model.n_passes_,
        "stopped": model.stop_reason_,
    }


def _training(header: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line recorded; nothing for models saved from Python."""
    stored = header.get("training")
    if not isinstance(stored, dict):
        return {}
    training = {"data": stored.get("path"), "seconds": stored.get("seconds")}
    dev = stored.get("dev")
    if isinstance(dev, dict):
        training |= {f"dev {name}": dev.get(name) for name in ("accuracy", "f1", "f1_kind", "uas", "las")}
    return {name: value for name, value in training.items() if isinstance(value, (str, int, float))}


def _label_named(model: Any, label: str | None) -> Any:
    if label is None:
        return None
    names = {str(each): each for each in _labels(model)}
    if label not in names:
        known = ", ".join(list(names)[:20]) + (", …" if len(names) > 20 else "")
        raise InputError(f"the model has no label {label!r:.60}; it has {known}")
    return names[label]


def _labels(model: Any) -> list[Any]:
    return list(model.relations_) if hasattr(model, "relations_") else model.classes_.tolist()


def _transitions(model: Any, top: int, label: Any) -> list[tuple[Any, Any, float]]:
    if np.ndim(model.transition_coef_) > 2:
        return []
    found = model.top_transitions(len(model.classes_) ** 2)
    return [each for each in found if label is None or label in each[:2]][:top]


def _class_features(model: Any, top: int, label: Any) -> list[tuple[str, Any, float]]:
    """The largest entries of a classifier's (n_classes, n_features) weights."""
    labels = model.classes_.tolist()
    weights = np.atleast_2d(np.asarray(model.coef_))
    names = getattr(model, "feature_names_in_", ())
    names = names if len(names) == weights.shape[1] else [f"x{column}" for column in range(weights.shape[1])]
    if label is not None:
        keep = labels.index(label)
        weights, labels = weights[keep : keep + 1], [label]
    order = np.argsort(-np.abs(weights).ravel(), kind="stable")[:top]
    found = []
    for place in order.tolist():
        row, column = divmod(place, weights.shape[1])
        if weights[row, column]:
            found.append((str(names[column]), labels[row], float(weights[row, column])))
    return found
