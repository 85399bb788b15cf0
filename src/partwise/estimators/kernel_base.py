"""What the two kernel machines share: the kernel's parameters, the solvers that can, training, saving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from partwise.core.checks import check_positive
from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.estimators.base import Fitted, StructuredEstimator, n_threads
from partwise.estimators.saving import stored_labels
from partwise.mercer.functions import PRECOMPUTED, KernelFunction
from partwise.mercer.gram import Gram
from partwise.mercer.problem import KernelProblem
from partwise.mercer.support import Support
from partwise.solvers import SOLVERS
from partwise.structures.contract import Structure

if TYPE_CHECKING:
    from partwise.solvers import Solution


class KernelData(NamedTuple):
    """What kernel machines are trained on.

    Attributes
    ----------
    X : float64 array, shape (n_points, n_features)
    codes : int64 array, shape (n_points,)
        Numbers of the labels.
    lengths : int64 array, shape (n_examples,)
    weights : float64 array, shape (n_examples,), or None
    structure : Structure
    function : KernelFunction
    second : int64 array or None
        The positions that edge rows belong to, if edges have kernels.
    kept : int64 array, shape (n_points,), or None
        For a precomputed kernel, the numbers of the points in the matrix, whose size is `n_given`.
    n_given : int
    """

    X: np.ndarray
    codes: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray | None
    structure: Structure
    function: KernelFunction
    second: np.ndarray | None = None
    kept: np.ndarray | None = None
    n_given: int = 0


class FittedSupport(Fitted):
    """Attributes that training a kernel machine sets."""

    _support: Support
    classes_: np.ndarray
    n_features_in_: int


@dataclass(eq=False, repr=False)
class KernelEstimator(FittedSupport, StructuredEstimator):
    """Base of :class:`KernelSequenceLabeler` and :class:`KernelClassifier`.

    Parameters
    ----------
    solver : str or Solver
        "auto", an "eg" solver, "bcfw" or "excessive-gap".
    kernel : str or callable
        "linear", "poly", "rbf" or another kernel of ``sklearn.metrics.pairwise``; "precomputed" if X has rows of the
        kernel matrix; or a function of two matrices that returns the matrix of their kernel values.
    gamma, degree, coef0
        Parameters of named kernels, as in scikit-learn's ``SVC``.
    kernel_params : dict or None
        More parameters of a named kernel.
    precision : {"double", "single"}
        Precision of the kernel matrix. Single precision needs half the memory and time, and reaches gaps of about
        1e-5.
    cache_mb : float
        Megabytes for kernel matrices. Rows that do not fit are computed again when they are needed.
    support_tol : float
        Training points are dropped as long as this changes no score of a part by more than `support_tol`.

    Attributes
    ----------
    support_vectors_ : ndarray (n_support, n_features)
        With a precomputed kernel there is ``support_`` instead, the numbers of the training points.
    score_error_ : float
        Bound on the change of a part's score by dropped points, for points with k(x, x) as in training.
    n_features_in_ : int
    """

    loss: str | Loss = "hinge"
    max_passes: float = 1000
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 0.0
    kernel_params: dict[str, Any] | None = None
    precision: str = "double"
    cache_mb: float = 1000.0
    support_tol: float = 1e-4
    cost: str | np.ndarray = "hamming"

    _keeps_training = True

    @classmethod
    def _parameters_in_file(cls) -> list[str]:
        return [name for name in super()._parameters_in_file() if name != "kernel_params"]

    def _check_parameters(self) -> Loss:
        loss = super()._check_parameters()
        solver = SOLVERS.get(self.solver) if isinstance(self.solver, str) else self.solver
        if solver is not None and solver.needs.features:  # before the kernel matrix is computed
            able = [name for name, each in SOLVERS.items() if not each.needs.features]
            raise InputError(
                f"solver {solver.name!r} needs features; with a kernel there are auto, {', '.join(able)}"
            )
        check_positive("cache_mb", self.cache_mb)
        if not isinstance(self.support_tol, (int, float)) or not 0 <= self.support_tol < np.inf:
            raise InputError(f"support_tol must be a finite number >= 0, not {self.support_tol!r:.60}")
        return loss

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed()
        return tags

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def _kernel_function(self, X: np.ndarray, weights: np.ndarray | None = None) -> KernelFunction:
        return KernelFunction.of(
            self.kernel, self.gamma, self.degree, self.coef0, self.kernel_params, self.precision, X, weights
        )

    def _build(self, data: KernelData) -> tuple[Problem, None]:
        share = 1.0 if data.second is None else 0.5
        gram = Gram.of_points(data.function, data.X, share * self.cache_mb)
        grams = {"node": gram}
        if data.second is not None:
            grams["edge"] = Gram.of_neighbours(gram, data.second, share * self.cache_mb)
        problem = KernelProblem.of_kernels(
            data.structure, data.codes, data.lengths, grams, loss=self.loss, l2=self._l2, cost=self.cost,
            example_weight=data.weights, n_jobs=n_threads(self.n_jobs),
        )  # fmt: skip
        return problem, None

    def _take_weights(self, solution: Solution, encoder: None, data: KernelData) -> None:
        problem: Any = solution.problem
        support = Support.of(problem, solution.weights, data.X, data.function, data.second, self.support_tol)
        if data.kept is not None:
            support = replace(support, points=data.kept[support.points], n_features=data.n_given)
        self._support = support

    # -- answers --------------------------------------------------------------------------------

    _has_weights = False

    def _shown_settings(self) -> dict[str, Any]:
        return {"kernel": str(self.kernel)}

    def _shown_sizes(self) -> dict[str, Any]:
        return {
            "classes": len(self.classes_),
            "features": int(self.n_features_in_),
            "support points": len(self.dual_coef_),
            "bound on the score error": self.score_error_,
        }

    # -- fitted attributes ----------------------------------------------------------------------

    @property
    def support_vectors_(self) -> np.ndarray:
        """Points that scores are computed from, (n_support, n_features)."""
        if self._fitted_support().function.is_precomputed:
            raise AttributeError("with a precomputed kernel there are no support vectors, only support_")
        return self._fitted_support().points

    @property
    def support_(self) -> np.ndarray:
        """Numbers of the training points that scores are computed from, for a precomputed kernel."""
        if not self._fitted_support().function.is_precomputed:
            raise AttributeError("points may have been merged: see support_vectors_")
        return self._fitted_support().points

    @property
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the support points, (n_support, n_labels)."""
        return self._fitted_support().node

    @property
    def score_error_(self) -> float:
        """Bound on what leaving out all other points does to the score of a part."""
        return self._fitted_support().score_error

    def _fitted_support(self) -> Support:
        if not hasattr(self, "_support"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._support

    # -- model files ----------------------------------------------------------------------------

    def _model_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        kernel, arrays = self._support.state()
        return {"kernel": kernel}, arrays

    def _set_support(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], edges: bool
    ) -> list[Any]:
        """Take over the support points of a model file; returns the labels."""
        labels = stored_labels(header)
        self._support = Support.from_state(header.get("kernel"), arrays, len(labels), edges)
        self.n_features_in_ = self._support.n_features
        return labels
