"""`SegmentLabeler`: semi-Markov models for any loss of the family, with a certificate of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.arrays import offsets, ranges
from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.estimators.checks import check_choice
from partwise.estimators.encoded import Encoded
from partwise.estimators.encoders import as_sequences
from partwise.estimators.explain import Explanations, Transitions
from partwise.estimators.labels import classes_array, split
from partwise.estimators.linear import CompactModel
from partwise.estimators.saving import prefixed, stored_labels, stored_part, unprefixed
from partwise.storage.checks import expect_number, expect_text
from partwise.structures import SemiMarkov
from partwise.structures.segments.factored import FactoredSemiMarkov
from partwise.structures.segments.forward_backward import SEMI_MARKOV
from partwise.tasks.segments.data import Gold, SegmentData, gold_of, labels_of, read_segments
from partwise.tasks.segments.encoder import SegmentEncoder
from partwise.tasks.segments.predictions import SegmentPredictions
from partwise.tasks.sequences.data import lengths_of

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False, kw_only=True)
class SegmentLabeler(SegmentPredictions, Explanations, Transitions, CompactModel):
    """Semi-Markov CRF, its max-margin form, and all losses between, trained in the dual.

    A sequence is cut into labelled segments, and features may look at a whole segment: its text, its length, its
    borders. Positions in no segment are segments of one position labelled `outside`.

    Parameters
    ----------
    max_length : int or "auto"
        The most positions of a segment. "auto" is the smallest length that 99.9 % of the training segments do not
        exceed. Longer training segments are cut into pieces of this length and a rest, and counted in `n_cut_`.
    pairs : {"observed", "all"}
        Which (feature, label) pairs have a weight: those seen in training, or all.
    cost : "hamming", ndarray (2 n_labels, 2 n_labels), or dict of costs by kind of parts ("segment")
        For losses with γ > 0. "hamming" counts positions with a wrong tag. A matrix is [true tag, predicted tag]. Tag
        2 k is the first position of a segment with label k, 2 k + 1 its other positions.
    template : None, str, path or Template
        Features of positions, as for a `SequenceLabeler`: with it, tokens are rows of strings.
    segment_template : str or path
        Features of segments: a preset's name ("default", "length"), a text in the syntax of
        ``partwise.features.templates``, or a file that holds one. "durations" is a weight for every length and label:
        no segment has a row, and time and memory grow with positions, so that `max_length` may be 1,000. "auto" is
        "default" where tokens are rows of strings, else "length" if `max_length` is at most 32, else "durations".
    outside : str
        What labels positions in no segment; never a label of a segment.
    min_count : int
        Features of positions seen less often are dropped, and features of segments seen less often on true ones.

    Attributes
    ----------
    classes_ : ndarray (n_labels,)
        Labels of segments, after `outside` where the training data have positions in no segment.
    max_length_ : int
    n_cut_ : int
        Training segments that were cut.
    coef_ : ndarray (n_weights,)
        All weights: of segments, of positions, then of transitions, rounded to single precision when training ends.
    transition_coef_ : ndarray (n_labels, n_labels)
    duration_coef_ : ndarray (max_length_, n_labels)
        With "durations": the weight of every length, by length − 1.

    Examples
    --------
    >>> from partwise import SegmentLabeler
    >>> X = [["in", "New", "York"], ["New", "shoes"], ["York"]]
    >>> model = SegmentLabeler(template="word[0]\\n", segment_template="all(word)\\nlength\\n", l2=0.1)
    >>> model.fit(X, [[(1, 2, "city")], [], [(0, 0, "city")]]).predict([["New", "York"]])
    [[(0, 1, 'city')]]
    """

    _task = "segments"
    _accepts_sparse = _requires_y = True
    max_length: int | Literal["auto"] = "auto"
    pairs: Literal["observed", "all"] = "observed"
    cost: Any = "hamming"
    template: Any = None
    segment_template: Any = "auto"
    outside: str = "O"
    min_count: int = 1

    # -- training -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : iterable of sequences
            As for a `SequenceLabeler`: lists of dicts or of lists of strings, dense or sparse (length, d) matrices;
            with `template` lists of rows of strings, or a ``partwise.data.Columns``.
        y : iterable of lists
            Per sequence its segments (first, last, label), `last` included, or the labels of all its positions in a
            chunk scheme: O, B-label, I-label (IOB1, IOB2, IOBES and BILOU are read). May be left out where X is a
            ``Columns`` with labels.
        sample_weight : array_like (n_sequences,), optional
        """
        return super().fit(X, y, sample_weight)

    def _check_parameters(self) -> Loss:
        loss = super()._check_parameters()
        check_choice("pairs", self.pairs, ("observed", "all"))
        length: Any = self.max_length
        whole = isinstance(length, (int, np.integer)) and not isinstance(length, bool)
        if not (isinstance(length, str) and length == "auto") and not (whole and length >= 1):
            raise InputError(f"max_length must be 'auto' or an integer of at least 1, not {length!r:.40}")
        if not isinstance(self.outside, str) or not self.outside:
            raise InputError(f"outside must be a label, a string, not {self.outside!r:.40}")
        _refuse_chain_solvers(self.solver)
        return loss

    def _read(self, X: Any, y: Any, sample_weight: Any) -> SegmentData:
        self._begin_compiling(SEMI_MARKOV)
        return SegmentData.read(X, y, sample_weight)

    def _build(self, data: SegmentData) -> tuple[Problem, SegmentEncoder]:
        labels, has_outside = data.labels(), data.has_outside()
        if self.outside in labels:
            raise InputError(
                f"y has segments labelled {self.outside!r}, which labels positions in no segment: use another `outside`"
            )
        self.max_length_ = data.usual_length() if self.max_length == "auto" else int(self.max_length)
        gold = gold_of(data, labels, has_outside, self.max_length_)
        self.n_cut_ = gold.n_cut
        self.classes_ = classes_array([self.outside] * has_outside + labels)
        encoder = SegmentEncoder.choose(data.X, self.template, self.segment_template, self.max_length_)
        encoded = encoder.fit_transform(data.X, gold.spans(data.lengths), self.min_count)
        structure = self._structure(encoder)
        maps = _maps(structure, encoder, encoded, gold, self.pairs)
        problem = self._bound(
            structure,
            gold.tags,
            encoded.shapes_for(structure),
            encoded.rows(structure, maps),
            cost=self.cost,
            example_weight=data.weights(),
        )
        return problem, encoder

    def _structure(self, encoder: SegmentEncoder) -> SemiMarkov | FactoredSemiMarkov:
        """The segmentations of the fitted attributes."""
        lengths = [1 if label == self.outside else self.max_length_ for label in self.classes_.tolist()]
        if encoder.segments is None:
            return FactoredSemiMarkov(len(lengths), lengths)
        return SemiMarkov(len(lengths), lengths, tokens=True)

    def _structure_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        encoder, arrays = self._encoder.state()
        structure = {"name": "segments", "max_length": self.max_length_, "n_cut": self.n_cut_}
        return {"structure": structure, "encoder": encoder}, prefixed(arrays, "encoder.")

    def _structure_from(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> tuple[SemiMarkov | FactoredSemiMarkov, SegmentEncoder]:
        shape, encoder = stored_part(header, "structure"), stored_part(header, "encoder")
        expect_text(header["parameters"], "outside")
        self.classes_ = classes_array(stored_labels(header))
        self.max_length_ = expect_number(shape, "max_length", 1, 2**20, whole=True)
        self.n_cut_ = expect_number(shape, "n_cut", 0, whole=True)
        own = unprefixed(arrays, "encoder.")
        read = SegmentEncoder.from_state(encoder, own, self.max_length_)
        return self._structure(read), read

    @property
    def transition_coef_(self) -> np.ndarray:
        return (
            self._fitted_model()
            .weights_of("transition")[: len(self.classes_) ** 2]
            .reshape(len(self.classes_), len(self.classes_))
        )

    @property
    def duration_coef_(self) -> np.ndarray:
        n_weights = self.max_length_ * len(self.classes_)
        if self._encoder.segments is not None:
            raise AttributeError("duration_coef_ is of models with segment_template='durations'")
        return self._fitted_model().weights_of("duration")[:n_weights].reshape(self.max_length_, -1)

    # -- what commands and pages ask ------------------------------------------------------------

    def _labels_in(self, X: Any, y: Any) -> set[Any]:
        return labels_of(read_segments(y, lengths_of(as_sequences(X))))

    def _shown_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"longest segment": self.max_length_, "pairs": self.pairs}
        if self._encoder.kind == "columns":
            template = self.template or self._encoder.tokens.template.path or "given as text"
            settings["template"] = str(template)
        return settings | {"segment template": str(self.segment_template)}

    def _shown_sizes(self) -> dict[str, Any]:
        *segments, tokens = self._encoder.sizes
        return {
            "labels": len(self.classes_),
            "features of segments": segments[0].n_sparse if segments else self.max_length_,
            "features of positions": tokens.n_dense + tokens.n_sparse,
            "non-zero weights": int(np.count_nonzero(self.coef_)),
        }

    def _score_of_labels(self, problem: Problem, true: np.ndarray, predicted: np.ndarray) -> float:
        both = ([self._named(own) for own in split(tags, problem.lengths)] for tags in (true, predicted))
        return self._score_of(*both)

    def _training_facts(self) -> dict[str, Any]:
        return {"max_length": self.max_length_, "cut_segments": self.n_cut_}

    def _training_notes(self) -> list[str]:
        if not self.n_cut_:
            return []
        return [f"{self.n_cut_:,} training segments were longer than {self.max_length_} positions and cut"]


def _refuse_chain_solvers(solver: Any) -> None:
    """Raise at a solver that segments do not have the parts for, before data are read."""
    from partwise.solvers import SOLVERS
    from partwise.solvers.needs import NEEDS_FIRST_ORDER

    found: Any = SOLVERS.get(solver) if isinstance(solver, str) else solver
    if found is not None and found.needs.first_order:
        raise InputError(f"solver {found.name!r} {NEEDS_FIRST_ORDER}")


def _maps(
    structure: SemiMarkov | FactoredSemiMarkov,
    encoder: SegmentEncoder,
    encoded: Encoded,
    gold: Gold,
    pairs: Any,
) -> dict[str, FeatureMap]:
    """Where the weights of segments and of positions lie; pairs are seen on true segments."""
    n_labels, tags = structure.n_labels, gold.tags
    tokens, token_size = encoded.own[-1], encoder.sizes[-1]
    of_tokens = FeatureMap.build(
        2 * n_labels,
        token_size.n_sparse,
        token_size.n_dense,
        tokens.sparse,
        tags // 2 + tags % 2 * n_labels,
        pairs,
    )
    if encoder.segments is None:
        return {"token": of_tokens}
    segment_rows = encoded.own[0].sparse
    assert segment_rows is not None
    begins = np.flatnonzero(tags % 2 == 0)
    sizes = np.diff(begins, append=len(tags))
    shapes = encoded.shapes_for(structure)
    true = offsets(structure.n_starting(shapes))[begins] + sizes - 1
    n_entries = np.diff(segment_rows.row_ptr)[true]
    ids = segment_rows.ids[ranges(segment_rows.row_ptr[:-1][true], n_entries)]
    of_segments = FeatureMap.build(
        n_labels,
        encoder.sizes[0].n_sparse,
        0,
        AttributeRows(offsets(n_entries), ids),
        tags[begins] // 2,
        pairs,
    )
    return {"segment": of_segments, "token": of_tokens}
