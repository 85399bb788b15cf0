"""Kernel functions: scikit-learn's by name, or any function of two matrices; and a test whether it is a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.errors import InputError

PRECOMPUTED = "precomputed"
_EXAMINED = 400  # Points whose kernel matrix is tested for negative eigenvalues: takes less than a second.
# Relative rounding error that is allowed in symmetry and eigenvalues, by precision.
_TOLERANCE = {"f": 1e-4, "d": 1e-8}


@dataclass(frozen=True)
class KernelFunction:
    """k(x, y) for all pairs of rows of two matrices.

    Attributes
    ----------
    kernel : str or callable
        A name that ``sklearn.metrics.pairwise.pairwise_kernels`` knows, "precomputed", or a function of two
        matrices that returns the matrix of their kernel values.
    settings : dict
        gamma, degree, coef0 and others. A named kernel ignores settings that it does not have.
    dtype : dtype
        float32 or float64, the type of points and values.
    """

    kernel: str | Callable[[np.ndarray, np.ndarray], np.ndarray]
    settings: Mapping[str, Any] = field(default_factory=dict)
    dtype: Any = np.float64

    @property
    def is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def between(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Checked kernel values, (n_X, n_Y)."""
        if not len(X) or not len(Y):
            return np.zeros((len(X), len(Y)), self.dtype)
        if callable(self.kernel):
            found = self.kernel(_read_only(X), _read_only(Y))
            values = np.asarray(found)
            if np.ma.is_masked(found):
                raise InputError("the kernel function returned an array with masked values")
            if values.dtype.kind not in "biuf":
                raise InputError(f"the kernel function returned an array of {values.dtype}, not of numbers")
        else:
            from sklearn.metrics.pairwise import pairwise_kernels

            values = pairwise_kernels(X, Y, metric=self.kernel, filter_params=True, **self.settings)
        if values.shape != (len(X), len(Y)):
            raise InputError(
                f"the kernel function returned shape {values.shape} for {len(X)} and {len(Y)} points; "
                f"({len(X)}, {len(Y)}) is needed"
            )
        if not np.isfinite(values).all():
            raise InputError("the kernel gives NaN or infinity for some pair of points")
        return np.ascontiguousarray(values, self.dtype)

    @classmethod
    def of(
        cls,
        kernel: Any,
        gamma: Any,
        degree: float,
        coef0: float,
        settings: Any,
        precision: str,
        X: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> KernelFunction:
        """A kernel function from an estimator's parameters. `gamma` may depend on the points X and their weights."""
        if precision not in ("single", "double"):
            raise InputError(f"precision must be 'single' or 'double', not {precision!r}")
        dtype = np.float32 if precision == "single" else np.float64
        if settings is not None and not isinstance(settings, Mapping):
            raise InputError(f"kernel_params must be a dict or None, not {settings!r:.60}")
        own = dict(settings or {})
        if callable(kernel):
            if own:
                raise InputError(
                    "kernel_params is for named kernels; bind the parameters of a function to it"
                )
            return cls(kernel, {}, dtype)
        from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

        names = sorted({PRECOMPUTED, *PAIRWISE_KERNEL_FUNCTIONS})
        if not isinstance(kernel, str) or kernel not in names:
            raise InputError(f"kernel must be a function or one of {', '.join(names)}, not {kernel!r:.60}")
        for name, value in (("degree", degree), ("coef0", coef0)):
            if not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
                raise InputError(f"{name} must be a finite number, not {value!r:.60}")
        shared = {"gamma": _width(gamma, X, weights, kernel), "degree": degree, "coef0": coef0}
        return cls(kernel, {**shared, **own}, dtype)


def _read_only(points: np.ndarray) -> np.ndarray:
    """A view that a kernel function cannot write to: the points are those of the model."""
    view = points.view()
    view.flags.writeable = False
    return view


def _width(gamma: Any, X: np.ndarray, weights: np.ndarray | None, kernel: str) -> float | None:
    """γ as in scikit-learn's SVC: "scale" is 1 / (d · variance), "auto" is 1 / d.

    A point of weight 2 counts twice, so that weighting an example is the same as repeating it.
    """
    if kernel == PRECOMPUTED:
        return None
    if isinstance(gamma, str) and gamma == "scale":
        variance = 0.0
        if X.size:
            mean = np.average(X.mean(axis=1), weights=weights)
            variance = float(np.average(((X - mean) ** 2).mean(axis=1), weights=weights))
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    if isinstance(gamma, str) and gamma == "auto":
        return 1.0 / max(X.shape[1], 1)
    if isinstance(gamma, (int, float, np.number)) and 0 <= gamma < np.inf:
        return float(gamma)
    raise InputError(f"gamma must be 'scale', 'auto' or a finite number >= 0, not {gamma!r:.60}")


def check_is_kernel(rows: Callable[[np.ndarray, np.ndarray], np.ndarray], n: int, dtype: Any) -> None:
    """Raise unless the kernel matrix of a sample of points is symmetric without negative eigenvalues.

    A negative eigenvalue of a principal submatrix proves that the whole matrix has one. The test of a sample cannot
    prove the opposite, so training has its own check.

    Parameters
    ----------
    rows : callable
        Returns the kernel values of some rows and columns.
    n : int
        Number of points.
    """
    chosen = np.arange(n)
    if n > _EXAMINED:
        chosen = np.sort(np.random.default_rng(0).choice(n, _EXAMINED, replace=False))
    values = np.asarray(rows(chosen, chosen), np.float64)
    tolerance = _TOLERANCE[np.dtype(dtype).char]
    size = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    if np.abs(values - values.T).max(initial=0.0) > tolerance * size:
        i, j = np.unravel_index(np.argmax(np.abs(values - values.T)), values.shape)
        raise InputError(
            f"not a kernel: k(x, y) is {values[i, j]:.6g} but k(y, x) is {values[j, i]:.6g} "
            f"for points {chosen[i]} and {chosen[j]}"
        )
    eigenvalues = np.linalg.eigvalsh(values)
    if eigenvalues[0] < -tolerance * max(eigenvalues[-1], size):
        raise InputError(
            f"not a kernel: its matrix of {len(chosen)} training points has the eigenvalue {eigenvalues[0]:.3g} "
            f"(the largest is {eigenvalues[-1]:.3g}); it must be positive semidefinite"
        )


def check_square(X: Any) -> Any:
    """A precomputed kernel matrix, after checking its shape."""
    shape = np.shape(X)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(
            f"a precomputed kernel must be square, one row and one column per training point; it has shape {shape}"
        )
    return X
