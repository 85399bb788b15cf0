"""Problems whose features are known only through kernel functions: weights are never formed.

A vector of weights is a combination of the training rows' feature maps, one coefficient for every row and
label (Zhang et al. 2011, §4.3: the marginals β of w_k), and a plain block of tied weights. It is carried with its
image under the kernel matrix, which is its table of scores:

    vector = ( b ; K b ),   ⟨u, v⟩ = b_u · K b_v,   scores of row t = (K b)_t

Both halves are linear, so a batch solver that mixes vectors pays one product with K for every new sum of
features and none for norms and scores. Visits change b only; `settled` brings the image up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from partwise.compiled.rows import RowGroup
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem, Visit
from partwise.errors import InputError
from partwise.features.vocabulary import AttributeRows
from partwise.mercer.block import GramGroup
from partwise.mercer.gram import Gram
from partwise.structures.contract import Structure

_ROWS_PER_BLOCK = 64  # rows whose scores are computed together; within them, visits see each other's changes


@dataclass
class KernelProblem(Problem):
    """A problem with a kernel matrix over the node rows and, without tied transitions, one over the edge rows.

    The batch has one attribute a row, its own number, so that passes read a table of scores as weights and add
    up coefficients as features.
    """

    node_gram: Gram | None = None
    edge_gram: Gram | None = None

    @classmethod
    def of_kernels(
        cls,
        structure: Structure,
        labels: np.ndarray,
        lengths: np.ndarray,
        node_gram: Gram,
        edge_gram: Gram | None = None,
        **options: Any,
    ) -> KernelProblem:
        """As `Problem.build`, with kernel matrices in place of features.

        Parameters
        ----------
        labels : ndarray (n_positions,) of int
        lengths : ndarray (n_examples,) of int
        node_gram, edge_gram : Gram
            Over all node rows and all edge rows.
        options
            loss, l2, cost, example_weight, n_jobs.
        """
        if node_gram.n != int(np.sum(lengths)):
            raise InputError(f"the kernel matrix has {node_gram.n} rows for {int(np.sum(lengths))} positions")
        edges: dict[str, Any] = {}
        if edge_gram is not None:
            edge_map = FeatureMap.build(structure.edge_width, edge_gram.n)
            edges = {"edge_map": edge_map, "edge_rows": _own_numbers(edge_gram.n)}
        node_map = FeatureMap.build(structure.node_width, node_gram.n)
        plain = Problem.build(
            structure, labels, lengths, node_map, _own_numbers(node_gram.n), **edges, **options
        )
        known = {each.name: getattr(plain, each.name) for each in fields(Problem)}
        known["n_weights"] = 2 * plain.n_weights
        return cls(**known, node_gram=node_gram, edge_gram=edge_gram)

    @property
    def has_features(self) -> bool:
        return False

    @property
    def n_sums(self) -> int:
        return self.n_weights // 2

    @property
    def n_touched(self) -> int:
        assert self.node_gram is not None
        return self.node_gram.n**2 * self.batch.node.stride

    def squared_lengths(self) -> tuple[np.ndarray, np.ndarray | None]:
        """k(x, x) of the node rows and of the edge rows."""
        assert self.node_gram is not None
        return self.node_gram.diagonal(), None if self.edge_gram is None else self.edge_gram.diagonal()

    # -- vectors --------------------------------------------------------------------------------

    def inner(self, one: np.ndarray, other: np.ndarray) -> float:
        half = self.n_sums
        return float(one[:half] @ other[half:])

    def settled(self, v: np.ndarray) -> np.ndarray:
        """Coefficients and their image, (n_weights,) of float64, from the coefficients in the first half of `v`."""
        half = self.n_sums
        result = np.empty(2 * half)
        result[:half] = v[:half]
        image = result[half:]
        image[:] = result[:half]
        for group, gram in self._groups():
            own = slice(group.first_weight, group.first_weight + group.n_weights)
            image[own] = gram.multiply(result[own].reshape(gram.n, group.stride)).ravel()
        size = float(result[:half] @ image)
        if size < -1e-5 * float(np.abs(result[:half]) @ np.abs(image)):
            raise InputError(
                "not a kernel: the squared norm of a combination of training points came out "
                f"as {size:.3g}; its matrix must be positive semidefinite"
            )
        return result

    def scoring(self, weights: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(weights[self.n_sums :], np.float64)

    def _groups(self) -> list[tuple[RowGroup, Gram]]:
        assert self.node_gram is not None
        groups = [(self.batch.node, self.node_gram)]
        if self.edge_gram is not None:
            groups.append((self.batch.edge, self.edge_gram))
        return groups

    # -- visits ---------------------------------------------------------------------------------

    def visits(self, order: np.ndarray, v: np.ndarray, run: Visit) -> list[Any]:
        """Block by block: scores of the block's rows from all coefficients, then visits that keep them exact."""
        results = []
        v[self.n_sums :] = np.nan  # the image is out of date from here on
        first_tied, n_tied = self.batch.tied_first, self.batch.tied_size
        tied = v[first_tied : first_tied + n_tied]
        for here in self._blocks(order):
            examples = np.unique(here)
            groups, tables, offset = [], [], 0
            for group, gram in self._groups():
                own, table = _open_block(group, gram, examples, v, offset)
                groups.append(own)
                tables.append(table)
                offset += len(table)
            table = np.concatenate([*tables, tied])
            opened: dict[str, Any] = dict(zip(("node", "edge"), groups, strict=False))
            batch = self.batch._replace(tied_first=offset, **opened)
            results.append(run(batch, here, table, self.scratch(v.dtype)))
            tied[:] = table[offset:]
        return results

    def _blocks(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Pieces of `order` with about as many rows as are worked on together, at least one example each."""
        if not len(order):
            return
        number = (np.cumsum(self.batch.length[order]) - 1) // _ROWS_PER_BLOCK
        yield from np.split(order, np.flatnonzero(np.diff(number)) + 1)


def _open_block(
    group: RowGroup, gram: Gram, examples: np.ndarray, v: np.ndarray, offset: int
) -> tuple[GramGroup, np.ndarray]:
    """The rows of some examples with the table of their scores, which will lie at `offset`."""
    sizes = np.diff(group.row_ptr)[examples]
    rows = np.repeat(group.row_ptr[examples] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    coefficient = v[group.first_weight : group.first_weight + group.n_weights]
    across = gram.rows(rows)
    scores = across @ coefficient.reshape(gram.n, group.stride).astype(gram.dtype, copy=False)
    place = np.full(gram.n, -1, np.int64)
    place[rows] = np.arange(len(rows))
    table = np.ascontiguousarray(scores, v.dtype).ravel()
    opened = GramGroup(
        group.width,
        group.stride,
        offset,
        len(table),
        group.row_ptr,
        place,
        np.ascontiguousarray(across[:, rows], v.dtype),
        coefficient,
    )
    return opened, table


def _own_numbers(n: int) -> AttributeRows:
    return AttributeRows(np.arange(n + 1), np.arange(n, dtype=np.int32))
