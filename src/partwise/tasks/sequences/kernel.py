"""`KernelSequenceLabeler`: max-margin Markov networks and CRFs whose node scores come from kernel functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.arrays import after_the_first
from partwise.core.losses import Loss
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.estimators.checks import check_choice, is_sparse
from partwise.estimators.encoded import Encoded, KindSize, OwnRows
from partwise.estimators.kernel_base import KernelData, KernelEstimator
from partwise.estimators.labels import classes_array
from partwise.estimators.matrices import looks_like_matrix, stack
from partwise.estimators.model import LinearModel, Pairs
from partwise.mercer.support import Support
from partwise.storage.checks import expect_array
from partwise.structures import Chain
from partwise.tasks.sequences.data import SequenceData, lengths_of
from partwise.tasks.sequences.predictions import SequencePredictions

if TYPE_CHECKING:
    from typing_extensions import Self

    from partwise.solvers import Solution


@dataclass(eq=False, repr=False, kw_only=True)
class KernelSequenceLabeler(SequencePredictions, KernelEstimator):
    """Chain with kernel functions between positions; weights are never formed.

    Parameters
    ----------
    loss : {"log", "hinge", "softmax_margin", "perceptron"} or Loss
        "hinge" is the max-margin Markov network, "log" the kernel CRF.
    kernel : str or callable
        "linear", "poly", "rbf" or another kernel of ``sklearn.metrics.pairwise``; "precomputed" if each sequence has
        its rows of the kernel matrix, (length, n_training_positions); or a function of two matrices that returns the
        matrix of their kernel values.
    edges : {"tied", "kernel"}
        "tied" gives every pair of neighbouring labels one weight. With "kernel", the scores of such pairs depend on
        the input, through 1 + k(before, before′) k(here, here′).
    cost : "hamming" or ndarray (n_labels, n_labels)
        Cost [true, predicted] of a wrong label, for losses with γ > 0.

    Attributes
    ----------
    classes_ : ndarray (n_labels,)
    dual_coef_ : ndarray (n_support, n_labels)
    transition_coef_ : ndarray (n_labels, n_labels), for tied edges

    Examples
    --------
    >>> from partwise import KernelSequenceLabeler
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0], [0.0]]], [["a", "b"], ["b", "a", "a"]]
    >>> KernelSequenceLabeler(l2=0.1).fit(X, y).predict(X)
    [['a', 'b'], ['b', 'a', 'a']]
    """

    edges: Literal["tied", "kernel"] = "tied"

    _requires_y = True

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : list of (length, d) matrices, or array (n_sequences, length, d)
        y : list of lists of labels
        sample_weight : array_like (n_sequences,), optional
        """
        return super().fit(X, y, sample_weight)

    def _check_parameters(self) -> Loss:
        check_choice("edges", self.edges, ("tied", "kernel"))
        return super()._check_parameters()

    def _read(self, X: Any, y: Any, sample_weight: Any) -> KernelData:
        data = SequenceData.read(X, y, sample_weight)
        points = matrix_of(data.X)
        if (data.codes < 0).any() or data.shares:
            raise InputError(
                "y: a KernelSequenceLabeler needs every label; None, sets and dicts are not possible here"
            )
        lengths = data.lengths[data.lengths > 0]
        second = None if self.edges == "tied" else after_the_first(lengths)
        if second is not None and not len(second):
            second = None  # sequences of one position have no edges
        self.classes_ = classes_array(data.classes)
        self.n_features_in_ = points.shape[1]
        chain = Chain(len(data.classes), tied=second is None)
        function = self._kernel_function(points)
        return KernelData(points, data.codes, lengths, data.weights(), chain, function, second)

    def _take_weights(self, solution: Solution, encoder: None, data: KernelData) -> None:
        super()._take_weights(solution, encoder, data)
        chain: Any = data.structure
        tied = solution.weights[solution.problem.scorer.slice_of("transition")][: chain.n_tied]
        self._set_model(chain.tied, tied)

    def _set_model(self, tied: bool, tied_weights: np.ndarray) -> None:
        """Scores as attributes, with weights of one: prediction then is that of any chain."""
        n_labels = len(self.classes_)
        chain = Chain(n_labels, tied=tied)
        self._encoder, self._loss = ScoreEncoder(self._support), Loss.of(self.loss)
        pairs = [_identity(n_labels)] if tied else [_identity(n_labels), _identity(n_labels**2)]
        self._model = LinearModel.assemble(chain, self._encoder.sizes, pairs, tied_weights.astype(np.float32))

    @property
    def transition_coef_(self) -> np.ndarray:
        """Tied transition weights, (n_labels, n_labels)."""
        self._fitted_support()
        if not self._encoder.tied:
            raise AttributeError("with edges='kernel' transitions have no weights of their own")
        return self._model.tied_weights.reshape(len(self.classes_), len(self.classes_))

    # -- model files ----------------------------------------------------------------------------

    def _model_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._model_state()
        tied = self._model.tied_weights.astype(np.float32)
        return header | {"tied": self._encoder.tied}, arrays | {"tied_weight": tied}

    def _set_model_state(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        tied = header.get("tied")
        if not isinstance(tied, bool):
            raise InputError("header entry 'tied' is missing")
        labels = self._set_support(header, arrays, edges=not tied)
        self.classes_ = classes_array(labels)
        size = len(labels) ** 2 if tied else 0
        self._set_model(tied, expect_array(arrays, "tied_weight", np.float32, shape=(size,)))


class ScoreEncoder:
    """Turns positions into the scores that support points give them: attribute j is the score of label j."""

    kind = "kernel"
    n_attributes = 0

    def __init__(self, support: Support):
        self.support = support
        self.n_dense = support.node.shape[1]
        self.tied = support.edge is None

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        nodes, edge = KindSize(self.n_dense, 0), self.support.edge
        return (nodes,) if edge is None else (nodes, KindSize(0, edge.shape[1]))

    def transform(self, X: Any) -> Encoded:
        matrix, lengths = matrix_of(X), lengths_of(X)
        if lengths.sum() and matrix.shape[1] != self.support.n_features:
            raise InputError(f"X has {matrix.shape[1]} features, but training had {self.support.n_features}")
        nodes, edges = self.support.scores(matrix, lengths[lengths > 0])
        own: tuple[OwnRows, ...] = (OwnRows(dense=np.ascontiguousarray(nodes, np.float32)),)
        if edges is not None:
            width = edges.shape[1]
            ids = np.tile(np.arange(width, dtype=np.int32), len(edges))
            rows = AttributeRows(np.arange(len(edges) + 1) * width, ids, edges.ravel())
            own = (*own, OwnRows(rows))
        return Encoded(lengths, own)


def matrix_of(X: Any) -> np.ndarray:
    """All positions of all sequences in one dense matrix."""
    if not looks_like_matrix(X) and lengths_of(X).any():
        raise InputError("a kernel compares vectors: X must be a list of (length, d) matrices of numbers")
    matrix, _ = stack(X)
    return matrix.toarray() if is_sparse(matrix) else matrix


def _identity(size: int) -> Pairs:
    return Pairs(np.arange(size), np.arange(size), np.ones(size, np.float32))
