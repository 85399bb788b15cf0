"""Arc pruning: a small first-order model of tags leaves each word a few heads.

A head stays if its probability under the small model is among the word's best few and not below a fraction of the
best one's (a coarse beam, as Koo and Collins, 2010, and TurboParser prune). The small model's best tree always stays,
so that a tree is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arcs import Arcs, all_arcs
from partwise.core.arrays import offsets
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.data import DependencyCorpus
from partwise.errors import InputError
from partwise.estimators.model import LinearModel, compact
from partwise.features.arcs import ArcFeatures
from partwise.storage.checks import expect_number
from partwise.tasks.dependencies.arc_encoder import ArcEncoder
from partwise.tasks.dependencies.data import pieces, words_of

BEAM = {1: 1e-4, 2: 1e-3}  # by order: heads with less than this share of the best one's probability go
MOST_ARCS = 2_000_000  # arcs encoded at a time
_TOLERANCE, _MOST_PASSES, _L2 = 0.02, 20, 1.0


class PruningRecord(NamedTuple):
    """What pruning left of some sentences.

    Attributes
    ----------
    n_arcs, n_kept : int
        Arcs there were, and those left.
    n_words, n_found : int
        Words with a known head, and those of them whose true arc the pruner left by itself.
    """

    n_arcs: int
    n_kept: int
    n_words: int
    n_found: int

    @property
    def recall(self) -> float:
        """Share of the true arcs that are left."""
        return self.n_found / self.n_words if self.n_words else 1.0

    def as_dict(self) -> dict[str, float]:
        """Both shares, for JSON."""
        return {"recall": self.recall, "arcs_left": self.n_kept / self.n_arcs}

    @classmethod
    def from_state(cls, stored: Any) -> PruningRecord | None:
        """The record that a model file holds."""
        if stored is None:
            return None
        right = isinstance(stored, list) and len(stored) == len(cls._fields)
        if not right or not all(type(each) is int and each >= 0 for each in stored):
            raise InputError("the record of pruning is damaged")
        return cls(*stored)

    def __str__(self) -> str:
        return f"pruning left {self.n_kept:,} of {self.n_arcs:,} arcs and {100 * self.recall:.2f} % of the true ones"


@dataclass(frozen=True)
class ArcPruner:
    """A small model, and how many heads it leaves.

    Attributes
    ----------
    n_heads : int
        The most heads of a word, those of the best tree (and true ones, in training) not counted.
    beam : float
        Heads with less than this share of the best one's probability go.
    encoder : ArcEncoder
    model : LinearModel
        Of trees without relations.
    """

    n_heads: int
    beam: float
    encoder: ArcEncoder
    model: LinearModel

    @classmethod
    def fit(
        cls, corpus: DependencyCorpus, structure: Any, n_heads: int, beam: float = BEAM[1], n_jobs: int = 1
    ) -> ArcPruner:
        """Train on all arcs of a corpus, loosely."""
        from partwise.solvers import ExponentiatedGradient, StopReason, solve

        encoder = ArcEncoder({"arc": ArcFeatures("pos").fit(corpus)})
        encoded = encoder.transform(structure, corpus, all_arcs(corpus.lengths))
        rows = encoded.rows(structure, {"arc": FeatureMap.build(1, encoder.arcs.n_attributes)})
        shapes = encoded.shapes_for(structure)
        gold = structure.parts_of_trees(corpus.heads, shapes)
        problem = Problem.build(
            structure, corpus.heads, shapes, rows, loss="log", l2=_L2, n_jobs=n_jobs, gold=gold
        )
        solver = ExponentiatedGradient("permuted")
        solution = solve(problem, solver, tol=_TOLERANCE, max_passes=_MOST_PASSES)
        if solution.stop_reason is StopReason.INTERRUPTED:
            raise KeyboardInterrupt  # a pruner that is not trained would prune true arcs
        encoder, model = compact(structure, encoder, problem.scorer.maps, solution.weights)
        return cls(n_heads, beam, encoder, model)

    def prune(
        self, corpus: DependencyCorpus, keep_true: bool = False, n_jobs: int = 1
    ) -> tuple[Arcs, PruningRecord]:
        """The arcs that are left, and a count; with `keep_true` the true arcs are left in any case."""
        found = [self._prune(piece, keep_true, n_jobs) for piece in pieces(corpus, MOST_ARCS)]
        if not found:
            return all_arcs(corpus.lengths), PruningRecord(0, 0, 0, 0)
        per_sentence = np.concatenate([np.diff(arcs.arc_ptr) for arcs, _ in found])
        arcs = Arcs(
            offsets(per_sentence),
            np.concatenate([each.head for each, _ in found]),
            np.concatenate([each.modifier for each, _ in found]),
        )
        return arcs, PruningRecord(*np.sum([record for _, record in found], axis=0).tolist())

    def _prune(self, corpus: DependencyCorpus, keep_true: bool, n_jobs: int) -> tuple[Arcs, PruningRecord]:
        arcs = all_arcs(corpus.lengths)
        scorer = self.model.scorer(self.encoder.transform(self.model.structure, corpus, arcs))
        probability, _ = self.model.counts(scorer, 1.0, n_jobs=n_jobs)
        best, _ = self.model.best(scorer, None, n_jobs)
        word = words_of(arcs, corpus.sentence_ptr)
        kept = _likely(probability, corpus.lengths, self.n_heads, self.beam) | (arcs.head == best[word])
        true = arcs.head == corpus.heads[word]
        record = PruningRecord(
            len(kept), int(kept.sum()), int((corpus.heads >= 0).sum()), int((kept & true).sum())
        )
        if keep_true:
            kept |= true
        return Arcs(offsets(kept)[arcs.arc_ptr], arcs.head[kept], arcs.modifier[kept]), record

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """For a model file."""
        header, arrays = self.encoder.state()
        arrays |= self.model.state(self.encoder.sizes)
        return {"n_heads": self.n_heads, "beam": self.beam, **header}, arrays

    @classmethod
    def from_state(
        cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], structure: Any
    ) -> ArcPruner:
        if not isinstance(header, dict):
            raise InputError("the model that prunes is missing")
        encoder = ArcEncoder.from_state(header, arrays, labelled=False)
        model = LinearModel.from_state(structure, encoder.sizes, arrays)
        # Files from before there was second order do not say it.
        beam = expect_number({"beam": BEAM[1]} | header, "beam", 0.0, 1.0)
        return cls(expect_number(header, "n_heads", 1, 2**31 - 1, whole=True), beam, encoder, model)


def _likely(probability: np.ndarray, lengths: np.ndarray, n_heads: int, beam: float) -> np.ndarray:
    """Which arcs are in the beam and among their word's best; arcs as `all_arcs` orders them."""
    kept = np.empty(len(probability), bool)
    first = 0
    for n in lengths.tolist():
        by_word = probability[first : first + n * n].reshape(n, n)
        least = beam * by_word.max(axis=1)
        if n > n_heads:
            least = np.maximum(least, np.partition(by_word, n - n_heads, axis=1)[:, n - n_heads])
        kept[first : first + n * n] = (by_word >= least[:, None]).ravel()
        first += n * n
    return kept
