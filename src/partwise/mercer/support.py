"""Support points of a trained kernel machine, their coefficients, and scores of new points.

The scores of a point x are Σ_t k(x, x_t) b_t over training points t. Leaving out a set of points changes the score of
label j by at most √k(x, x) Σ_t √k(x_t, x_t) |b_{t,j}|, summed over the points left out. Points with the smallest
terms are left out first, as long as this bound is below a tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.core.arrays import after_the_first
from partwise.errors import InputError
from partwise.mercer.functions import PRECOMPUTED, KernelFunction
from partwise.mercer.problem import KernelProblem
from partwise.storage.checks import expect_array, expect_number, expect_text

_BYTES_AT_WORK = 2**26  # Bytes of kernel values that are computed at a time when scores are computed.
_SETTINGS = ("gamma", "degree", "coef0")


@dataclass(frozen=True)
class Support:
    """Support points of a trained model.

    Attributes
    ----------
    function : KernelFunction
    points : ndarray (n_support, n_features)
        For a precomputed kernel, the indices of the training points, int64 (n_support,).
    n_features : int
    node : ndarray (n_support, n_labels)
        Coefficients of the weights.
    second : ndarray (n_edges,) of int64 or None
        Support points that are the second ones of pairs of neighbours. The first is the support point before.
    edge : ndarray (n_edges, n_labels²) or None
    score_error : float
        Bound on the error of any part's score that is caused by the points left out. It holds for a point x if k(x, x)
        is no larger than that of every training point.
    """

    function: KernelFunction
    points: np.ndarray
    n_features: int
    node: np.ndarray
    second: np.ndarray | None
    edge: np.ndarray | None
    score_error: float

    @classmethod
    def of(
        cls,
        problem: KernelProblem,
        weights: np.ndarray,
        points: np.ndarray,
        function: KernelFunction,
        second: np.ndarray | None,
        tolerance: float,
    ) -> Support:
        """The support points of `weights`. `second` are the positions of the edge rows."""
        dtype, grams = function.dtype, problem.grams
        node = _coefficients(problem, "node", weights)
        kept, error = _negligible(node, grams["node"].diagonal(), tolerance)
        edge = None
        if second is not None and "edge" in grams:
            edge = _coefficients(problem, "edge", weights)
            kept_edges, edge_error = _negligible(edge, grams["edge"].diagonal(), tolerance)
            edge, second, error = edge[kept_edges].astype(dtype), second[kept_edges], max(error, edge_error)
            kept = np.union1d(kept, np.concatenate([second, second - 1]))
            second = np.searchsorted(kept, second)
        chosen = kept if function.is_precomputed else np.ascontiguousarray(points[kept], dtype)
        return cls(function, chosen, points.shape[1], node[kept].astype(dtype), second, edge, error)

    def scores(self, X: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Node scores (n_positions, n_labels) and edge scores (n_edges, n_labels²) of the sequences in X."""
        nodes = np.zeros((len(X), self.node.shape[1]))
        followers = after_the_first(lengths)
        edges = None if self.edge is None else np.zeros((len(followers), self.edge.shape[1]))
        for first, last in _whole_sequences(lengths, max(1, len(self.points)) * nodes.itemsize):
            values = self._values(X[first:last])
            nodes[first:last] = values @ self.node
            if edges is not None:
                own = slice(*np.searchsorted(followers, (first, last)))
                inside = followers[own] - first
                here, before = values[inside][:, self.second], values[inside - 1][:, self.second - 1]  # type: ignore
                edges[own] = (1 + here * before) @ self.edge
        return nodes, edges

    def _values(self, X: np.ndarray) -> np.ndarray:
        if self.function.is_precomputed:
            return np.ascontiguousarray(X[:, self.points], self.function.dtype)
        return self.function.between(np.ascontiguousarray(X, self.function.dtype), self.points)

    # -- model files ----------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        if callable(self.function.kernel):
            raise InputError(
                "a model whose kernel is a function cannot be saved, since model files hold no code: use a named "
                "kernel or a precomputed one, or pickle the estimator"
            )
        names = {name: self.function.settings.get(name) for name in _SETTINGS}
        others = set(self.function.settings) - set(_SETTINGS)
        if others:
            raise InputError(f"kernel_params {', '.join(sorted(others))} cannot be saved in a model file")
        header = {
            "name": self.function.kernel,
            "precision": "single" if self.function.dtype == np.float32 else "double",
            "n_features": self.n_features,
            "score_error": self.score_error,
            "settings": {k: None if v is None else float(v) for k, v in names.items()},
        }
        arrays = {"support": self.points, "node_coefficient": self.node}
        if self.edge is not None and self.second is not None:
            arrays |= {"edge_second": self.second, "edge_coefficient": self.edge}
        return header, arrays

    @classmethod
    def from_state(cls, header: Any, arrays: Mapping[str, np.ndarray], n_labels: int, edges: bool) -> Support:
        from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

        if not isinstance(header, Mapping) or not isinstance(header.get("settings"), Mapping):
            raise InputError("the kernel is missing")
        name = expect_text(header, "name", (PRECOMPUTED, *PAIRWISE_KERNEL_FUNCTIONS))
        stored = header["settings"]
        settings = {k: expect_number(stored, k) for k in _SETTINGS if stored.get(k) is not None}
        precision = expect_text(header, "precision", ("single", "double"))
        dtype = np.float32 if precision == "single" else np.float64
        function = KernelFunction(name, settings, dtype)
        n_features = expect_number(header, "n_features", 0, 2**31 - 1, whole=True)
        error = float(expect_number(header, "score_error", 0.0))
        if function.is_precomputed:
            points = expect_array(arrays, "support", np.int64, low=0, high=n_features)
        else:
            points = expect_array(arrays, "support", dtype, shape=(None, n_features))
        node = expect_array(arrays, "node_coefficient", dtype, shape=(len(points), n_labels))
        second = edge = None
        if edges:
            second = expect_array(arrays, "edge_second", np.int64, low=1, high=len(points))
            edge = expect_array(arrays, "edge_coefficient", dtype, shape=(len(second), n_labels**2))
        return cls(function, points, n_features, node, second, edge, error)


def _coefficients(problem: KernelProblem, kind: str, weights: np.ndarray) -> np.ndarray:
    """The coefficients of a kind, (n_rows, width)."""
    own, feature_map = weights[problem.scorer.slice_of(kind)], problem.scorer.maps[kind]
    return own.reshape(-1, feature_map.stride)[:, : feature_map.width]


def _negligible(
    coefficients: np.ndarray, squared_lengths: np.ndarray, tolerance: float
) -> tuple[np.ndarray, float]:
    """The rows to keep, ascending, and the bound on the error of leaving out the others."""
    lengths = np.sqrt(np.maximum(squared_lengths, 0.0))
    terms = np.abs(coefficients) * (lengths * lengths.max(initial=0.0))[:, None]
    order = np.argsort(terms.max(axis=1, initial=0.0), kind="stable")
    sums = np.cumsum(terms[order], axis=0).max(axis=1, initial=0.0)
    n_dropped = int(np.searchsorted(sums, tolerance, side="right"))
    error = float(sums[n_dropped - 1]) if n_dropped else 0.0
    return np.sort(order[n_dropped:]), error


def _whole_sequences(lengths: np.ndarray, bytes_per_row: int) -> list[tuple[int, int]]:
    """Ranges of positions that contain whole sequences, with about `_BYTES_AT_WORK` kernel values each."""
    ends = np.cumsum(lengths[lengths > 0])
    if not len(ends):
        return []
    piece = (ends - 1) // max(1, _BYTES_AT_WORK // bytes_per_row)
    last = ends[np.append(np.flatnonzero(np.diff(piece)), len(ends) - 1)]
    return list(zip([0, *last[:-1].tolist()], last.tolist(), strict=True))
