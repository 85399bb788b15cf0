"""Problems whose data lie on disk. Examples are visited shard by shard; the next shard is read meanwhile.

The arrays of such a problem are maps of files, so compiled code and solvers see no difference. A *shard* is a set of
examples, drawn anew for every pass as blocks of consecutive examples: fixed shards take several times as many passes.
`Problem.shards` gives online solvers one shard at a time, `Problem.in_order` is for passes over all examples, and
`Problem.zeros` makes state that is mapped, too. The format is in `storage/folder.py`."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.compiled.rows import KindRows
from partwise.core.arrays import ranges
from partwise.core.mapped import MappedArray, zeros_on_disk
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import shared_row
from partwise.core.scorer import Scorer

if TYPE_CHECKING:
    from partwise.structures.contract import Shapes, Structure

_BLOCKS_A_SHARD = 64  # Blocks of a shard: enough to mix the examples of different shards well.
_LAG = 1  # Shards that are being written while another one is visited.
AT_A_TIME = 2 + _LAG  # Shards in memory: one is visited, the next is being read, `_LAG` are being written.
# Bytes of a block: smaller reads are slow, larger blocks mix badly.
_SMALLEST_BLOCK, _LARGEST_BLOCK = 2**16, 2**21

ROW_ARRAYS = (
    "wide_ptr", "wide_start", "wide_value", "narrow_ptr", "narrow_start", "narrow_count", "narrow_value",
)  # fmt: skip


class RowsOnDisk(NamedTuple):
    """The rows of one kind, in the order of the examples. No two examples share a row.

    Attributes
    ----------
    feature_map : FeatureMap
        In memory.
    arrays : dict of MappedArray
        The fields of :class:`~partwise.compiled.rows.KindRows` that grow with the rows; `dense` if it has columns.
    """

    feature_map: FeatureMap
    arrays: Mapping[str, MappedArray]

    def bound(self, first_weight: int) -> KindRows:
        """The rows as compiled code reads them."""
        n_rows = len(self.arrays["wide_ptr"].array) - 1
        empty = self.feature_map.bind(None, 0, first_weight)
        own: Any = {"dense": np.zeros((n_rows, 0), np.float32)}
        return empty._replace(**own | {name: mapped.array for name, mapped in self.arrays.items()})


def scorer_on_disk(
    structure: Structure, shapes: Shapes, rows: Mapping[str, RowsOnDisk], n_jobs: int = 1
) -> Scorer:
    """As :meth:`Scorer.build`, for rows that were checked and bound to weights when they were written."""
    maps: dict[str, FeatureMap] = {}
    kinds: list[KindRows] = []
    first_weight = 0
    for kind in structure.kinds:
        if kind.tied:
            maps[kind.name] = FeatureMap.build(kind.width, 1)
            kinds.append(maps[kind.name].bind(shared_row(), 1, first_weight))
        else:
            maps[kind.name] = rows[kind.name].feature_map
            kinds.append(rows[kind.name].bound(first_weight))
        first_weight += maps[kind.name].n_weights
    return Scorer(structure, shapes, maps, tuple(kinds), *structure.runs(shapes), n_jobs)


class _Held(NamedTuple):
    """An array, the first row of each block in it, and whether visits change it."""

    mapped: MappedArray
    bounds: np.ndarray
    changing: bool


class Shards:
    """The rows of each array that belong to each block of examples, and the blocks that are in memory.

    A *block* is a few consecutive examples that are read together. A *shard* is a set of blocks that are in memory
    together. Every pass draws new shards: with fixed shards, online solvers take several times as many passes.

    Parameters
    ----------
    cuts : int64 array, shape (n_blocks + 1,)
        The first example of each block, and the number of all examples.
    n_shards : int
    state_folder : path or None
        The folder for arrays of :meth:`zeros`; None keeps them in memory.
    """

    def __init__(self, cuts: np.ndarray, n_shards: int, state_folder: str | os.PathLike[str] | None = None):
        self.cuts, self.n_shards, self.state_folder = cuts, min(n_shards, len(cuts) - 1), state_folder
        self._arrays: list[_Held] = []

    @property
    def n_blocks(self) -> int:
        return len(self.cuts) - 1

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays on disk."""
        return sum(each.mapped.n_bytes for each in self._arrays)

    def _take(self, mapped: MappedArray, bounds: np.ndarray, changing: bool = False) -> None:
        """Manage an array in which block b has the rows bounds[b] … bounds[b + 1] − 1."""
        if self.n_shards > 1:
            mapped.read_what_is_told()
        self._arrays.append(_Held(mapped, bounds, changing))

    def add_rows(self, rows: RowsOnDisk, row_ptr: np.ndarray) -> None:
        """Manage the arrays of a kind, in which the rows of example i start at row_ptr[i]."""
        for way in ("wide", "narrow"):
            row_entries = rows.arrays[f"{way}_ptr"]
            at = row_ptr[self.cuts]
            entries = row_entries.array[at]
            row_entries.leave(0, int(row_ptr[-1]))
            row_entries.drop(0, int(row_ptr[-1]))
            self._take(row_entries, at)
            for name, mapped in rows.arrays.items():
                if name.startswith(way) and name != f"{way}_ptr" and mapped.n_bytes:
                    self._take(mapped, entries)
        if "dense" in rows.arrays:
            self._take(rows.arrays["dense"], row_ptr[self.cuts])

    def zeros(self, ptr: np.ndarray, dtype: Any, changing: bool = False) -> np.ndarray:
        """An array of zeros, on disk if there is a folder. Entries ptr[i] … ptr[i + 1] − 1 belong to example i.

        `changing` says that every visit changes it. The file is removed with the last reference to the array.
        """
        if self.state_folder is None:
            return np.zeros(int(ptr[-1]), dtype)
        mapped = zeros_on_disk(self.state_folder, int(ptr[-1]), dtype)
        array = mapped.handed_over()
        self._take(mapped, ptr[self.cuts], changing)
        weakref.finalize(array, self._forget, mapped)
        return array

    def _forget(self, mapped: MappedArray) -> None:
        self._arrays = [each for each in self._arrays if each.mapped is not mapped]

    def total(self, array: np.ndarray) -> int:
        """The sum of an integer array, shard by shard if it is on disk."""
        for mapped, bounds, _ in self._arrays:
            if mapped.array is array:
                found = 0
                for piece in np.array_split(np.arange(self.n_blocks), self.n_shards):
                    first, last = int(bounds[piece[0]]), int(bounds[piece[-1] + 1])
                    mapped.fetch(first, last)
                    found += int(array[first:last].sum())
                    mapped.leave(first, last)
                    mapped.drop(first, last)
                return found
        return int(array.sum())

    def drawn(self, random: np.random.Generator) -> Iterator[np.ndarray]:
        """The examples of each shard in ascending order. Shards are drawn at random."""
        if self.n_shards == 1:
            yield np.arange(self.cuts[-1])
            return
        shards = [np.sort(each) for each in np.array_split(random.permutation(self.n_blocks), self.n_shards)]
        sizes = np.diff(self.cuts)
        for blocks in self._streamed([_joined(each) for each in shards], shards, to_change=True):
            yield ranges(self.cuts[blocks], sizes[blocks])

    def in_order(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Consecutive ranges of the examples `first` … `last` − 1, each in memory when it is yielded."""
        if self.n_shards == 1:
            yield first, last
            return
        begin = int(np.searchsorted(self.cuts, first, side="right")) - 1
        end = max(int(np.searchsorted(self.cuts, last)), begin + 1)
        a_shard = -(-self.n_blocks // self.n_shards)
        pieces = [(start, min(start + a_shard, end)) for start in range(begin, end, a_shard)]
        for start, stop in self._streamed([[piece] for piece in pieces], pieces):
            yield max(int(self.cuts[start]), first), min(int(self.cuts[stop]), last)

    def _streamed(
        self, shards: list[list[tuple[int, int]]], wanted: list[Any], to_change: bool = False
    ) -> Iterator[Any]:
        """`wanted` of each shard, a list of ranges of blocks. Reads the next shard; writes and frees the last."""
        left: list[list[tuple[int, int]]] = []
        try:
            for here, shard in enumerate(shards):
                for held, first, last in self._ranges(shard):
                    held.mapped.enter(first, last, to_change and held.changing)
                if here + 1 < len(shards):
                    for held, first, last in self._ranges(shards[here + 1]):
                        held.mapped.fetch(first, last)
                yield wanted[here]
                self._leave(shard)
                left.append(shard)
                if len(left) > _LAG:
                    self._drop(left.pop(0))
        finally:
            for shard in left:
                self._drop(shard)

    def _leave(self, shard: list[tuple[int, int]]) -> None:
        for held, first, last in self._ranges(shard):
            held.mapped.leave(first, last)

    def _drop(self, shard: list[tuple[int, int]]) -> None:
        for held, first, last in self._ranges(shard):
            held.mapped.drop(first, last)

    def _ranges(self, shard: list[tuple[int, int]]) -> Iterator[tuple[_Held, int, int]]:
        """Each array, with each range of its rows in the shard."""
        for held in self._arrays:
            for first, last in shard:
                yield held, int(held.bounds[first]), int(held.bounds[last])


def _joined(blocks: np.ndarray) -> list[tuple[int, int]]:
    """Ascending numbers as ranges (first, end)."""
    breaks = np.flatnonzero(np.diff(blocks) > 1) + 1
    return [(int(each[0]), int(each[-1]) + 1) for each in np.split(blocks, breaks)]


def shards_of(
    part_ptr: np.ndarray, n_bytes: int, shard_bytes: float, state_folder: str | os.PathLike[str] | None
) -> Shards:
    """Shards of about `shard_bytes` of examples that take `n_bytes` together."""
    n = len(part_ptr) - 1
    n_shards = int(min(max(np.ceil(n_bytes / max(shard_bytes, 1.0)), 1), n))
    n_blocks = 1
    if n_shards > 1:
        block = min(max(shard_bytes / _BLOCKS_A_SHARD, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        n_blocks = int(min(max(np.ceil(n_bytes / block), n_shards), n))
    cuts = np.unique(np.searchsorted(part_ptr, np.linspace(0, part_ptr[-1], n_blocks + 1)))
    return Shards(cuts, n_shards, state_folder)


@dataclass
class StreamedProblem(Problem):
    """A problem whose large arrays, those with an entry per part or per row, lie on disk.

    Attributes
    ----------
    held : Shards
    n_bytes : int
        Bytes on disk, of data and of the state that solvers will keep there.
    note : callable
        Called with the number of examples after each shard, to show progress.
    """

    visits_read_rows = False

    held: Shards = field(default=None)  # type: ignore[assignment]
    n_bytes: int = 0
    note: Callable[[int], None] = lambda n_visits: None

    def _parts(self) -> tuple[Any, ...]:
        return (*super()._parts(), {}, self.held, self.n_bytes)

    @property
    def is_in_memory(self) -> bool:
        return self.held.n_shards == 1

    @property
    def n_touched(self) -> int:
        def count() -> int:
            wide = sum(kind.stride * (len(kind.wide_start) + kind.dense.size) for kind in self.scorer.kinds)
            return wide + sum(self.held.total(kind.narrow_count) for kind in self.scorer.kinds)

        return self.kept("n_touched", count)

    def shards(self, random: np.random.Generator) -> Iterator[np.ndarray]:
        for examples in self.held.drawn(random):
            yield examples
            self.note(len(examples))

    def in_order(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, int]]:
        return self.held.in_order(first, self.n_examples if last is None else last)

    @property
    def streamed_bytes(self) -> tuple[int, int]:
        return min(AT_A_TIME * self.n_bytes // self.held.n_shards, self.n_bytes), self.held.n_bytes

    @property
    def keeps_state_on_disk(self) -> bool:
        return self.held.state_folder is not None

    def zeros(self, ptr: np.ndarray, dtype: Any) -> np.ndarray:
        return self.held.zeros(ptr, dtype, changing=True)

    def over_examples(
        self,
        dtype: Any,
        work: Callable[[int, int, Scratch, np.ndarray], None],
        asks: tuple[str, ...] | None = None,
    ) -> np.ndarray:
        def shard_by_shard(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            for begin, end in self.in_order(first, last):
                work(begin, end, scratch, v)
                self.note(end - begin)

        return super().over_examples(dtype, shard_by_shard, asks)
