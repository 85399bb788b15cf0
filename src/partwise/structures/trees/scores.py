"""Users' scores of one sentence or of a list of sentences, as flat arrays for compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.errors import InputError
from partwise.structures.checks import checked_scores, is_single, real_array

_NOTHING = np.zeros(0)


class TreeScores(NamedTuple):
    """Scores of some sentences.

    Attributes
    ----------
    lengths : int64 array (n,)
        Words of each sentence.
    arcs : float64 array
        Matrices (words + 1, words + 1) by [head, modifier], one after another.
    relations : float64 array
        The same with a last axis of relations, then slack. Empty without relations.
    single : bool
        Whether the argument is one sentence, not a list.
    """

    lengths: np.ndarray
    arcs: np.ndarray
    relations: np.ndarray
    single: bool

    @property
    def n_words(self) -> int:
        return int(self.lengths[0]) if self.single else int(self.lengths.sum())

    def sentences(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Words, arcs and relations (with slack) of each sentence."""
        result, first, width = [], 0, len(self.relations[:-LANES]) // max(len(self.arcs), 1)
        for n in self.lengths.tolist():
            last = first + (n + 1) ** 2
            relations = self.relations[first * width : last * width + LANES]
            result.append((n, np.ascontiguousarray(self.arcs[first:last]), relations))
            first = last
        return result


def read_scores(n_relations: int, arc_scores: Any, relation_scores: Any) -> TreeScores:
    """Check shapes, and NaN among relations. Compiled code checks NaN among arcs."""
    if (
        type(arc_scores) is np.ndarray
        and n_relations == 1
        and relation_scores is None
        and arc_scores.ndim == 2
        and arc_scores.dtype == np.float64
        and arc_scores.shape[0] == arc_scores.shape[1] > 1
    ):  # the usual case, without further checks
        flat = arc_scores.reshape(-1)
        if not flat.flags.writeable:
            flat = flat.copy()
        return TreeScores(np.array([len(arc_scores) - 1]), flat, _NOTHING, True)
    single = is_single(arc_scores)
    matrices = [arc_scores] if single else list(arc_scores)
    arcs = [_matrix(a, "arc_scores" if single else f"arc_scores[{i}]") for i, a in enumerate(matrices)]
    lengths = np.array([len(a) - 1 for a in arcs], np.int64)
    flat = np.concatenate([_NOTHING, *(a.reshape(-1) for a in arcs)])
    if n_relations == 1:
        if relation_scores is not None:
            raise InputError("relation_scores are given, but n_relations is 1")
        return TreeScores(lengths, flat, _NOTHING, single)
    if relation_scores is None:
        raise InputError(f"relation_scores are missing: n_relations is {n_relations}")
    more = [relation_scores] if single else list(relation_scores)
    if len(more) != len(arcs):
        raise InputError(f"relation_scores has {len(more)} sentences, arc_scores has {len(arcs)}")
    pieces = [_NOTHING]
    for i, (relations, n) in enumerate(zip(more, lengths.tolist(), strict=True)):
        name = "relation_scores" if single else f"relation_scores[{i}]"
        pieces.append(checked_scores(relations, name, (n + 1, n + 1, n_relations)).reshape(-1))
    return TreeScores(lengths, flat, np.concatenate([*pieces, np.zeros(LANES)]), single)


def refuse_numbers(sentence: int, single: bool) -> None:
    """Raise if compiled code found NaN or +inf in a sentence."""
    if sentence >= 0:
        name = "arc_scores" if single else f"arc_scores[{sentence}]"
        raise InputError(f"{name} contains NaN or +inf; scores may be any number or −inf")


def _matrix(values: Any, name: str) -> np.ndarray:
    try:
        array = real_array(values)
    except (TypeError, ValueError, OverflowError):
        array = _NOTHING
    if array.ndim != 2 or array.shape[0] != array.shape[1] or len(array) < 2:
        raise InputError(
            f"{name} must be a square array [head, modifier] of n + 1 rows for n ≥ 1 words, "
            f"not of shape {np.shape(array) if array is not _NOTHING else 'unknown'}"
        )
    return array
