"""All dependency trees, projective or not: the spanning trees of the words with the root."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import python_form
from partwise.structures.contract import Shapes
from partwise.structures.trees.matrix_tree.sums import SPANNING, SpanningSpecification, spanning_workspace
from partwise.structures.trees.trees import Trees

# If walks of so many steps for each word do not finish, heads are drawn one by one instead.
_MOST_STEPS = 200


class Spanning(Trees):
    """All trees over the words and the root (matrix-tree theorem; Chu–Liu–Edmonds).

    Parameters
    ----------
    single_root : bool
        Whether exactly one word depends on the root, or any number.
    n_relations : int
        Number of relations of an arc, 1 for trees without relations.

    Notes
    -----
    Methods and their arguments are those of :class:`~partwise.structures.trees.trees.Trees`.

    Examples
    --------
    >>> Spanning(single_root=False).marginals(np.zeros((3, 3))).round(3)
    array([[0.   , 0.667, 0.667],
           [0.   , 0.   , 0.333],
           [0.   , 0.333, 0.   ]])
    """

    oracle = SPANNING

    def specification(self) -> SpanningSpecification:
        return SpanningSpecification(self.n_relations, self.single_root)

    def workspace(self, shapes: Shapes, specification: Any = None) -> Any:
        return python_form(spanning_workspace)(self.specification(), int(shapes.lengths.max(initial=1)))

    def _sample_heads(
        self, n: int, arcs: np.ndarray, relations: np.ndarray, heads: np.ndarray, generator: Any
    ) -> bool:
        from partwise.structures.trees.samples import sample_one_by_one, sample_walks

        arguments = self.specification(), n, arcs, relations
        roots, done = np.zeros(len(heads), np.int64), 0
        marginals = self._first_marginals(n, arcs, relations)
        if marginals is None:
            return False
        if self.single_root:
            # Draw the word below the root first. Walks end there.
            roots = 1 + generator.choice(n, len(heads), p=marginals[0, 1:] / marginals[0, 1:].sum())
        while done < len(heads):
            uniforms = generator.random(n * max(_MOST_STEPS, min(4 * (len(heads) - done), 10_000)))
            before = done
            done = sample_walks(*arguments, roots, uniforms, done, heads)
            if done == before:
                break
        if done < len(heads):
            uniforms = generator.random((len(heads) - done, n))
            return sample_one_by_one(*arguments, uniforms, heads[done:]) > -np.inf
        return True

    def _first_marginals(self, n: int, arcs: np.ndarray, relations: np.ndarray) -> np.ndarray | None:
        """Marginals (n + 1, n + 1) of one sentence, None if no tree is possible."""
        from partwise.structures.trees.inference import marginals_of_matrices

        marginals, unused, values = np.empty_like(arcs), np.empty(len(arcs) * self.n_relations), np.empty(1)
        lengths = np.array([n])
        marginals_of_matrices(
            self.specification(), lengths, arcs, relations, marginals, unused, values, np.empty(1)
        )
        return None if values[0] == -np.inf else marginals.reshape(n + 1, n + 1)
