"""Semi-Markov chains: a sequence cut into labelled segments of bounded length."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import (
    checked_count,
    checked_samples,
    checked_scores,
    require_possible,
    room_for_best,
)
from partwise.structures.packed import Packed
from partwise.structures.segments.factored import FactoredSemiMarkov
from partwise.structures.segments.parts import SegmentMarginals, SemiMarkovParts
from partwise.structures.segments.tags import segments_of_tags, tags_of_segments

__all__ = ["SegmentMarginals", "SemiMarkov"]


class SemiMarkov(SemiMarkovParts):
    """Segmentations: every position lies in one segment, and scores add up over segments and neighbours.

    Parameters
    ----------
    n_labels : int
        L.
    max_length : int, or array_like of int (L,)
        The most positions of a segment, or of a segment of each label: 1 for a label that stands for "outside".
    tokens : bool
        For solvers: besides segments, positions have rows of width 2·L, for a label that begins there and one that
        continues there. Scores of a chain over B and I labels then cost no more than in a chain.
    allowed : array_like of bool (L, L), optional
        Whether a segment of label j may follow one of label i.
    allowed_start, allowed_end : array_like of bool (L,), optional
        Whether a label may stand first, last.

    Notes
    -----
    All methods take, for one sequence of n positions,

    - `segment_scores` (n, max_length, L), indexed ``[start, length - 1, label]``; entries with start + length > n are
      not read;
    - `transition_scores` (L, L), from the label of a segment to that of the next.

    Instead of `segment_scores` they take factors by name: `position_scores` (n, L), summed over a segment,
    `duration_scores` (max_length, L) by [length - 1, label], and `begin_scores` (n, L), optional, of the label that
    begins at a position. No table of all segments is made: time is n·(max_length·L + L²), memory n·L. Marginals are
    then :class:`~partwise.structures.segments.factored.FactoredMarginals`.

    For many sequences `segment_scores` is a list of such arrays, and `transition_scores` one array for all or a list;
    results are then lists, or arrays of numbers. A segmentation is an int64 array (k, 3) with a row (first, last,
    label) for each segment, from left to right, `last` included; lists of triples are read as well. Scores may be
    −inf.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.zeros((3, 2, 2))
    >>> scores[0, 1, 1] = 2.0
    >>> SemiMarkov(2, 2).argmax(scores, np.zeros((2, 2))).tolist()
    [[0, 1, 1], [2, 2, 0]]
    """

    def log_partition(self, segment_scores: Any = None, transition_scores: Any = None, **factors: Any) -> Any:
        """log Σ_y exp(score of y): a float, or float64 (n,) for a list; −inf if nothing is possible."""
        if by_factors := self._by_factors(segment_scores, transition_scores, factors):
            return by_factors[0].log_partition(**by_factors[1])
        return self._pack(segment_scores, transition_scores).log_partition()

    def marginals(self, segment_scores: Any = None, transition_scores: Any = None, **factors: Any) -> Any:
        """Probabilities of all segments.

        Returns
        -------
        SegmentMarginals, or a list of them
            ``segment`` (n, max_length, L); ``transition`` (L, L), expected numbers over all neighbours.
        """
        if by_factors := self._by_factors(segment_scores, transition_scores, factors):
            return by_factors[0].marginals(**by_factors[1])
        packed = self._pack(segment_scores, transition_scores)
        _, counts = packed.expectations()
        results, n_labels = [], self.n_labels
        bounds = zip(pairwise(packed.part_ptr.tolist()), packed.lengths.tolist(), strict=True)
        for (first, last), length in bounds:
            segment = np.zeros((length, self.max_length, n_labels))
            own = counts[first : last - n_labels**2].reshape(-1, n_labels)
            segment[_fits(length, self.max_length)] = own
            transition = counts[last - n_labels**2 : last].reshape(n_labels, n_labels)
            results.append(SegmentMarginals(segment, transition))
        return results[0] if packed.single else results

    def argmax(self, segment_scores: Any = None, transition_scores: Any = None, **factors: Any) -> Any:
        """A best segmentation, int64 (k, 3), or a list of them."""
        if by_factors := self._by_factors(segment_scores, transition_scores, factors):
            return by_factors[0].argmax(**by_factors[1])
        packed = self._pack(segment_scores, transition_scores)
        tags = packed.best()
        found = [segments_of_tags(tags[a:b]) for a, b in pairwise(offsets(packed.lengths).tolist())]
        return found[0] if packed.single else found

    def loss_augmented_argmax(
        self, segment_scores: Any = None, transition_scores: Any = None, y: Any = None, cost: float = 1.0,
        **factors: Any,
    ) -> Any:  # fmt: skip
        """A segmentation with the largest score plus `cost` for every position that `y` tags otherwise.

        A position's tag is the label of its segment, and whether the segment begins there.
        """
        if by_factors := self._by_factors(segment_scores, transition_scores, factors):
            return by_factors[0].loss_augmented_argmax(y=y, cost=cost, **by_factors[1])
        scores, transitions, single = self._read(segment_scores, transition_scores)
        truths = [y] if single else list(y)
        if len(truths) != len(scores):
            raise InputError(f"y has {len(truths)} segmentations, segment_scores has {len(scores)} sequences")
        per_position, augmented = float(checked_scores(cost, "cost", ())), []
        for i, (own, truth) in enumerate(zip(scores, truths, strict=True)):
            name = "y" if single else f"y[{i}]"
            tags = tags_of_segments(truth, self.n_labels, name)
            if len(tags) != len(own):
                raise InputError(f"{name} covers {len(tags)} positions, segment_scores has {len(own)}")
            wrong = tags[:, None] != np.arange(2 * self.n_labels)
            costs = np.zeros(own.shape)
            for k in range(min(self.max_length, len(own))):
                here = wrong[k:, (k > 0) :: 2]
                costs[: len(own) - k, k] = here + (costs[: len(own) - k, k - 1] if k else 0.0)
            augmented.append(own + per_position * costs)
        found = self.argmax(augmented, transitions)
        return found[0] if single else found

    def kbest(
        self, segment_scores: Any = None, transition_scores: Any = None, k: int = 5, **factors: Any
    ) -> Any:
        """The k best segmentations: a list of ((m, 3) array, score), best first, or a list of such lists.

        All are distinct. The list is shorter if fewer segmentations are possible.
        """
        if by_factors := self._by_factors(segment_scores, transition_scores, factors):
            return by_factors[0].kbest(k=k, **by_factors[1])
        k, packed = checked_count(k, "k"), self._pack(segment_scores, transition_scores)
        found, results = self.kbest_tags(packed, k), []
        require_possible(np.array([0.0 if len(values) else -np.inf for _, values in found]), packed.single)
        for tags, values in found:
            results.append([(segments_of_tags(t), float(v)) for t, v in zip(tags, values, strict=True)])
        return results[0] if packed.single else results

    def sample(
        self, segment_scores: Any = None, transition_scores: Any = None, n_samples: int = 1,
        random_state: Any = None, **factors: Any,
    ) -> Any:  # fmt: skip
        """Segmentations drawn with probability ∝ exp(score): a list of n_samples arrays, or a list of such lists."""
        if by_factors := self._by_factors(segment_scores, transition_scores, factors):
            own, scores = by_factors
            return own.sample(n_samples=n_samples, random_state=random_state, **scores)
        n_samples, generator = checked_samples(n_samples), random_generator(random_state)
        packed = self._pack(segment_scores, transition_scores)
        drawn = self.sample_tags(packed, n_samples, generator)
        results = [[segments_of_tags(each) for each in tags] for tags in drawn]
        return results[0] if packed.single else results

    def entropy(self, segment_scores: Any = None, transition_scores: Any = None, **factors: Any) -> Any:
        """Entropy in nats: a float, or float64 (n,). For scores of size s the error is about 1e-16·s·n."""
        if by_factors := self._by_factors(segment_scores, transition_scores, factors):
            return by_factors[0].entropy(**by_factors[1])
        return self._pack(segment_scores, transition_scores).entropy()

    def score(
        self,
        y: Any,
        segment_scores: ArrayLike | None = None,
        transition_scores: ArrayLike | None = None,
        **factors: Any,
    ) -> float:
        """Score of one segmentation of one sequence, −inf if a mask forbids it."""
        if by_factors := self._by_factors(segment_scores, transition_scores, factors):
            return by_factors[0].score(y, **by_factors[1])
        segments = np.asarray(y).tolist()
        own, between = np.asarray(segment_scores, float), np.asarray(transition_scores, float)
        total = sum(own[first, last - first, label] for first, last, label in segments)
        total += sum(between[before, after] for (_, _, before), (_, _, after) in pairwise(segments))
        return float(total) if self.is_allowed(y) else -np.inf

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        shapes, flat = self.shapes(shape[:1]), np.ascontiguousarray(scores, np.float64)
        packed = Packed(self, self.specification(), shapes, np.array([0, len(flat)]), flat, True)
        [(tags, _)] = self.kbest_tags(packed, k)
        return [self.encode_all(each, shapes).part for each in tags]

    def _by_factors(
        self, segment_scores: Any, transition_scores: Any, factors: dict[str, Any]
    ) -> tuple[FactoredSemiMarkov, dict[str, Any]] | None:
        """The structure with factors and its scores, if factors are given; raises if some are missing or unknown."""
        if not factors:
            if segment_scores is None or transition_scores is None:
                missing = "segment_scores" if segment_scores is None else "transition_scores"
                raise InputError(f"{missing} must be given, or position_scores and duration_scores by name")
            return None
        if segment_scores is not None:
            raise InputError(
                f"segment_scores and {next(iter(factors))} were given: a segment has one kind of scores"
            )
        given = {"transition_scores": transition_scores} | factors
        for name in ("position_scores", "duration_scores", "transition_scores"):
            if given.get(name) is None:
                raise InputError(f"{name} must be given: scores of segments have factors")
        unknown = given.keys() - {"position_scores", "duration_scores", "transition_scores", "begin_scores"}
        if unknown:
            raise InputError(f"segments have no {min(unknown)}; they take begin_scores besides")
        masks = {name: getattr(self, name) for name in ("allowed", "allowed_start", "allowed_end")}
        return FactoredSemiMarkov(self.n_labels, self.label_lengths, **masks), given

    # On packed scores, for the methods above and for estimators.

    def kbest_tags(self, packed: Packed, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Tags (m, n) and scores (m,) of the m ≤ k best segmentations of every sequence."""
        from partwise.structures.segments.recursion import best_segmentations

        room, results = packed.room(), []
        for first, length in zip(packed.part_ptr[:-1].tolist(), packed.lengths.tolist(), strict=True):
            n_best = room_for_best(k, self.log_count(length), 2 * room.cells.size + length)
            tags, values = np.zeros((n_best, length), np.int64), np.empty(n_best)
            scores = packed.scores[first:]
            found = best_segmentations(packed.specification, length, scores, room, tags, values)
            results.append((tags[:found], values[:found]))
        return results

    def sample_tags(self, packed: Packed, n_samples: int, generator: np.random.Generator) -> list[np.ndarray]:
        """Tags (n_samples, n) of segmentations of every sequence; raises if none is possible."""
        from partwise.structures.segments.recursion import sample_segmentations

        room, results, totals = packed.room(), [], np.zeros(len(packed.lengths))
        bounds = zip(packed.part_ptr[:-1].tolist(), packed.lengths.tolist(), strict=True)
        for i, (first, length) in enumerate(bounds):
            tags, scores = np.zeros((n_samples, length), np.int64), packed.scores[first:]
            uniforms = generator.random((n_samples, 2 * length))
            totals[i] = sample_segmentations(packed.specification, length, scores, room, uniforms, tags)
            results.append(tags)
        require_possible(totals, packed.single)
        return results

    def _read(
        self, segment_scores: Any, transition_scores: Any
    ) -> tuple[list[np.ndarray], list[np.ndarray], bool]:
        """Segments (n, max_length, L) and transitions of every sequence; whether one was given, not a list."""
        single, square = _is_single(segment_scores), (self.n_labels, self.n_labels)
        given = [segment_scores] if single else list(segment_scores)
        scores = []
        for i, each in enumerate(given):
            name = "segment_scores" if single else f"segment_scores[{i}]"
            scores.append(checked_scores(each, name, (None, self.max_length, self.n_labels)))
            if not len(scores[-1]):
                raise InputError(f"{name} has no positions; a sequence needs at least one")
        if single or np.shape(transition_scores) == square:
            shared = checked_scores(transition_scores, "transition_scores", square)
            return scores, [shared] * len(scores), single
        if len(transition_scores) != len(scores):
            raise InputError(
                f"transition_scores is neither of shape {square} nor a list of {len(scores)} arrays"
            )
        name = "transition_scores"
        between = [checked_scores(each, f"{name}[{i}]", square) for i, each in enumerate(transition_scores)]
        return scores, between, single

    def _pack(self, segment_scores: Any, transition_scores: Any) -> Packed:
        """Without parts of positions: the scores of segments include them."""
        scores, transitions, single = self._read(segment_scores, transition_scores)
        shapes = self.shapes([len(each) for each in scores])
        pieces: list[np.ndarray] = []
        for own, between in zip(scores, transitions, strict=True):
            pieces += [own[_fits(len(own), self.max_length)].ravel(), between.ravel()]
        part_ptr = offsets([len(a) + len(b) for a, b in zip(pieces[::2], pieces[1::2], strict=True)])
        flat = np.concatenate([*pieces, np.zeros(LANES)])
        return Packed(self, self._specification(False), shapes, part_ptr, flat, single)


@lru_cache(maxsize=256)
def _fits(length: int, max_length: int) -> np.ndarray:
    """Which (start, length - 1) lie within a sequence, bool (length, max_length)."""
    return np.arange(length)[:, None] + np.arange(max_length) < length


def _is_single(segment_scores: Any) -> bool:
    """Whether these are the scores of one sequence, not a list of such."""
    if isinstance(segment_scores, list | tuple):
        return len(segment_scores) > 0 and np.ndim(segment_scores[0]) < 3
    return np.ndim(segment_scores) != 4
