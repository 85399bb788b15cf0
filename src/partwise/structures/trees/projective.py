"""Projective dependency trees: no two arcs cross."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import python_form
from partwise.structures.contract import Shapes
from partwise.structures.trees.eisner.oracle import PROJECTIVE, ProjectiveSpecification, projective_workspace
from partwise.structures.trees.trees import Trees


class Projective(Trees):
    """Trees whose arcs, drawn above the sentence with the root in front, do not cross (Eisner 1996).

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
    >>> Projective().argmax(np.array([[0.0, 1.0, 3.0], [0.0, 0.0, 1.0], [0.0, 2.0, 0.0]]))
    array([2, 0])
    """

    projective = True
    oracle = PROJECTIVE

    def specification(self) -> ProjectiveSpecification:
        return ProjectiveSpecification(self.n_relations, self.single_root)

    def workspace(self, shapes: Shapes, specification: Any = None) -> Any:
        return python_form(projective_workspace)(self.specification(), int(shapes.lengths.max(initial=1)))

    def _sample_heads(
        self, n: int, arcs: np.ndarray, relations: np.ndarray, heads: np.ndarray, generator: Any
    ) -> bool:
        from partwise.structures.trees.samples import sample_projective

        uniforms = generator.random((len(heads), 3 * n))
        return sample_projective(self.specification(), n, arcs, relations, uniforms, heads) > -np.inf
