"""Problems with kernel functions in place of features. Weights are never formed.

A weight vector is a combination of the feature maps of training rows, with one coefficient per row and label (Zhang
et al. 2011, §4.3: the marginals β of w_k), and a plain block of tied weights. It is stored together with its image
under the kernel matrix, which is the table of the rows' scores:

    vector = ( b ; K b ),   ⟨u, v⟩ = b_u · K b_v,   scores of row t = (K b)_t

Both halves are linear. A batch solver that mixes vectors needs one product with K for every new sum of features, and
none for norms and scores. Visits change b only; `settled` computes the image again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.compiled.background_compile import obtain
from partwise.compiled.boundary import addresses, array_address
from partwise.compiled.oracles import SCATTER, SCORE
from partwise.compiled.rows import FIRST_ROW, KIND, N_ROWS, packed_rows
from partwise.core.arrays import ranges
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem, Visit
from partwise.core.rows import RowData, own_numbers
from partwise.core.scorer import precision_of
from partwise.core.time_limit import visited_in_time
from partwise.errors import InputError
from partwise.mercer.block import BlockRows, block_tasks
from partwise.mercer.gram import Gram
from partwise.structures.contract import Shapes, Structure

# Rows whose scores are computed together. A visit changes the scores of all rows of its block.
_ROWS_PER_BLOCK = 64


@dataclass
class KernelProblem(Problem):
    """A problem with a kernel matrix over the rows of every kind that is not tied.

    The only attribute of a row is its own index. Passes then read a table of scores as weights, and add up coefficients
    as features.
    """

    visits_read_rows = False

    grams: dict[str, Gram] = field(default_factory=dict)

    @classmethod
    def of_kernels(
        cls,
        structure: Structure,
        labels: np.ndarray,
        lengths: np.ndarray | Shapes,
        grams: Mapping[str, Gram],
        **options: Any,
    ) -> KernelProblem:
        """As `Problem.build`, with kernel matrices in place of features.

        Parameters
        ----------
        labels : ndarray (n_positions,) of int
        lengths : ndarray (n_examples,) of int, or Shapes
        grams : dict of Gram
            By the name of the kind, over all its rows.
        options
            loss, l2, cost, example_weight, n_jobs.
        """
        if options.get("l1"):
            raise InputError(
                "l1 needs features with weights of their own; a kernel function has none: use l1=0"
            )
        kinds = [kind for kind in structure.kinds if not kind.tied]
        shapes = lengths if isinstance(lengths, tuple) else structure.shapes(np.asarray(lengths))
        counts = structure.row_counts(shapes)
        rows = {}
        for kind, count in zip(kinds, counts, strict=True):
            if kind.name not in grams:
                raise InputError(f"{structure!r} has {kind.name} rows: their kernel matrix is missing")
            n = grams[kind.name].n
            if n != count.sum():
                raise InputError(f"the kernel matrix of {kind.name} rows has {n} rows for {int(count.sum())}")
            rows[kind.name] = RowData(FeatureMap.build(kind.width, n), own_numbers(n))
        plain = Problem.build(structure, labels, shapes, rows, **options)
        known = {
            name: getattr(plain, name) for name in ("scorer", "gold", "cost", "example_weight", "loss", "l2")
        }
        return cls(**known, grams=dict(grams))

    def _parts(self) -> tuple[Any, ...]:
        return *super()._parts(), {}, self.grams

    def shard(self, examples: np.ndarray) -> KernelProblem:
        """As `Problem.shard`. Coefficients and scores are still those of all rows."""
        parts: Any = (*super().shard(examples)._parts(), {}, self.grams)
        return KernelProblem(*parts)

    @property
    def has_features(self) -> bool:
        return False

    @property
    def is_in_memory(self) -> bool:
        return all(gram.n_kept == gram.n for gram in self.grams.values())

    @property
    def n_weights(self) -> int:
        return 2 * self.scorer.n_weights

    @property
    def n_sums(self) -> int:
        return self.scorer.n_weights

    @property
    def n_touched(self) -> int:
        kinds = zip(self.structure.kinds, self.scorer.kinds, strict=True)
        return sum(self.grams[kind.name].n ** 2 * rows.stride for kind, rows in kinds if not kind.tied)

    def squared_radii(self) -> np.ndarray:
        """The bound Σ_labels ‖Σ_t d_t φ(x_t)‖² ≤ 2 (Σ_t √k(x_t, x_t))², which needs k(x, x) only."""
        from partwise.core.feature_radius import membership

        radii = np.zeros(self.n_examples)
        for k, kind in enumerate(self.structure.kinds):
            if kind.tied:
                radii += 2.0 * self.structure.most_tied(self.scorer.shapes).astype(float) ** 2
            else:
                sizes = np.sqrt(np.maximum(self.grams[kind.name].diagonal(), 0.0))
                radii += 2.0 * self.structure.most_of_row * (membership(self.scorer, k) @ sizes) ** 2
        return radii

    def score_size(self, weights: np.ndarray) -> tuple[float, float]:
        """From |k(x, x')| ≤ √(k(x, x) k(x', x')), for the scores of rows; tied weights are scores."""
        size, half = 0.0, self.n_sums
        for kind in self.structure.kinds:
            own = np.abs(weights[:half][self.scorer.slice_of(kind.name)])
            if not kind.tied:
                norms = np.sqrt(np.maximum(self.grams[kind.name].diagonal(), 0.0))
                coefficients = own.reshape(len(norms), -1)
                size = max(size, float((norms @ coefficients).max(initial=0.0) * norms.max(initial=0.0)))
            else:
                size = max(size, float(own.max(initial=0.0)))
        return size, float(max((gram.n for gram in self.grams.values()), default=1))

    # -- vectors --------------------------------------------------------------------------------

    def inner(self, one: np.ndarray, other: np.ndarray) -> float:
        half = self.n_sums
        return float(one[:half] @ other[half:])

    def inners(self, several: np.ndarray, other: np.ndarray) -> np.ndarray:
        half = self.n_sums
        return several[:, :half] @ other[half:]

    def settled(self, v: np.ndarray) -> np.ndarray:
        """The coefficients in the first half of `v`, with their image: float64 (n_weights,)."""
        half = self.n_sums
        result = np.empty(2 * half)
        result[:half] = v[:half]
        image = result[half:]
        image[:] = result[:half]
        for name, gram in self.grams.items():
            own = self.scorer.slice_of(name)
            image[own] = gram.multiply(result[own].reshape(gram.n, -1)).ravel()
        size = float(result[:half] @ image)
        if size < -1e-5 * float(np.abs(result[:half]) @ np.abs(image)):
            raise InputError(
                "not a kernel: the squared norm of a combination of training points came out "
                f"as {size:.3g}; its matrix must be positive semidefinite"
            )
        return result

    def scoring(self, weights: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(weights[self.n_sums :], np.float64)

    # -- visits ---------------------------------------------------------------------------------

    def visits(
        self,
        order: np.ndarray,
        v: np.ndarray,
        run: Visit,
        asks: tuple[str, ...] | None = None,
        thread: int = 0,
    ) -> list[Any]:
        """Visit examples block by block. A block starts with its rows' scores; visits keep these scores exact."""
        results = []
        v[self.n_sums :] = np.nan  # the image is out of date from here on
        scratch = self.scorer.scratch(v.dtype, thread, asks or self.asks)
        own = addresses([obtain(task) for task in block_tasks(precision_of(v.dtype))])
        calls = scratch.calls.copy()
        calls[SCORE], calls[SCATTER] = own
        scratch = scratch._replace(calls=calls)
        for here in (block for piece in visited_in_time(order) for block in self._blocks(piece)):
            kinds, table, tied = self._open_block(np.unique(here), v)
            rows, held = packed_rows(kinds, self.scorer.run_ptr, self.scorer.runs)
            results.append(run(self.batch._replace(rows=rows), here, table, scratch))
            for own, first in tied:
                v[own] = table[first : first + own.stop - own.start]
            del held
        return results

    def _blocks(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Pieces of `order` with about `_ROWS_PER_BLOCK` rows each, and at least one example."""
        if not len(order):
            return
        number = (np.cumsum(self.lengths[order]) - 1) // _ROWS_PER_BLOCK
        yield from np.split(order, np.flatnonzero(np.diff(number)) + 1)

    def _open_block(
        self, examples: np.ndarray, v: np.ndarray
    ) -> tuple[list[BlockRows], np.ndarray, list[tuple[slice, int]]]:
        """The rows of some examples, the vector of their scores and the tied weights, and where the tied ones start."""
        kinds, tables, tied, first = [], [], [], 0
        for k, (kind, rows) in enumerate(zip(self.structure.kinds, self.scorer.kinds, strict=True)):
            own = self.scorer.slice_of(kind.name)
            if kind.tied:
                opened = BlockRows(
                    kind.width, rows.stride, first, True, np.zeros(0, np.int64), np.zeros((0, 0)),
                    array_address(v), 0,
                )  # fmt: skip
                table = v[own]
                tied.append((own, first))
            else:
                opened, table = _open_rows(self._rows_of(k, examples), self.grams[kind.name], v[own], first)
                opened = opened._replace(width=kind.width, stride=rows.stride)
            kinds.append(opened)
            tables.append(table)
            first += len(table)
        return kinds, np.concatenate(tables), tied

    def _rows_of(self, k: int, examples: np.ndarray) -> np.ndarray:
        """The rows of kind k that these examples have."""
        run_ptr, runs = self.scorer.run_ptr, self.scorer.runs
        mine = runs[ranges(run_ptr[:-1][examples], np.diff(run_ptr)[examples])]
        mine = mine[mine[:, KIND] == k]
        return ranges(mine[:, FIRST_ROW], mine[:, N_ROWS])


def _open_rows(
    rows: np.ndarray, gram: Gram, coefficient: np.ndarray, first: int
) -> tuple[BlockRows, np.ndarray]:
    """Some rows of a kind, and the table of their scores, which will start at entry `first`."""
    across = gram.rows(rows)
    scores = across @ coefficient.reshape(gram.n, -1).astype(gram.dtype, copy=False)
    table_row = np.full(gram.n, -1, np.int64)
    table_row[rows] = np.arange(len(rows))
    table = np.ascontiguousarray(scores, coefficient.dtype).ravel()
    within = np.ascontiguousarray(across[:, rows], np.float64)
    return BlockRows(
        0, 0, first, False, table_row, within, array_address(coefficient), len(coefficient)
    ), table
