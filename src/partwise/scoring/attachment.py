"""Attachment scores of dependency trees, counted as the scorer of CoNLL-X does."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from partwise.core.arrays import offsets
from partwise.errors import InputError
from partwise.scoring.metrics import ChunkCounts

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus


@dataclass
class AttachmentScores:
    """Attachment scores of one corpus; rates are between 0 and 1.

    Attributes
    ----------
    n_words : int
        Words that count: all, or all but punctuation.
    n_correct_heads, n_correct_relations, n_correct : int
        Words with the right head, the right relation, and both.
    n_roots, n_correct_roots : int
        Words whose true head is the root, and those of them whose predicted head is.
    n_sentences, n_complete, n_complete_labelled : int
        Sentences with words that count; those with all heads right; those with all relations right too.
    has_relations : bool
        Without relations `las`, `label_accuracy` and `labelled_complete_match` are None.
    per_relation : dict of str to ChunkCounts
        By relation: words that truly have it, words that are given it, words given it rightly at the right head.
    """

    n_words: int = 0
    n_correct_heads: int = 0
    n_correct_relations: int = 0
    n_correct: int = 0
    n_roots: int = 0
    n_correct_roots: int = 0
    n_sentences: int = 0
    n_complete: int = 0
    n_complete_labelled: int = 0
    has_relations: bool = False
    per_relation: dict[str, ChunkCounts] = field(default_factory=dict)

    @property
    def uas(self) -> float:
        """Unlabelled attachment: share of words with the right head."""
        return _share(self.n_correct_heads, self.n_words)

    @property
    def las(self) -> float | None:
        """Labelled attachment: share of words with the right head and relation."""
        return _share(self.n_correct, self.n_words) if self.has_relations else None

    @property
    def label_accuracy(self) -> float | None:
        """Share of words with the right relation, whatever their head."""
        return _share(self.n_correct_relations, self.n_words) if self.has_relations else None

    @property
    def root_accuracy(self) -> float:
        """Share of the true roots that are found."""
        return _share(self.n_correct_roots, self.n_roots)

    @property
    def complete_match(self) -> float:
        """Share of sentences without a wrong head."""
        return _share(self.n_complete, self.n_sentences)

    @property
    def labelled_complete_match(self) -> float | None:
        """Share of sentences without a wrong head or relation."""
        return _share(self.n_complete_labelled, self.n_sentences) if self.has_relations else None

    def rows(self) -> list[tuple[str, int, int, float]]:
        """Every score as (name, right, of, rate)."""
        rows = [("unlabelled attachment", self.n_correct_heads, self.n_words)]
        if self.has_relations:
            rows += [
                ("labelled attachment", self.n_correct, self.n_words),
                ("label accuracy", self.n_correct_relations, self.n_words),
            ]
        rows += [
            ("root accuracy", self.n_correct_roots, self.n_roots),
            ("complete sentences", self.n_complete, self.n_sentences),
        ]
        if self.has_relations:
            rows.append(("complete, labelled", self.n_complete_labelled, self.n_sentences))
        return [(name, right, total, _share(right, total)) for name, right, total in rows]

    def report(self) -> str:
        """The scores as a small table of text."""
        lines = [
            f"{name:<22} {right:>8} / {total:<8} {100 * rate:6.2f} %"
            for name, right, total, rate in self.rows()
        ]
        for name, counts in self.per_relation.items():
            lines.append(
                f"{name:>22} precision {100 * counts.precision:6.2f} %  recall {100 * counts.recall:6.2f} %  "
                f"{counts.n_true}"
            )
        return "\n".join(lines) + "\n"


def is_punctuation(form: str) -> bool:
    """Whether a form consists only of characters that Unicode calls punctuation (categories P…)."""
    return bool(form) and all(unicodedata.category(character)[0] == "P" for character in form)


def attachment_scores(
    gold: DependencyCorpus,
    heads: np.ndarray,
    relations: Sequence[str] | None = None,
    *,
    punctuation: bool = True,
) -> AttachmentScores:
    """Score predicted trees of the same words.

    Parameters
    ----------
    gold : DependencyCorpus
        All heads known.
    heads : int array (n_words,)
        Predicted heads, flat over all sentences.
    relations : sequence of str (n_words,), or None
        Predicted relations; without them, or without true ones, only heads are scored.
    punctuation : bool
        Whether words that are only punctuation (see `is_punctuation`) count. The CoNLL-X scorer leaves them out
        by default, and counts them with its option -p.

    Returns
    -------
    AttachmentScores
    """
    heads = np.asarray(heads)
    for name, column in (("heads", heads), ("relations", relations)):
        if column is not None and len(column) != gold.n_words:
            raise InputError(f"{len(column)} {name} for {gold.n_words} words")
    if not gold.has_heads:
        word = int(np.flatnonzero(gold.heads < 0)[0])
        raise InputError("the truth has words without a head; there is nothing to score", **gold.where(word))
    counted = np.ones(gold.n_words, dtype=bool)
    if not punctuation:
        known = {form: not is_punctuation(form) for form in set(gold.forms)}
        counted = np.fromiter(map(known.__getitem__, gold.forms), dtype=bool, count=gold.n_words)
    right_head = heads == gold.heads
    has_relations = relations is not None and gold.relations is not None
    right_relation = np.zeros(gold.n_words, dtype=bool)
    per_relation: dict[str, ChunkCounts] = {}
    if relations is not None and gold.relations is not None:
        same = [mine == theirs for mine, theirs in zip(relations, gold.relations, strict=True)]
        right_relation = np.array(same, dtype=bool)
        per_relation = _by_relation(gold.relations, relations, counted, right_head & right_relation)
    is_root = counted & (gold.heads == 0)
    n_counted, n_heads, n_both = (
        _per_sentence(each, gold.sentence_ptr)
        for each in (counted, counted & right_head, counted & right_head & right_relation)
    )
    scored = n_counted > 0
    return AttachmentScores(
        n_words=int(n_counted.sum()),
        n_correct_heads=int(n_heads.sum()),
        n_correct_relations=int((counted & right_relation).sum()),
        n_correct=int(n_both.sum()),
        n_roots=int(is_root.sum()),
        n_correct_roots=int((is_root & right_head).sum()),
        n_sentences=int(scored.sum()),
        n_complete=int((scored & (n_heads == n_counted)).sum()),
        n_complete_labelled=int((scored & (n_both == n_counted)).sum()),
        has_relations=has_relations,
        per_relation=per_relation,
    )


def _by_relation(
    true: Sequence[str], predicted: Sequence[str], counted: np.ndarray, right: np.ndarray
) -> dict[str, ChunkCounts]:
    words = np.flatnonzero(counted).tolist()
    n_true, n_predicted = Counter(true[word] for word in words), Counter(predicted[word] for word in words)
    n_correct = Counter(true[word] for word in np.flatnonzero(counted & right).tolist())
    return {
        name: ChunkCounts(n_true[name], n_predicted[name], n_correct[name])
        for name in sorted(n_true.keys() | n_predicted.keys())
    }


def _per_sentence(mask: np.ndarray, sentence_ptr: np.ndarray) -> np.ndarray:
    """The number of marked words of each sentence."""
    return np.diff(offsets(mask)[sentence_ptr])


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
