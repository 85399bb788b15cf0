"""A structure with rows and runs: everything that turns weights into part scores. A trained model adds the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.compiled.background_compile import obtain
from partwise.compiled.boundary import addresses, pack
from partwise.compiled.examples import Batch, Scratch
from partwise.compiled.oracles import NEVER_ASKED
from partwise.compiled.row_tasks import row_tasks
from partwise.compiled.rows import FIRST_PART, FIRST_ROW, KIND, N_ROWS, KindRows, packed_rows
from partwise.compiled.simd import LANES
from partwise.compiled.simd_dense import ROWS_AT_ONCE
from partwise.core.arrays import offsets, positions, ranges
from partwise.core.batch_pass import score_pass
from partwise.core.distinct_rows import DistinctRows
from partwise.core.maps import FeatureMap
from partwise.core.products import one_thread, with_products
from partwise.core.rows import RowData, shared_row
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.structures.contract import Shapes, Structure


@dataclass
class Scorer:
    """Examples whose parts can be scored. Build one with :meth:`build`.

    Arrays are flat and may be memory-mapped.

    Attributes
    ----------
    structure : Structure
    shapes : Shapes
    maps : dict of FeatureMap
        By the name of the kind of rows, including tied kinds.
    kinds : tuple of KindRows
        The rows, in the order of the structure's kinds. Examples may share rows.
    run_ptr, runs : int64 arrays, shapes (n_examples + 1,) and (n_runs, 4)
        See ``compiled/rows.py``.
    batch : Batch
        The same data as passes read them, without true labels.
    distinct_rows : dict of DistinctRows
        Equal dense rows, by the index of their kind. ``core/products.py`` fills it in.
    """

    structure: Structure
    shapes: Shapes
    maps: dict[str, FeatureMap]
    kinds: tuple[KindRows, ...]
    run_ptr: np.ndarray
    runs: np.ndarray
    n_jobs: int = 1
    batch: Batch = field(init=False, repr=False)
    distinct_rows: dict[int, DistinctRows | None] = field(init=False, default_factory=dict, repr=False)
    _held: Any = field(init=False, repr=False)
    _scratch: dict[Any, tuple[Scratch, dict[str, Any]]] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        rows, self._held = packed_rows(list(self.kinds), self.run_ptr, self.runs)
        n = len(self.shapes.ptr) - 1
        self.batch = Batch(
            rows=rows,
            shape_ptr=np.ascontiguousarray(self.shapes.ptr, np.int64),
            shape=np.ascontiguousarray(self.shapes.values, np.int32),
            part_ptr=offsets(self.structure.n_parts(self.shapes)),
            n_tied=self.structure.n_tied,
            gold_ptr=np.zeros(n + 1, np.int64),
            gold_part=np.zeros(0, np.int64),
            gold_amount=np.zeros(0),
            cost=np.zeros(0, np.float32),
            example_weight=np.ones(n),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes pack the rows again: addresses are valid in one process only."""
        return Scorer, (
            self.structure, self.shapes, self.maps, self.kinds, self.run_ptr, self.runs, self.n_jobs
        )  # fmt: skip

    @classmethod
    def build(
        cls, structure: Structure, shapes: Shapes, rows: Mapping[str, RowData], n_jobs: int = 1
    ) -> Scorer:
        """Check everything and bind rows to weights.

        Parameters
        ----------
        rows : dict of RowData
            By the name of the kind. Tied kinds need none.
        """
        maps, kinds, first_weight = {}, [], 0
        counts = iter(structure.row_counts(shapes))
        for kind in structure.kinds:
            if kind.tied:
                data, n_rows = RowData(FeatureMap.build(kind.width, 1), shared_row()), 1
            elif kind.name in rows:
                data, n_rows = rows[kind.name], int(next(counts).sum())
            else:
                raise InputError(f"{structure!r} has {kind.name} rows: what they hold is missing")
            data.check(kind.name, kind.width, n_rows)
            kinds.append(data.feature_map.bind(data.sparse, n_rows, first_weight, data.dense))
            maps[kind.name] = data.feature_map
            first_weight += data.feature_map.n_weights
        return cls(structure, shapes, maps, tuple(kinds), *structure.runs(shapes), n_jobs)

    @property
    def n_examples(self) -> int:
        return len(self.run_ptr) - 1

    @property
    def n_weights(self) -> int:
        return sum(kind.n_weights for kind in self.kinds)

    @property
    def n_parts(self) -> int:
        return int(self.batch.part_ptr[-1])

    @property
    def n_touched(self) -> int:
        """Approximate number of weights that a pass reads or writes."""
        return sum(
            kind.stride * (len(kind.wide_start) + kind.dense.size) + int(kind.narrow_count.sum())
            for kind in self.kinds
        )

    def slice_of(self, name: str) -> slice:
        """The slice of a kind's weights in the weight vector, padding included."""
        for kind, own in zip(self.structure.kinds, self.kinds, strict=True):
            if kind.name == name:
                return slice(own.first_weight, own.first_weight + own.n_weights)
        return slice(0, 0)

    def shard(self, examples: np.ndarray) -> Scorer:
        """Some of the examples, with the same weights. Rows are shared, not copied."""
        sizes = np.diff(self.run_ptr)[examples]
        runs = self.runs[ranges(self.run_ptr[:-1][examples], sizes)]
        shapes = self.shapes.take(examples)
        found = Scorer(self.structure, shapes, self.maps, self.kinds, offsets(sizes), runs, self.n_jobs)
        found.distinct_rows = self.distinct_rows
        return found

    def in_pieces(self, most_rows: int = 4096) -> Scorer:
        """The same rows and parts in the same order, as examples of one run of at most `most_rows` rows each.

        Threads can then share the scores of one example. The structure cannot answer about the pieces.
        """
        first_part = np.repeat(self.batch.part_ptr[:-1], np.diff(self.run_ptr)) + self.runs[:, FIRST_PART]
        n_pieces = -(-self.runs[:, N_ROWS] // most_rows)
        before, runs = most_rows * positions(n_pieces), np.repeat(self.runs, n_pieces, axis=0)
        runs[:, FIRST_ROW] += before
        runs[:, N_ROWS] = np.minimum(runs[:, N_ROWS] - before, most_rows)
        widths = np.array([kind.width for kind in self.structure.kinds])[runs[:, KIND]]
        part = np.append(np.repeat(first_part, n_pieces) + before * widths, self.n_parts)
        runs[:, FIRST_PART] = 0
        n = len(runs)
        shapes = self.structure.shapes(np.ones(n, np.int64))
        found = Scorer(self.structure, shapes, self.maps, self.kinds, np.arange(n + 1), runs, self.n_jobs)
        found.batch = found.batch._replace(part_ptr=part)
        return found

    # -- passes -----------------------------------------------------------------------------------

    def scratch(
        self,
        dtype: Any,
        thread: int = 0,
        asks: tuple[str, ...] = ("sums", "best"),
        shrunk: bool = False,
    ) -> Scratch:
        """The workspace for one example, made once per thread and type of weights.

        `asks` names the answers of the structure that passes will request; others are not compiled. With `shrunk`,
        weights are shrunk by the l1 of the batch's rows.
        """
        key = np.dtype(dtype).char, thread, shrunk
        if key not in self._scratch:
            self._scratch[key] = self._make_scratch(np.dtype(dtype), shrunk)
        scratch = self._scratch[key][0]
        known = self._scratch[key][1]
        for index, which in enumerate(("sums", "best")):
            if which in asks and which not in known:
                scratch.calls[index] = addresses([obtain(self.structure.oracle.task(which))])[0]
                known[which] = True
        return scratch

    def _make_scratch(self, dtype: np.dtype, shrunk: bool) -> tuple[Scratch, dict[str, Any]]:
        """The workspace, and the objects that must stay alive with it, to which `scratch` adds the known answers."""
        structure = self.structure
        specification, work = structure.specification(), structure.workspace(self.shapes)
        calls = map(obtain, [NEVER_ASKED, NEVER_ASKED, *row_tasks(precision_of(dtype), shrunk)])
        size = int(np.diff(self.batch.part_ptr).max(initial=0)) + 2 * LANES
        scratch = Scratch(
            calls=addresses(list(calls)),
            specification=pack(specification),
            structure=pack(work),
            scores=np.zeros(size),
            potentials=np.zeros(size),
            counts=np.zeros(size),
            delta=np.zeros(size),
            row=np.zeros(max([LANES, *(ROWS_AT_ONCE * kind.stride for kind in self.kinds)]), dtype),
            lock=np.zeros(0, np.int64),
        )
        return scratch, {"specification": specification, "work": work}

    def over_examples(
        self,
        dtype: Any,
        work: Callable[[int, int, Scratch, int], None],
        n_jobs: int | None = None,
        asks: tuple[str, ...] = ("sums", "best"),
    ) -> int:
        """Run ``work(first, last, scratch, thread)`` on a share of the examples per thread. Returns the number of
        threads."""
        n_threads = max(1, min(self.n_jobs if n_jobs is None else n_jobs, self.n_examples))
        part_ptr = self.batch.part_ptr
        cuts = np.searchsorted(part_ptr, np.linspace(0, part_ptr[-1], n_threads + 1))
        cuts[0], cuts[-1] = 0, self.n_examples

        def share(thread: int) -> None:
            work(int(cuts[thread]), int(cuts[thread + 1]), self.scratch(dtype, thread, asks), thread)

        with one_thread(self):
            if n_threads == 1:
                share(0)
            else:
                self.scratch(dtype, 0, asks)  # compile once, before threads start
                with ThreadPoolExecutor(n_threads) as pool:
                    list(pool.map(share, range(n_threads)))
        return n_threads

    def pieces(
        self,
        first: int,
        last: int,
        weights: np.ndarray | None = None,
        v: np.ndarray | None = None,
        batch: Batch | None = None,
    ) -> Iterator[tuple[Batch, int, int]]:
        """The examples first … last − 1 in one piece or in chunks, each (batch, first, last) for a pass.

        Scores of dense rows under `weights` are computed before each chunk, and their changes of `v` are added after
        it, both by matrix products. `batch` is this scorer's own batch (the default), or one with true labels.
        """
        return with_products(self, self.batch if batch is None else batch, first, last, weights, v)

    def scores(self, weights: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Scores of all parts of all examples, float64 (n_parts,)."""
        if len(self.structure.long_examples(self.shapes)):
            return self.in_pieces().scores(weights, n_jobs)
        scores, weights = np.zeros(self.n_parts), np.ascontiguousarray(weights, np.float64)

        def work(first: int, last: int, scratch: Scratch, thread: int) -> None:
            for piece in self.pieces(first, last, weights):
                score_pass(*piece, weights, scores, scratch)

        self.over_examples(np.float64, work, n_jobs, asks=())
        return scores


def precision_of(dtype: Any) -> str:
    """ "single" or "double"."""
    return {"f": "single", "d": "double"}[np.dtype(dtype).char]
