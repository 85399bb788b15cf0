"""`SequenceLabeler`: linear-chain models for any loss of the family, with a certificate of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.estimators.alternatives import LabelLists
from partwise.estimators.base import Training
from partwise.estimators.encoded import Encoded
from partwise.estimators.encoders import choose_encoder, encoder_from, encoder_state
from partwise.estimators.explain import Transitions
from partwise.estimators.gaps import check_loss_for_gaps, with_gaps, with_shares
from partwise.estimators.influence import InfluenceMixin
from partwise.estimators.labels import classes_array, split
from partwise.estimators.linear import CompactModel
from partwise.estimators.on_disk.dataset import EncodedDataset
from partwise.estimators.saving import stored_labels
from partwise.estimators.warm_start import WarmStarting
from partwise.scoring.labelling import looks_like_chunks
from partwise.storage.checks import expect_array, expect_number
from partwise.structures import Chain
from partwise.structures.chain.forward_backward import CHAIN
from partwise.structures.chain.high_order import HIGH_ORDER
from partwise.tasks.sequences.data import SequenceData, chain_of, edge_map_for
from partwise.tasks.sequences.earlier_weights import Start, earlier_weights
from partwise.tasks.sequences.predictions import SequencePredictions

if TYPE_CHECKING:
    from typing_extensions import Self

    from partwise.compiled.oracles import Oracle
    from partwise.solvers import Solution


_MASKS = ("allowed", "allowed_start", "allowed_end")


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceLabeler(
    SequencePredictions,
    Transitions,
    InfluenceMixin,
    CompactModel,
    WarmStarting,
):
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
    cost : "hamming", ndarray (n_labels, n_labels), or dict of them by kind of parts ("node", "edge")
        Cost [true, predicted] of a wrong label, or of a wrong pair of labels, for losses with γ > 0.
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

    _task = "sequences"
    _accepts_sparse = _requires_y = True
    pairs: Literal["observed", "all"] = "observed"
    cost: str | np.ndarray = "hamming"
    transitions: Literal["all", "observed"] = "all"
    scheme: str | None = None
    order: int = 1
    template: Any = None
    min_count: int = 1
    hash_size: int | None = None

    # -- training -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : iterable of sequences
            Each a list of dicts (values str, bool, float, or groups as in python-crfsuite) or of lists of
            strings, or a dense or sparse (length, d) matrix. With `template`, each is a list of rows of strings,
            or X is a ``partwise.data.Columns``. X may also be a dataset on disk, from ``partwise.open_dataset``.
        y : iterable of lists of labels
            None at a position leaves it unobserved, and a set of labels says that it has one of these: the loss
            then sums over the labels that are possible (finite β only). A dict {label: weight} is a distribution over
            labels: the loss is the expected one (finite β, without costs).
            May be left out if X is a ``Columns`` with labels, or a dataset on disk.
        sample_weight : array_like (n_sequences,), optional
        """
        return super().fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add sequences to those trained on so far, and train on all of them.

        Sequences seen before continue from their dual variables, new ones start afresh. The data are encoded
        anew, so a call costs a pass or two over all of it. All labels must be known at the first call.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, of the new sequences only.
        classes : sequence of labels
            All labels there will ever be, for the first call; by default those of its `y`.
        """

        def read(previous: Training | None) -> SequenceData:
            if previous is None and hasattr(self, "classes_"):
                raise InputError(
                    "this model was loaded or copied without its training data; call fit, or start anew"
                )
            self._begin_compiling(self._oracle)
            return SequenceData.read(
                X, y, sample_weight, classes if previous is None else previous.data.classes
            )

        return self._partial_fit(read)

    def _earlier_weights(self) -> Start | None:
        has_weights_alone = self.warm_start and hasattr(self, "_model") and "_training" not in self.__dict__
        return earlier_weights(self) if has_weights_alone else None

    @property
    def _oracle(self) -> Oracle:
        return CHAIN if self.order == 1 else HIGH_ORDER

    def _read(self, X: Any, y: Any, sample_weight: Any) -> SequenceData | EncodedDataset:
        self._begin_compiling(self._oracle)
        if isinstance(X, EncodedDataset):
            X.check_use(self, "sequence", y, sample_weight)
            return X
        return SequenceData.read(X, y, sample_weight)

    def _build(self, data: SequenceData | EncodedDataset) -> tuple[Problem, Any]:
        if isinstance(data, EncodedDataset):
            return self._build_on_disk(data)
        check_loss_for_gaps(Loss.of(self.loss), data.codes, data.shares)
        if data.shares and self.scheme is not None:
            raise InputError(
                "y has distributions over labels (dicts), which are independent of each other and so do not obey a "
                "scheme: use sets of labels, or scheme=None"
            )
        lists = data.label_lists()
        encoder = choose_encoder(data.X, self.template)
        structure = chain_of(self, data.classes, encoder, lambda: [(data.lengths, data.codes, 0)], lists)
        encoded = encoder.fit_transform(data.X, self.min_count, self.hash_size)
        problem = self._bound(
            structure,
            data.completed(structure),
            encoded.shapes_for(structure),
            encoded.rows(structure, self._maps(structure, encoder, encoded, data.codes, lists)),
            cost=self.cost,
            example_weight=data.weights(),
        )
        self.classes_ = classes_array(data.classes)
        if self._is_followed and (data.shares or (data.codes < 0).any()):
            raise InputError(
                "l2 can be chosen where all labels are known; y has some that are None, sets or dicts"
            )
        problem = with_shares(problem, data.codes, data.shares)
        return with_gaps(problem, data.codes, data.sets, self.cost), encoder

    def _maps(
        self,
        structure: Chain,
        encoder: Any,
        encoded: Encoded,
        codes: np.ndarray,
        lists: LabelLists | None,
    ) -> dict[str, FeatureMap]:
        """Which (attribute, label) pairs have weights."""
        rows, row_labels = encoded.own[0].sparse, codes
        if rows is not None and lists is not None:
            rows, row_labels = lists.rows(rows)
        node_map = FeatureMap.build(
            structure.n_labels, encoder.n_attributes, encoder.n_dense, rows, row_labels, self.pairs
        )
        if structure.tied:
            return {"node": node_map}
        edge_map = edge_map_for(structure, encoder, encoded, codes, self.pairs, lists)
        return {"node": node_map, "edge": edge_map}

    def _build_on_disk(self, data: EncodedDataset) -> tuple[Problem, Any]:
        from partwise.estimators.on_disk.problem import label_blocks, problem_on_disk

        structure = chain_of(self, data.labels, data.encoder, lambda: label_blocks(data))
        self.classes_ = classes_array(data.labels)
        return problem_on_disk(self, data, structure, data.weights), data.encoder

    def _take_weights(self, solution: Solution, encoder: Any, data: Any) -> None:
        super()._take_weights(solution, encoder, data)
        if self._encoder.kind == "matrix":
            self.n_features_in_ = self._encoder.n_columns

    def _structure_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        chain: Any = self._model.structure
        encoder, arrays = encoder_state(self._encoder)
        arrays |= {name: getattr(chain, name) for name in _MASKS if getattr(chain, name) is not None}
        structure = {"name": "chain", "order": chain.order, "tied": chain.tied, "scheme": self.scheme}
        return {"structure": structure, "encoder": encoder}, arrays

    def _structure_from(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> tuple[Chain, Any]:
        labels, encoder = stored_labels(header), encoder_from(header["encoder"], arrays)
        self.classes_ = classes_array(labels)
        order, n_labels = expect_number(header["structure"], "order", 1, 16, whole=True), len(labels)
        if order > 1 and len(arrays.get("tied_weight", ())) != (n_labels + 1) ** order * n_labels:
            raise InputError("array 'tied_weight' does not fit the order of the chain")
        shapes = {name: (n_labels,) * (2 if name == "allowed" else 1) for name in _MASKS if name in arrays}
        masks = {name: expect_array(arrays, name, np.bool_, shape=shape) for name, shape in shapes.items()}
        if encoder.kind == "matrix":
            self.n_features_in_ = encoder.n_columns
        return Chain(n_labels, tied=encoder.tied, order=order, **masks), encoder

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

    # -- what commands and pages ask ------------------------------------------------------------

    def _labels_in(self, X: Any, y: Any) -> set[Any]:
        return set() if y is None else {label for own in y for label in own}

    def _shown_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"order": self.order, "scheme": self.scheme, "pairs": self.pairs}
        template = getattr(self._encoder, "template", None)
        if template is not None:
            settings["template"] = str(self.template or template.path or "given as text")
        return settings

    def _shown_sizes(self) -> dict[str, Any]:
        return {
            "labels": len(self.classes_),
            "attributes": int(self._encoder.n_dense + self._encoder.n_attributes),
            "non-zero weights": int(np.count_nonzero(self.coef_)),
        }

    def _before_training(self, problem: Problem, solver: Any) -> list[str]:
        """What a higher order takes: tables of labels to its power, in time and in memory."""
        told = super()._before_training(problem, solver)
        if self.order == 1:
            return told
        from partwise.estimators.long_passes import estimated_seconds
        from partwise.report.progress import duration

        seconds = duration(estimated_seconds(problem))
        return [f"order {self.order} with {len(self.classes_)} labels: a pass takes about {seconds}", *told]

    @property
    def _score_name(self) -> str:
        return "F1" if looks_like_chunks(self.classes_.tolist()) else "accuracy"

    def _score_of_labels(self, problem: Problem, true: np.ndarray, predicted: np.ndarray) -> float:
        both = (split(self.classes_[codes].tolist(), problem.lengths) for codes in (true, predicted))
        return self._score_of(*both)

    @property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """All weights of attributes, as sklearn_crfsuite gives them: {(attribute, label): weight}."""
        self._require_fitted()
        attribute, code, index = self._model.maps["node"].pairs()
        names, labels = self._encoder.named("node", attribute.tolist()), self.classes_.tolist()
        rows = zip(names, code.tolist(), self._model.weights_of("node")[index].tolist(), strict=True)
        return {(name, labels[c]): weight for name, c, weight in rows if weight}

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """All weights of transitions, as sklearn_crfsuite gives them: {(before, after): weight}."""
        n_labels = len(getattr(self, "classes_", ()))
        return {(before, after): weight for before, after, weight in self.top_transitions(n_labels**2)}
