"""Lists of candidates: an example is a list of labels of any kind, with features, of which one is true.

This is the set G(x) of Bartlett et al. (2004), section 2, written out: reranking, and any label that no other structure
describes. An example of m candidates has m parts of kind "candidate", with one row each. A labelling is one part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, maximum
from partwise.core.arrays import block_of, offsets
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import checked_count, checked_scores, require_possible
from partwise.structures.contract import PartLists, RowKind, Shapes, Structure
from partwise.structures.packed import Packed

# -- compiled -----------------------------------------------------------------------------------------


class CandidatesSpecification(NamedTuple):
    """All that an example needs to know is the number of its candidates."""


class CandidatesWorkspace(NamedTuple):
    """Nothing but the scores and counts themselves is needed."""


@inner
def candidates_log_partition(specification, shape, scores, work):  # type: ignore
    m = shape[0]
    shift = maximum(scores, 0, m)
    if shift == -np.inf:
        return shift
    total = 0.0
    for j in range(m):
        total += math.exp(scores[j] - shift)
    return shift + math.log(total)


@inner
def candidates_expectations(specification, shape, scores, counts, work):  # type: ignore
    m = shape[0]
    shift, total = maximum(scores, 0, m), 0.0
    for j in range(m):
        counts[j] = math.exp(scores[j] - shift) if shift > -np.inf else 0.0
        total += counts[j]
    if shift == -np.inf:
        return shift
    for j in range(m):
        counts[j] /= total
    return shift + math.log(total)


@inner
def candidates_best(specification, shape, scores, counts, work):  # type: ignore
    winner = 0
    for j in range(shape[0]):
        counts[j] = 0.0
        if scores[j] > scores[winner]:
            winner = j
    counts[winner] = 1.0
    return scores[winner]


CANDIDATES = Oracle(
    "candidates",
    CandidatesSpecification,
    CandidatesWorkspace,
    candidates_expectations,
    candidates_log_partition,
    candidates_best,
)


# -- the structure ------------------------------------------------------------------------------------


class Candidates(Structure):
    """One of a list of candidates, which may have any length: the analyses of a sentence that another model proposes.

    Labels of a corpus are the numbers of the true candidates, int64 (n,). Costs are "zero_one" (or "hamming"), or an
    array with the cost of every candidate of every example, (lengths.sum(),): one minus the F1 of an analysis, say.

    Notes
    -----
    All methods take `scores` (m,) for one list, or a list of such arrays; results are then lists, or arrays of numbers.

    Examples
    --------
    >>> Candidates().marginals([0.0, 0.0, -np.inf])
    array([0.5, 0.5, 0. ])
    """

    kinds = (RowKind("candidate", 1),)
    oracle = CANDIDATES

    def __repr__(self) -> str:
        return "Candidates()"

    # -- what solvers need ------------------------------------------------------------------------

    def specification(self) -> CandidatesSpecification:
        return CandidatesSpecification()

    def workspace(self, shapes: Shapes, specification: Any = None) -> CandidatesWorkspace:
        return CandidatesWorkspace()

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        return (shapes.lengths,)

    def row_choices(self, shapes: Shapes) -> np.ndarray:
        return block_of(offsets(shapes.lengths))

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        return np.ones(len(shapes.lengths), np.int64)

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        labels, lengths = np.asarray(labels, np.int64), shapes.lengths
        if labels.shape != lengths.shape:
            raise InputError(
                f"labels has shape {labels.shape}, but there are {len(lengths)} lists of candidates"
            )
        wrong = np.flatnonzero((labels < 0) | (labels >= lengths))
        if wrong.size:
            i = int(wrong[0])
            raise InputError(f"labels: example {i} has label {labels[i]}, but {lengths[i]} candidates")
        return PartLists(np.arange(len(lengths) + 1), labels)

    def decode_all(self, found: PartLists, shapes: Shapes) -> np.ndarray:
        return found.part.copy()

    def checked_cost(self, cost: Any) -> Any:
        if isinstance(cost, str):
            if cost not in ("hamming", "zero_one"):
                raise InputError(
                    f"cost must be 'zero_one' or an array of costs of all candidates, not {cost!r:.40}"
                )
            return cost
        costs = np.asarray(cost, np.float64)
        if costs.ndim != 1 or not np.isfinite(costs).all() or (costs < 0).any():
            raise InputError("cost must be a finite non-negative number for every candidate, in one array")
        return costs

    def part_costs(self, labels: Any, shapes: Shapes, cost: Any) -> np.ndarray:
        true = offsets(shapes.lengths)[:-1] + self.encode_all(labels, shapes).part
        n_candidates = int(shapes.lengths.sum())
        if not isinstance(cost, str):
            if len(cost) != n_candidates:
                raise InputError(f"cost has {len(cost)} entries, but there are {n_candidates} candidates")
            return np.asarray(cost, np.float32)
        result = np.ones(n_candidates, np.float32)
        result[true] = 0.0
        return result

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        return [self.encode(y) for y, _ in self.kbest(scores, k)]

    # -- what users call --------------------------------------------------------------------------

    def log_partition(self, scores: Any) -> Any:
        """log Σ exp(score): a float, or float64 (n,) for lists."""
        return self._pack(scores).log_partition()

    def marginals(self, scores: Any) -> Any:
        """Probabilities of the candidates (m,), or a list of them."""
        packed = self._pack(scores)
        found = np.split(packed.expectations()[1], packed.part_ptr[1:-1])
        return found[0] if packed.single else found

    def argmax(self, scores: Any) -> Any:
        """The best candidate: an int, or int64 (n,) for lists."""
        packed = self._pack(scores)
        return int(packed.best()[0]) if packed.single else packed.best()

    def loss_augmented_argmax(self, scores: Any, y: Any, cost: Any = 1.0) -> Any:
        """The best candidate when every one but `y` gains `cost`, a number or an array of the form of `scores`."""
        packed = self._pack(scores)
        shapes, labels = packed.shapes, np.atleast_1d(y)
        if not np.isscalar(cost):
            more = self._pack(cost).scores[: int(packed.part_ptr[-1])]
        else:
            more = float(checked_scores(cost, "cost", ())) * self.part_costs(labels, shapes, "zero_one")
        if len(more) != packed.part_ptr[-1]:
            raise InputError(f"cost has {len(more)} entries, but there are {packed.part_ptr[-1]} candidates")
        packed.scores[: len(more)] += more
        return int(packed.best()[0]) if packed.single else packed.best()

    def kbest(self, scores: Any, k: int = 5) -> Any:
        """(candidate, score) pairs, best first, or a list of such lists."""
        packed, k = self._pack(scores), checked_count(k, "k")
        results = []
        for i in range(len(packed.lengths)):
            own = packed.scores[packed.part_ptr[i] : packed.part_ptr[i + 1]]
            require_possible(own.max(keepdims=True), packed.single)
            order = np.argsort(-own, kind="stable")[:k]
            results.append([(int(j), float(own[j])) for j in order if own[j] > -np.inf])
        return results[0] if packed.single else results

    def sample(self, scores: Any, n_samples: int = 1, random_state: Any = None) -> Any:
        """Candidates drawn with probability ∝ exp(score): int64 (n_samples,), or a list of such arrays."""
        n_samples, generator = checked_count(n_samples, "n_samples"), random_generator(random_state)
        packed = self._pack(scores)
        found = []
        for own in np.split(packed.expectations()[1], packed.part_ptr[1:-1]):
            cumulative = own.cumsum()
            uniforms = generator.random(n_samples) * cumulative[-1]
            found.append(np.searchsorted(cumulative, uniforms, side="right"))
        return found[0] if packed.single else found

    def entropy(self, scores: Any) -> Any:
        """Entropy in nats: a float, or float64 (n,) for lists."""
        return self._pack(scores).entropy()

    def log_count(self, length: Any) -> Any:
        """Log of the number of candidates."""
        count = np.log(np.asarray(length, float))
        return float(count) if count.ndim == 0 else count

    def encode(self, y: Any) -> np.ndarray:
        """The number of the candidate itself: int64 (1,)."""
        return np.atleast_1d(np.asarray(y, np.int64))

    def decode(self, parts: Any) -> int:
        return int(np.asarray(parts)[0])

    # -- enumeration ------------------------------------------------------------------------------

    def labellings(self, length: int) -> Iterator[int]:
        return iter(range(length))

    def score(self, y: Any, scores: Any) -> float:
        """Score of candidate `y`."""
        return float(np.asarray(scores)[y])

    def indicators(self, y: Any) -> Any:
        raise NotImplementedError("marginals are those of the parts")

    def _pack(self, scores: Any) -> Packed:
        try:
            single = np.ndim(scores[0]) == 0
        except (TypeError, IndexError):  # a number, or no list at all
            single = True
        arrays = [
            checked_scores(each, "scores" if single else f"scores[{i}]", (None,))
            for i, each in enumerate([scores] if single else scores)
        ]
        lengths = np.array([len(each) for each in arrays], np.int64)
        if (lengths == 0).any():
            raise InputError(f"example {int((lengths == 0).argmax())} has no candidates")
        flat = np.concatenate([*arrays, np.zeros(LANES)])
        return Packed(self, self.specification(), self.shapes(lengths), offsets(lengths), flat, single)
