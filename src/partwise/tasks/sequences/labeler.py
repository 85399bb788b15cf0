"""`SequenceLabeler`: linear-chain models for any loss of the family, with a certificate of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.estimators.base import Training, n_threads
from partwise.estimators.encoded import Encoded
from partwise.estimators.encoders import choose_encoder
from partwise.estimators.explain import ExplanationMixin
from partwise.estimators.influence import InfluenceMixin
from partwise.estimators.labels import checked_classes, classes_array
from partwise.estimators.model import LinearModel, compact
from partwise.estimators.on_disk.dataset import EncodedDataset
from partwise.structures import Chain
from partwise.structures.chain.forward_backward import CHAIN
from partwise.structures.chain.high_order import HIGH_ORDER
from partwise.tasks.sequences.answers import SequenceAnswers
from partwise.tasks.sequences.data import SequenceData, chain_for, chain_of, edge_map_for, warm_state
from partwise.tasks.sequences.files import SequenceFileMixin
from partwise.tasks.sequences.gaps import check_loss_for_gaps, with_gaps
from partwise.tasks.sequences.predictions import PredictionMixin

if TYPE_CHECKING:
    from partwise.solvers import Solution, Solver


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceLabeler(PredictionMixin, ExplanationMixin, InfluenceMixin, SequenceAnswers, SequenceFileMixin):
    """Linear-chain CRF, max-margin Markov network, and all losses between, trained in the dual.

    Parameters
    ----------
    l2 : float or "cv"
        Strength of the regulariser (l2/2)‖w‖²: twice CRFsuite's c2, the inverse of scikit-learn's C. "cv" chooses it
        by cross-validation.
    l1 : float
        Strength of an additional l1 term, l1·‖w‖₁, which makes most weights zero; CRFsuite's c1.
    pairs : {"observed", "all"}
        Which (attribute, label) pairs have a weight: those seen in training, or all.
    cost : "hamming" or ndarray (n_labels, n_labels)
        Cost [true, predicted] of a wrong label, for losses with γ > 0.
    transitions : {"all", "observed"}
        "all" gives every pair of labels a weight; "observed" forbids the pairs never seen in training.
    scheme : {None, "IOB2", "IOBES", "BILOU", "IOB1"}
        Chunk scheme that labels must obey, in training and in prediction.
    order : int
        How many labels back transitions look. Time and memory grow with n_labels to the power order + 1; what they
        will be is told before training, by the command line and with `verbose`.
    template : None, str, path or Template
        With it, tokens are rows of strings: a preset's name ("chunking", "ner", "pos"), a template in
        partwise's or CRF++'s syntax, or a file that holds one.
    min_count : int
        Attributes seen less often are dropped.
    hash_size : int or None
        Hash attributes to this many numbers instead of keeping a vocabulary.

    Attributes
    ----------
    classes_ : ndarray (n_labels,)
    coef_ : ndarray (n_weights,)
        All weights: attributes, then transitions, rounded to single precision when training ends (the
        certificate is of the weights before rounding). ``transition_coef_`` are the transitions alone.
    duality_gap_ : float
        (P − D) / |P|, which is compared with `tol`. With labels missing, it says how far from stationary the weights
        are.

    Examples
    --------
    >>> from partwise import SequenceLabeler
    >>> X = [[{"word": "a"}, {"word": "dog"}], [["word:a"], ["word:cat"]]]
    >>> SequenceLabeler().fit(X, [["D", "N"], ["D", "N"]]).predict(X)
    [['D', 'N'], ['D', 'N']]
    """

    pairs: Literal["observed", "all"] = "observed"
    cost: str | np.ndarray = "hamming"
    transitions: Literal["all", "observed"] = "all"
    scheme: str | None = None
    order: int = 1
    template: Any = None
    min_count: int = 1
    hash_size: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # -- training -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SequenceLabeler:
        """Train.

        Parameters
        ----------
        X : iterable of sequences
            Each a list of dicts (values str, bool, float, or groups as in python-crfsuite) or of lists of
            strings, or a dense or sparse (length, d) matrix; with `template` each a list of rows of strings,
            or X a ``partwise.data.Columns``; or a dataset on disk, from ``partwise.open_dataset``.
        y : iterable of lists of labels
            None at a position leaves it unobserved: the loss then sums over its labels (finite β only).
            May be left out where X is a ``Columns`` with labels, or a dataset on disk.
        sample_weight : array_like (n_sequences,), optional
        """
        with self._refitting():
            self._check_parameters()
            self._begin_compiling(CHAIN if self.order == 1 else HIGH_ORDER)
            previous = getattr(self, "_training", None) if self.warm_start else None
            if isinstance(X, EncodedDataset):
                self._fit_on_disk(X, y, sample_weight, previous)
            else:
                data = SequenceData.read(X, y, sample_weight)
                self._fit(data, data.distinct(), previous)
        self._warn_unless_converged()
        return self

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> SequenceLabeler:
        """Add sequences to those trained on so far, and train on all of them.

        Sequences seen before go on from their dual variables, new ones start afresh; the data are encoded
        anew, so a call costs a pass or two over all of it. Labels must be known at the first call.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, of the new sequences only.
        classes : sequence of labels
            All labels there will ever be, for the first call; by default those of its `y`.
        """
        with self._refitting():
            self._check_parameters()
            self._begin_compiling(CHAIN if self.order == 1 else HIGH_ORDER)
            data = SequenceData.read(X, y, sample_weight)
            previous: Training | None = getattr(self, "_training", None)
            if previous is not None and isinstance(previous.source.data, EncodedDataset):
                raise InputError("this model was trained on a dataset on disk, to which nothing can be added")
            if previous is not None:
                self._fit(previous.source.data.with_more(data), self.classes_.tolist(), previous)
            elif hasattr(self, "classes_"):
                raise InputError(
                    "this model was loaded or copied without its training data; call fit, or start anew"
                )
            else:
                self._fit(data, data.distinct() if classes is None else checked_classes(classes), None)
        self._warn_unless_converged()
        return self

    def _fit(self, data: SequenceData, labels: list[Any], previous: Training | None) -> None:
        codes = data.codes(labels)
        check_loss_for_gaps(Loss.of(self.loss), codes)
        encoder = choose_encoder(data.X, self.template)
        structure = chain_for(self, labels, encoder, data, codes)
        encoded = encoder.fit_transform(data.X, self.min_count, self.hash_size)
        problem = self._problem(structure, encoder, encoded, data, codes)
        source = Source(data, encoder, codes)
        self.classes_ = classes_array(labels)
        if self._is_followed and (codes < 0).any():
            raise InputError("l2 can be chosen where all labels are known; y has some that are None")
        self._fit_problem(problem, encoder, source, warm_state(self, problem, previous))

    def _fit_on_disk(
        self, data: EncodedDataset, y: Any, sample_weight: Any, previous: Training | None
    ) -> None:
        from partwise.estimators.on_disk.problem import label_blocks, problem_on_disk

        data.check_use(self, "sequence", y, sample_weight)
        structure = chain_of(self, data.labels, data.encoder, lambda: label_blocks(data))
        problem = problem_on_disk(self, data, structure, data.weights)
        self.classes_ = classes_array(data.labels)
        source = Source(data, data.encoder, data.codes.array)
        self._fit_problem(problem, data.encoder, source, warm_state(self, problem, previous))

    def _become(self, solver: Solver, solution: Solution, encoder: Any, source: Source) -> None:
        self._set_certificate(solution)
        self._training = Training(solution.problem, solver, solution.state, solution.weights, source)
        self._set_model()

    def _problem(
        self, structure: Chain, encoder: Any, encoded: Encoded, data: SequenceData, codes: np.ndarray
    ) -> Problem:
        """Encoded data bound to structure and loss."""
        node_map = FeatureMap.build(
            structure.n_labels, encoder.n_attributes, encoder.n_dense, encoded.node_rows, codes, self.pairs
        )
        maps = {"node": node_map}
        if not structure.tied:
            maps["edge"] = edge_map_for(structure, encoder, encoded, codes, self.pairs)
        problem = Problem.build(
            structure,
            data.completed(structure, codes),
            encoded.shapes_for(structure),
            encoded.rows(structure, maps),
            loss=self.loss,
            l2=self._l2,
            l1=self.l1,
            cost=self.cost,
            example_weight=data.weights(),
            n_jobs=n_threads(self.n_jobs),
        )
        return with_gaps(problem, codes)

    def _set_model(self) -> None:
        training = self._training
        problem = training.problem
        self._encoder, self._model = compact(
            problem.structure, training.source.encoder, problem.scorer.maps, training.weights
        )
        self._loss = problem.loss
        if self._encoder.kind == "matrix":
            self.n_features_in_ = self._encoder.n_columns

    @classmethod
    def _parameters_in_file(cls) -> list[str]:
        return SequenceLabeler._get_param_names()

    @property
    def coef_(self) -> np.ndarray:
        return self._fitted_model().weights

    @property
    def transition_coef_(self) -> np.ndarray:
        """Tied transition weights: (n_labels, n_labels), with more axes for higher orders."""
        model = self._fitted_model()
        chain = model.structure
        assert isinstance(chain, Chain)
        n_labels = chain.n_labels
        if chain.order > 1:
            return model.tied_weights.reshape((n_labels + 1,) * chain.order + (n_labels,))
        if chain.tied:
            return model.tied_weights.reshape(n_labels, n_labels)
        result = np.zeros(n_labels**2)
        if self._encoder.always:
            attribute, label, index = model.maps["edge"].pairs()
            always = attribute == self._encoder.n_edge_attributes - 1
            result[label[always]] = model.weights_of("edge")[index[always]]
        return result.reshape(n_labels, n_labels)

    def _fitted_model(self) -> LinearModel:
        if not hasattr(self, "_model"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._model


class Source:
    """The data of the last fit, as it came and as it was numbered."""

    def __init__(self, data: SequenceData | EncodedDataset, encoder: Any, codes: np.ndarray):
        self.data, self.encoder, self.codes = data, encoder, codes
