"""The contract of all structures, and the one place where shapes are written down.

Two sides. *Users* call pure functions of part scores: one example's arrays give one answer, a list of
examples gives a list (or an array of numbers), computed by one kernel call. *Solvers* see flat
arrays over a whole corpus:

- a corpus of n examples has :class:`Layouts`, which say how long each example is and whatever else its
  shape depends on, and one flat int64 array over all positions, ``labels`` (lengths.sum(),);
- an example's parts are one vector ``[nodes][edge blocks][tied block]`` of ``n_parts`` entries:
  ``n_node_rows`` rows of `node_width` entries, ``n_edge_rows`` rows of `edge_width`, then `tied_size`
  entries that have the same weights in every example;
- scores, counts and costs of the corpus are flat (part_ptr[n],), example i at
  ``part_ptr[i]:part_ptr[i + 1]``; arrays that kernels read have ``simd.LANES`` entries of slack behind;
- a labelling is the set of its part numbers within the example, with repetition where tied.

Any score may be −inf. Where no labelling is possible the log-partition is −inf and whatever needs one
raises :class:`~partwise.errors.InputError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.structures.costs import cost_matrix


class Layouts(NamedTuple):
    """The shapes of some examples: a row of integers each, the length first.

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


class Packed(NamedTuple):
    """Scores of some examples as the kernels read them.

    Attributes
    ----------
    specification : NamedTuple
        Which kernels, and the masks.
    layouts : Layouts
    part_ptr : int64 array, shape (n + 1,)
    scores : float64 array, shape (part_ptr[n] + slack,)
    single : bool
        One example was given, not a list of one.
    """

    specification: Any
    layouts: Layouts
    part_ptr: np.ndarray
    scores: np.ndarray
    single: bool

    @property
    def lengths(self) -> np.ndarray:
        return self.layouts.lengths


class Structure(ABC):
    """What a label is: a set of parts, and how to sum, maximise and draw over all such sets.

    Attributes
    ----------
    n_labels : int
    node_width : int
        Score entries fed by one node row.
    edge_width : int
        Score entries fed by one edge row; 0 without edge rows.
    tied_size : int
        Entries of the tied block that ends every example's parts.
    exactness : {"exact", "relaxation", "approximate"}
        What the sums over labellings are: exact, a convex upper bound, or neither (then nothing is certified).
    equal_part_counts : bool
        Whether all labellings of an example have the same number of parts.
    """

    n_labels: int
    node_width: int
    edge_width: int = 0
    tied_size: int = 0
    exactness: str = "exact"
    equal_part_counts: bool = True

    # The user's side; each structure writes its scores out as named arguments.

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
        """The `k` best labellings with their scores, best first; fewer where there are fewer."""

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

    # What the enumeration in `brute.py` asks; direct, readable definitions.

    @abstractmethod
    def labellings(self, length: int) -> Iterator[Any]:
        """Every labelling that the masks allow."""

    @abstractmethod
    def score(self, y: Any, *scores: Any, **options: Any) -> float:
        """Score of one labelling, summed part by part."""

    @abstractmethod
    def indicators(self, y: Any) -> Any:
        """What :meth:`marginals` returns when all probability lies on `y`."""

    # The solver's side.

    @abstractmethod
    def specification(self) -> Any:
        """The NamedTuple that chooses the kernels and carries the masks."""

    @abstractmethod
    def workspace(self, longest: int) -> Any:
        """Room for the kernels on examples up to `longest`; one per thread."""

    @abstractmethod
    def encode_all(self, labels: np.ndarray, layouts: Layouts) -> tuple[np.ndarray, np.ndarray]:
        """Parts of all labels.

        Returns
        -------
        gold_ptr : int64 array, shape (n + 1,)
        gold_parts : int64 array, shape (gold_ptr[n],)
            Part numbers within each example, with repetition.
        """

    def layouts(self, lengths: Any) -> Layouts:
        """Layouts of examples of which nothing but the lengths (n,) matters."""
        lengths = np.asarray(lengths)
        return Layouts(np.arange(len(lengths) + 1), lengths.astype(np.int32))

    @abstractmethod
    def kbest_parts(self, layout: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        """Parts of the `k` best labellings of one example, best first, from its flat part scores."""

    def n_node_rows(self, layouts: Layouts) -> np.ndarray:
        """Node rows of each example, int64 (n,)."""
        return layouts.lengths

    def n_edge_rows(self, layouts: Layouts) -> np.ndarray:
        """Edge rows of each example, int64 (n,)."""
        return np.zeros(len(layouts.lengths), np.int64)

    def n_parts(self, layouts: Layouts) -> np.ndarray:
        """Entries of each example's part vector, int64 (n,)."""
        nodes = self.n_node_rows(layouts) * self.node_width
        return nodes + self.n_edge_rows(layouts) * self.edge_width + self.tied_size

    def row_choices(self, layouts: Layouts) -> np.ndarray | None:
        """Where a labelling uses one of several rows: the choice each node (and edge) row belongs to, int64
        (n_node_rows.sum(),). None where all rows are used."""
        return None

    def checked_cost(self, cost: Any) -> Any:
        """What :meth:`part_costs` reads, from a name or what else a user may give."""
        return cost_matrix(cost, self.n_labels)

    def part_costs(self, labels: np.ndarray, layouts: Layouts, cost: Any) -> np.ndarray:
        """Cost of every part, float32 (n_parts.sum(),): each position is charged to its node part."""
        lengths = layouts.lengths
        part_ptr = offsets(self.n_parts(layouts))
        result = np.zeros(int(part_ptr[-1]), np.float32)
        first = np.repeat(part_ptr[:-1], lengths) + positions(lengths) * self.node_width
        result[first[:, None] + np.arange(self.n_labels)] = cost[labels]
        return result

    def check_gold(self, labels: np.ndarray, layouts: Layouts) -> None:
        """Raise :class:`InputError` at the first example whose labels lie outside the structure."""
        labels, lengths = np.asarray(labels), layouts.lengths
        if len(labels) != lengths.sum():
            raise InputError(f"labels has {len(labels)} entries, but lengths add up to {lengths.sum()}")
        wrong = np.flatnonzero((labels < 0) | (labels >= self.n_labels))
        if wrong.size:
            example, position = locate(int(wrong[0]), lengths)
            raise InputError(
                f"labels: example {example}, position {position} has label {labels[wrong[0]]}, "
                f"but labels run from 0 to {self.n_labels - 1}"
            )

    def decode_all(self, counts: np.ndarray, part_ptr: np.ndarray, layouts: Layouts) -> np.ndarray:
        """Labels of the labellings whose part counts these are, int64 (lengths.sum(),)."""
        from partwise.compiled.inference import labellings_of_all

        position_ptr = offsets(layouts.lengths)
        labels = np.empty(position_ptr[-1], np.int64)
        labellings_of_all(self.specification(), *layouts, part_ptr, counts, position_ptr, labels)
        return labels

    # Shared by the users' methods.

    def _run_log_partition(self, packed: Packed) -> Any:
        from partwise.compiled.inference import log_partition_of_all

        specification, layouts, part_ptr, scores, single = packed
        values = np.empty(len(part_ptr) - 1)
        log_partition_of_all(specification, *layouts, part_ptr, scores, values, self._room(packed))
        return float(values[0]) if single else values

    def _run_expectations(self, packed: Packed) -> tuple[np.ndarray, np.ndarray]:
        """Log-partitions (n,) and expected counts (part_ptr[n],); raises where no labelling is possible."""
        from partwise.compiled.inference import expectations_of_all

        specification, layouts, part_ptr, scores, _ = packed
        values, counts = np.empty(len(part_ptr) - 1), np.empty(part_ptr[-1])
        expectations_of_all(specification, *layouts, part_ptr, scores, counts, values, self._room(packed))
        require_possible(values, packed.single)
        return values, counts

    def _run_best(self, packed: Packed) -> np.ndarray:
        """Labels of maximisers, flat over all positions."""
        from partwise.compiled.inference import best_of_all

        specification, layouts, part_ptr, scores, _ = packed
        values, counts = np.empty(len(part_ptr) - 1), np.empty(part_ptr[-1])
        best_of_all(specification, *layouts, part_ptr, scores, counts, values, self._room(packed))
        require_possible(values, packed.single)
        return self.decode_all(counts, part_ptr, layouts)

    def _run_entropy(self, packed: Packed) -> Any:
        log_totals, counts = self._run_expectations(packed)
        scores = np.where(counts > 0.0, packed.scores[: len(counts)], 0.0)
        expected = np.add.reduceat(scores * counts, packed.part_ptr[:-1]) if len(log_totals) else log_totals
        # The difference of two large numbers may come out just below zero.
        entropies = np.maximum(log_totals - expected, 0.0)
        return float(entropies[0]) if packed.single else entropies

    def _room(self, packed: Packed) -> Any:
        return self._workspace(packed.specification, int(packed.lengths.max(initial=1)))

    @abstractmethod
    def _workspace(self, specification: Any, longest: int) -> Any:
        """Room for kernels under a specification that may differ from the solvers' own."""


def offsets(sizes: np.ndarray) -> np.ndarray:
    """Where consecutive blocks of these sizes start, and where the last one ends: int64 (n + 1,)."""
    result = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=result[1:])
    return result


def positions(lengths: np.ndarray) -> np.ndarray:
    """0, 1, … within each example, flat over all: int64 (lengths.sum(),)."""
    starts = offsets(lengths)
    return np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)


def locate(index: int, lengths: np.ndarray) -> tuple[int, int]:
    """Example and position within it of an index into a flat array over all positions."""
    starts = offsets(lengths)
    example = int(np.searchsorted(starts, index, side="right")) - 1
    return example, index - int(starts[example])


def require_possible(log_totals: np.ndarray, single: bool) -> None:
    """Raise where the best score or log-partition is −inf."""
    if np.any(log_totals == -np.inf):
        where = "" if single else f" in sequence {int(np.argmax(log_totals == -np.inf))}"
        raise InputError(f"scores{where}: every labelling scores −inf or is masked out")


def checked_scores(values: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """`values` as float64, without NaN or +inf, of this shape; None stands for any size."""
    try:
        array = np.asarray(values, np.float64, order="C")
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers of shape {shape_text(shape)}") from None
    fits = array.ndim == len(shape) and all(
        s is None or s == n for s, n in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError(f"{name} has shape {np.shape(values)}, expected {shape_text(shape)}")
    if not (array < np.inf).all():
        raise InputError(f"{name} contains NaN or +inf; scores may be any number or −inf")
    return array


def shape_text(shape: Sequence[int | None]) -> str:
    words = ["length" if size is None else str(size) for size in shape]
    return "(" + ", ".join(words) + ("," if len(words) == 1 else "") + ")"


def checked_count(value: Any, name: str) -> int:
    """`value` as an int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be an integer of at least 1, not {value!r}")
    return int(value)


def checked_labels(y: Any, name: str, n_labels: int) -> np.ndarray:
    """`y` as int64 labels below `n_labels`, one axis."""
    array = np.asarray(y)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(f"{name} must be a sequence of integer labels")
    if array.size and (array.min() < 0 or array.max() >= n_labels):
        raise InputError(f"{name} holds label {array.max()}; labels run from 0 to {n_labels - 1}")
    return np.ascontiguousarray(array, np.int64)


def random_generator(random_state: Any) -> Any:
    """A NumPy generator from None, a seed, or a generator of either kind."""
    return random_state if hasattr(random_state, "random") else np.random.default_rng(random_state)
