"""The contract of all structures, in three parts: what solvers need, what users call, what enumeration needs.

*Solvers* see flat arrays over all examples:

- An example has a *shape*, a row of integers: its length, and whatever else the compiled code of the structure needs.
- The *parts* of an example are one vector, fed by *rows* of features. A structure names the kinds of its rows. It says
  how many consecutive parts a row of each kind feeds. Tied kinds, whose one row all examples share, come last.
- Scores, counts and costs of all examples are flat (part_ptr[n],), example i at ``part_ptr[i]:part_ptr[i + 1]``.
  Arrays that compiled code reads have ``simd.LANES`` more entries at the end.
- A labelling is the set of its part numbers within the example. A part that counts several times is repeated. Only the
  structure and its estimator know any other form of a label.

*Users* call pure functions of part scores. The arrays of one example give one answer. A list of examples gives a list,
or an array of numbers, by one compiled call. Any score may be −inf. If no labelling is possible, the log-partition is
−inf, and methods that need a labelling raise :class:`~partwise.errors.InputError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from partwise.compiled.oracles import Oracle
from partwise.core.arrays import locate, offsets, positions, ranges, untouched
from partwise.core.exactness import Exactness
from partwise.errors import InputError
from partwise.structures.costs import KindCosts, cost_matrix, costs_by_kind, read_tables

_AT_ONCE = 2**14  # Positions whose costs are looked up together: bounds the memory for these rows.


class RowKind(NamedTuple):
    """A kind of rows.

    Attributes
    ----------
    name : str
        Rows, feature maps and model files refer to it.
    width : int
        Consecutive parts that one row feeds.
    tied : bool
        One row with one attribute, always present, is shared by all examples: its weights are the parts' scores.
    """

    name: str
    width: int
    tied: bool = False


class Shapes(NamedTuple):
    """The shapes of some examples: a row of integers each, the number of positions first.

    Attributes
    ----------
    ptr : int64 array, shape (n + 1,)
    values : int32 array, shape (ptr[n],)
    """

    ptr: np.ndarray
    values: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Positions of each example, int64 (n,)."""
        return self.values[self.ptr[:-1]].astype(np.int64)

    def take(self, examples: np.ndarray) -> Shapes:
        """The shapes of some examples, in that order."""
        sizes = np.diff(self.ptr)[examples]
        return Shapes(offsets(sizes), self.values[ranges(self.ptr[:-1][examples], sizes)])


class PartLists(NamedTuple):
    """Labellings of some examples as lists of part numbers, each counted within its example.

    Attributes
    ----------
    ptr : int64 array, shape (n + 1,)
    part : int64 array, shape (ptr[n],)
    amount : float64 array, shape (ptr[n],) or (0,)
        How often each part counts; empty if each counts once.
    """

    ptr: np.ndarray
    part: np.ndarray
    amount: np.ndarray = np.zeros(0)


class Trainable(ABC):
    """What solvers need of a structure.

    Attributes
    ----------
    kinds : tuple of RowKind
        In the order of an example's parts; tied kinds come last.
    exactness : {"exact", "relaxation", "approximate"}
        Whether the log-partition A is exact; a convex upper bound, and certificates hold for the relaxed problem; or
        approximate, and there are no certificates.
    most_of_row : int
        The most parts of one row that a labelling uses.
    forgets_distance : bool
        Labels far apart in an example hardly depend on each other.
    slows_when_sharp : bool
        Sums over labellings take longer as scores grow sharp; best labellings do not.
    """

    kinds: tuple[RowKind, ...]
    oracle: Oracle
    exactness: ClassVar[Exactness] = "exact"
    most_of_row: ClassVar[int] = 1
    forgets_distance: ClassVar[bool] = False
    slows_when_sharp: ClassVar[bool] = False

    @abstractmethod
    def specification(self) -> Any:
        """The record (see ``compiled/boundary.py``) of masks and sizes that all examples share."""

    @abstractmethod
    def workspace(self, shapes: Shapes, specification: Any = None) -> Any:
        """The record of arrays that compiled code writes, for examples of these shapes; one per thread."""

    def shapes(self, lengths: Any) -> Shapes:
        """Shapes of examples that consist of their lengths (n,)."""
        lengths = np.asarray(lengths)
        return Shapes(np.arange(len(lengths) + 1), lengths.astype(np.int32))

    @abstractmethod
    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        """Rows of each example, int64 (n,), for every kind that is not tied."""

    def runs(self, shapes: Shapes) -> tuple[np.ndarray, np.ndarray]:
        """Runs of rows (see ``compiled/rows.py``): each example has its own rows, kind after kind.

        Returns
        -------
        run_ptr : int64 array, shape (n + 1,)
        runs : int64 array, shape (run_ptr[n], 4)
            Kind, first row, number of rows, first part.
        """
        n, n_kinds = len(shapes.ptr) - 1, len(self.kinds)
        runs = np.zeros((n, n_kinds, 4), np.int64)
        counts = [*self.row_counts(shapes), *([None] * sum(kind.tied for kind in self.kinds))]
        first_part = np.zeros(n, np.int64)
        for k, (kind, count) in enumerate(zip(self.kinds, counts, strict=True)):
            runs[:, k, 0] = k
            runs[:, k, 1] = 0 if count is None else offsets(count)[:-1]
            runs[:, k, 2] = 1 if count is None else count
            runs[:, k, 3] = first_part
            first_part = first_part + runs[:, k, 2] * kind.width
        return np.arange(n + 1) * n_kinds, runs.reshape(-1, 4)

    def n_parts(self, shapes: Shapes) -> np.ndarray:
        """Entries of each example's part vector, int64 (n,)."""
        counts, widths = self.row_counts(shapes), [kind.width for kind in self.kinds]
        total = np.full(len(shapes.ptr) - 1, self.n_tied, np.int64)
        for count, width in zip(counts, widths, strict=False):
            total += count * width
        return total

    @property
    def n_tied(self) -> int:
        """How many parts, the last of every example, are fed by rows that all examples share."""
        return sum(kind.width for kind in self.kinds if kind.tied)

    @abstractmethod
    def most_parts(self, shapes: Shapes) -> np.ndarray:
        """The most parts that a labelling of each example may have, with repetition, int64 (n,)."""

    def most_tied(self, shapes: Shapes) -> np.ndarray:
        """The most tied parts that a labelling of each example may have, with repetition, int64 (n,)."""
        return self.most_parts(shapes)

    @property
    def n_classes(self) -> int:
        """Labellings of an example if each of them is a single part; 0 for all other structures."""
        return 0

    @property
    def is_first_order(self) -> bool:
        """Whether consistent marginals of parts are always those of a distribution over labellings."""
        return False

    def untied(self) -> Structure:
        """The structure with parts of each place instead of tied ones; itself if there is no such structure."""
        return self  # type: ignore[return-value]

    def sums_effort(self, shapes: Shapes) -> float:
        """Nanoseconds, roughly, that sums over the labellings of all examples take; only ratios matter."""
        return 3.0 * float(self.n_parts(shapes).astype(float) @ shapes.lengths)

    def table_cells(self, shapes: Shapes) -> float:
        """Cells of the recursion's tables in a pass over all examples, for an estimate of its time."""
        return 0.0

    def why_slow(self, shapes: Shapes) -> tuple[str, str]:
        """The sizes that make a pass long, and what would make it shorter, in words."""
        n_positions = int(shapes.lengths.sum())
        return f"{self.kinds[0].width:,} labels at {n_positions:,} positions", "fewer labels or a lower order"

    def row_choices(self, shapes: Shapes) -> np.ndarray | None:
        """The choice that each row belongs to, if a labelling uses only one row of each choice: int64 (n_rows,), the
        same for all kinds. None if all rows are used."""
        return None

    def long_examples(self, shapes: Shapes) -> np.ndarray:
        """The examples that :meth:`long_answer` takes because each is worth two threads, int64 (n_long,)."""
        return np.zeros(0, np.int64)

    def long_answer(
        self, which: str, specification: Any, shape: np.ndarray, scores: np.ndarray, counts: np.ndarray | None,
        n_threads: int,
    ) -> float:  # fmt: skip
        """The value of the oracle's "sums" or "best" of one long example; fills `counts` unless it is None.

        The result does not depend on the number of threads. NaN if only the oracle itself can answer.
        """
        return np.nan

    # Labels: each structure has its own form of labels, and solvers see their parts.

    @abstractmethod
    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        """Parts of all labels; raises :class:`InputError` at the first example whose labels are impossible."""

    @abstractmethod
    def decode_all(self, found: PartLists, shapes: Shapes) -> Any:
        """Labels from the distinct parts, in ascending order, of labellings."""

    @abstractmethod
    def checked_cost(self, cost: Any) -> Any:
        """The argument of :meth:`part_costs`, from a name or another argument of users."""

    @abstractmethod
    def part_costs(self, labels: Any, shapes: Shapes, cost: Any) -> np.ndarray:
        """Cost of every part, float32 (n_parts.sum(),).

        The cost of a labelling is the sum over its parts minus the sum over the true parts. So the true label costs
        nothing. If leaving out a true part shall cost something, that part has a negative cost.
        """

    def read_cost(self, cost: Any) -> Any:
        """The costs that :meth:`costs_of_parts` takes, from those of the structure or a mapping of kinds of rows."""
        return read_tables(self.kinds, cost) if isinstance(cost, Mapping) else self.checked_cost(cost)

    def costs_of_parts(
        self, labels: Any, shapes: Shapes, cost: Any, gold: PartLists | None = None
    ) -> np.ndarray:
        """Cost of every part, as :meth:`part_costs` has them. `gold` are the true parts, if they are known."""
        if not isinstance(cost, KindCosts):
            return self.part_costs(labels, shapes, cost)
        gold = self.encode_all(labels, shapes) if gold is None else gold
        return costs_by_kind(self.kinds, self.runs(shapes), offsets(self.n_parts(shapes)), gold, cost)

    @abstractmethod
    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        """Parts of the `k` best labellings of one example, best first, from its flat part scores."""


class Inference(ABC):
    """The methods for users; each structure names its scores as arguments."""

    @abstractmethod
    def log_partition(self, *scores: Any, **options: Any) -> Any:
        """log Σ_y exp(score of y): a float, or an array (n,) for a list."""

    @abstractmethod
    def marginals(self, *scores: Any, **options: Any) -> Any:
        """Probability of each part."""

    @abstractmethod
    def argmax(self, *scores: Any, **options: Any) -> Any:
        """A labelling with the largest score."""

    @abstractmethod
    def loss_augmented_argmax(self, *scores: Any, **options: Any) -> Any:
        """A labelling with the largest sum of score and `cost`, counted from the true labels `y`."""

    @abstractmethod
    def kbest(self, *scores: Any, **options: Any) -> Any:
        """The `k` best labellings with their scores, best first; fewer if there are fewer."""

    @abstractmethod
    def sample(self, *scores: Any, **options: Any) -> Any:
        """`n_samples` independent labellings, probability ∝ exp(score), from `random_state`."""

    @abstractmethod
    def entropy(self, *scores: Any, **options: Any) -> Any:
        """Entropy in nats of the distribution over labellings: A(s) − s·μ."""

    @abstractmethod
    def log_count(self, length: Any) -> Any:
        """Log of the number of labellings that the masks allow."""

    @abstractmethod
    def encode(self, y: Any) -> np.ndarray:
        """Part numbers of one labelling, with repetition."""

    @abstractmethod
    def decode(self, parts: Any) -> Any:
        """The labelling whose part numbers these are."""


class Enumerable(ABC):
    """Direct, readable definitions for the enumeration in `brute.py`."""

    @abstractmethod
    def labellings(self, length: int) -> Iterator[Any]:
        """Every labelling that the masks allow."""

    @abstractmethod
    def score(self, y: Any, *scores: Any, **options: Any) -> float:
        """Score of one labelling, summed part by part."""

    @abstractmethod
    def indicators(self, y: Any) -> Any:
        """What :meth:`Inference.marginals` returns if `y` has probability one. NotImplementedError if `y` does not tell
        its length, and marginals are those of the parts."""


class Structure(Trainable, Inference, Enumerable):
    """A label is a set of parts. A structure sums, maximises and draws over all such sets."""


class PositionLabels(Structure):
    """Structures with one of `n_labels` labels at every position; the rows of the first kind are positions.

    The labels of all examples are one flat int64 array over all positions, (lengths.sum(),).
    """

    n_labels: int

    def check_gold(self, labels: Any, shapes: Shapes) -> np.ndarray:
        """The labels as int64; raises :class:`InputError` at the first that is not a label."""
        labels, lengths = np.asarray(labels, np.int64), shapes.lengths
        if len(labels) != lengths.sum():
            raise InputError(f"labels has {len(labels)} entries, but lengths add up to {lengths.sum()}")
        if lengths.size and lengths.min() < 1:
            raise InputError(f"lengths: example {int(lengths.argmin())} has no positions")
        wrong = np.flatnonzero((labels < 0) | (labels >= self.n_labels))
        if wrong.size:
            example, position = locate(int(wrong[0]), lengths)
            raise InputError(
                f"labels: example {example}, position {position} has label {labels[wrong[0]]}, "
                f"but labels run from 0 to {self.n_labels - 1}"
            )
        return labels

    def decode_all(self, found: PartLists, shapes: Shapes) -> np.ndarray:
        """Labels from the parts of positions, which come first."""
        lengths = shapes.lengths
        at = ranges(found.ptr[:-1], lengths)
        return found.part[at] - positions(lengths) * self.n_labels

    def checked_cost(self, cost: Any) -> Any:
        return cost_matrix(cost, self.n_labels)

    def part_costs(self, labels: Any, shapes: Shapes, cost: Any) -> np.ndarray:
        """The part of a position, of the first kind, has its cost."""
        lengths = shapes.lengths
        part_ptr = offsets(self.n_parts(shapes))
        result = untouched(int(part_ptr[-1]), np.float32)  # tied parts cost nothing
        first = np.repeat(part_ptr[:-1], lengths) + positions(lengths) * self.n_labels
        for k in range(0, len(first), _AT_ONCE):
            here = slice(k, k + _AT_ONCE)
            result[first[here, None] + np.arange(self.n_labels)] = cost[labels[here]]
        return result
