"""Facts about a model: settings, certificate, sizes and largest weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partwise.core.losses import Loss
from partwise.errors import InputError


@dataclass
class Summary:
    """Facts about a model, as tables.

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
    model : fitted estimator
    header : dict
        The header of its file.
    top : int
        How many of the largest weights.
    label : str or None
        Only weights of this label.
    """
    chosen = _label_named(model, label)
    return Summary(
        kind=str(header["estimator"]),
        settings=_settings(model),
        sizes=_sizes(model, header),
        certificate=_certificate(model),
        training=_training(header),
        top_features=model.top_features(top, chosen) if model._has_weights else [],
        top_transitions=model._shown_transitions(top, chosen),
        history=[each for each in model.history_ if isinstance(each, dict)],
        tol=float(model.tol),
    )


def _settings(model: Any) -> dict[str, Any]:
    loss = Loss.of(model.loss)
    names = {"log": "log (CRF)", "hinge": "hinge (max-margin)"}
    return {
        "loss": names.get(loss.name, loss.name), "beta": loss.beta, "gamma": loss.gamma,
        "l2": getattr(model, "l2_", model.l2),
        **({"l1": model.l1} if getattr(model, "l1", 0.0) else {}),
        "solver": str(model.solver), "tol": model.tol, **model._shown_settings(),
    }  # fmt: skip


def _sizes(model: Any, header: Mapping[str, Any]) -> dict[str, Any]:
    sizes = model._shown_sizes()
    training = header.get("training")
    if isinstance(training, dict) and isinstance(training.get("n_examples"), int):
        sizes["training examples"] = training["n_examples"]
    return sizes


def _certificate(model: Any) -> dict[str, Any]:
    if math.isnan(model.objective_):  # weights from elsewhere, of which nothing is proved
        return {"stopped": model.stop_reason_}
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
    """The training record of the command line; empty for models saved from Python."""
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
    names = {str(each): each for each in model._known_labels()}
    if label not in names:
        known = ", ".join(list(names)[:20]) + (", …" if len(names) > 20 else "")
        raise InputError(f"the model has no label {label!r:.60}; it has {known}")
    return names[label]
