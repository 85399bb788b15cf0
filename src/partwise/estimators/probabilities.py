"""Probabilities of a trained model: how sharp its scores make them, and calibration."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from partwise.core.losses import Loss
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.estimators.tagger import Tagger

# Attributes that calibration sets besides the temperature. They are of the model as it was: `fit` removes them.
GUARANTEES = ("calibration_", "entity_map_", "conformal_", "risk_controls_")


class Probabilities:
    """What all estimators' predictions share; their fits set `temperature_` to 1.

    Attributes
    ----------
    temperature_ : float
        What scores are divided by before they are probabilities; see :meth:`calibrate`.
    calibration_ : Calibration
        What :meth:`calibrate` found, where it was called.
    """

    loss: str | Loss
    temperature_: float = 1.0
    _probability_method: ClassVar[str] = "predict_marginals"

    def tagger(self) -> Tagger:
        """The fitted model for one example at a time, as services need it; threads may share it."""
        from partwise.estimators.tagger import Tagger

        return Tagger(self)

    def calibrate(self, X: Any, y: Any) -> Any:
        """Choose how sharp probabilities are by labelled data that training has not seen (temperature scaling).

        All scores are divided by one number, `temperature_`, so that best labellings stay what they are: above 1
        where the model was too sure of itself. It is the one at which the parts of these data have the best
        logarithmic score. `fit` sets it back to 1.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        self
            With `temperature_`, and `calibration_`: the expected calibration error and the logarithmic score of these
            data before and after.
        """
        self._require_fitted()  # type: ignore[attr-defined]
        self._sharpness()  # where there are no probabilities, this says so
        # By name: what looks at probabilities beside the truth stands on estimators.
        return import_module("partwise.tasks.calibration").calibrate(self, X, y)

    def _sharpness(self) -> float:
        """What scores are multiplied by before they are probabilities: β over the temperature."""
        return sharpness(self._trained_loss) / self.temperature_

    def _scale(self) -> float:
        """The same, and 1 where the loss has no probabilities."""
        return 1.0 if self._trained_loss.is_hard else self._sharpness()

    @property
    def _trained_loss(self) -> Loss:
        self._require_fitted()  # type: ignore[attr-defined]
        return getattr(self, "_loss", None) or Loss.of(self.loss)


def sharpness(loss: Loss) -> float:
    """β of a loss that has probabilities, before calibration."""
    if loss.is_hard:
        raise InputError(
            f"loss={loss.name!r} has beta = inf and so no probabilities: use predict_kbest for "
            "scores, or train with 'log', 'softmax_margin' or Loss(beta, gamma) with a finite beta"
        )
    return loss.beta
