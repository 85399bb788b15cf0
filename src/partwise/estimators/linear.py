"""`LinearEstimator`: estimators whose scores are linear in features, with one weight per feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.core.checks import check_not_negative
from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.estimators.base import StructuredEstimator, n_threads
from partwise.estimators.model import LinearModel, compact
from partwise.structures.contract import Structure

if TYPE_CHECKING:
    from partwise.distributed import Engine
    from partwise.solvers import Solution


@dataclass(eq=False, repr=False, kw_only=True)
class LinearEstimator(StructuredEstimator):
    """Base of the estimators with features and weights.

    Parameters
    ----------
    l1 : float
        Strength of an additional l1 term, l1·‖w‖₁, which makes most weights zero.
    engine : None, "processes", "ray" or Engine
        Where training runs: None is this process. "processes" trains on shards of the data in several processes of
        this machine, "ray" in those of a Ray cluster. A ``partwise.distributed.ProcessEngine`` or ``RayEngine`` has
        more settings.
    """

    l1: float = 0.0
    engine: Any = None

    def _check_parameters(self) -> Loss:
        check_not_negative("l1", self.l1)
        return super()._check_parameters()

    def _engine(self) -> Engine | None:
        if self.engine is None:
            return None
        from partwise.distributed import engine_of

        return engine_of(self.engine)

    def _bound(
        self, structure: Structure, labels: Any, shapes: Any, rows: Mapping[str, RowData], **options: Any
    ) -> Problem:
        """Encoded data bound to structure, loss and regulariser; `options` are those of ``Problem.build``."""
        return Problem.build(
            structure,
            labels,
            shapes,
            rows,
            loss=self.loss,
            l2=self._l2,
            l1=self.l1,
            n_jobs=n_threads(self.n_jobs),
            **options,
        )


class CompactModel(LinearEstimator):
    """Base of the linear estimators that keep features and weights, without features whose weights are all zero.

    Attributes
    ----------
    coef_ : ndarray (n_weights,)
        All weights, kind after kind, rounded to single precision when training ends. The certificate is of the
        weights before rounding.
    """

    _encoder: Any
    _model: LinearModel
    _loss: Loss

    def _take_weights(self, solution: Solution, encoder: Any, data: Any) -> None:
        problem = solution.problem
        self._encoder, self._model = compact(
            problem.structure, encoder, problem.scorer.maps, solution.weights
        )
        self._loss = problem.loss

    def _structure_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a model file says of structure and encoder: entries of the header, and arrays."""
        raise NotImplementedError

    def _structure_from(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> tuple[Structure, Any]:
        """Structure and encoder from what `_structure_state` returned; sets fitted attributes."""
        raise NotImplementedError

    def _model_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = self._structure_state()
        return header, self._model.state(self._encoder.sizes) | arrays

    def _set_model_state(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        structure, self._encoder = self._structure_from(header, arrays)
        self._model = LinearModel.from_state(structure, self._encoder.sizes, arrays)
        self._loss = Loss.of(self.loss)

    def _fitted_model(self) -> LinearModel:
        if not hasattr(self, "_model"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._model

    @property
    def coef_(self) -> np.ndarray:
        """All weights, kind after kind."""
        return self._fitted_model().own_weights
