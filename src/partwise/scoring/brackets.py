"""Bracket scores of constituents, counted as evalb does with COLLINS.prm.

Before anything is compared, traces go, then words whose true tag is punctuation (``, : `` '' .``), constituents of
nothing else, the outermost bracket (TOP, or no label) and function tags. ADVP and PRT count as the same label. Where
predicted tags make other words punctuation than the true ones, evalb leaves the sentence out; here the true tags
decide for both trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from partwise.data.constituents import Span, Tree
from partwise.data.treebank import TRACE_TAG, plain_label
from partwise.errors import InputError
from partwise.scoring.metrics import ChunkCounts

PUNCTUATION = frozenset({",", ":", "``", "''", "."})
DELETED = frozenset({"", "TOP"}) | PUNCTUATION
_SAME = {"PRT": "ADVP"}


@dataclass
class BracketScores(ChunkCounts):
    """Counts over all sentences; rates are between 0 and 1.

    Attributes
    ----------
    n_sentences, n_skipped : int
        Sentences compared, and those that were not, as their words differ.
    n_true, n_predicted, n_correct : int
        Constituents of the true and of the predicted trees, and those in both with the same words and label.
    n_exact : int
        Sentences with all constituents right.
    n_crossing : int
        Predicted constituents that overlap a true one without either being within the other.
    n_without_crossing, n_two_crossing : int
        Sentences with no such constituent, and with two or fewer.
    n_words, n_correct_tags : int
    per_label : dict of str to ChunkCounts
    """

    n_sentences: int = 0
    n_skipped: int = 0
    n_exact: int = 0
    n_crossing: int = 0
    n_without_crossing: int = 0
    n_two_crossing: int = 0
    n_words: int = 0
    n_correct_tags: int = 0
    per_label: dict[str, ChunkCounts] = field(default_factory=dict)

    @property
    def exact_match(self) -> float:
        return _share(self.n_exact, self.n_sentences)

    @property
    def crossing(self) -> float:
        """Crossing constituents per sentence."""
        return _share(self.n_crossing, self.n_sentences)

    @property
    def no_crossing(self) -> float:
        return _share(self.n_without_crossing, self.n_sentences)

    @property
    def two_or_less_crossing(self) -> float:
        return _share(self.n_two_crossing, self.n_sentences)

    @property
    def tag_accuracy(self) -> float:
        return _share(self.n_correct_tags, self.n_words)

    def as_dict(self) -> dict[str, Any]:
        """All rates and the counts behind them, for JSON."""
        names = (
            "f1", "precision", "recall", "exact_match", "crossing", "no_crossing", "two_or_less_crossing",
            "tag_accuracy", "n_sentences", "n_skipped", "n_true", "n_predicted", "n_correct", "n_words",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def bracket_scores(
    true: Sequence[Tree], predicted: Sequence[Tree], max_length: int | None = None
) -> BracketScores:
    """Compare predicted trees with the true ones.

    Parameters
    ----------
    true, predicted : sequence of Tree
        Of the same sentences.
    max_length : int or None
        Only sentences of at most that many words, traces aside and punctuation included (evalb's cut-off is 40).
    """
    if len(true) != len(predicted):
        raise InputError(f"{len(predicted)} predicted trees for {len(true)} true ones")
    scores = BracketScores()
    counts: dict[str, list[int]] = {}
    for gold, guess in zip(true, predicted, strict=True):
        gold_tags, guess_tags = _words(gold), _words(guess)
        if max_length is not None and len(gold_tags) > max_length:
            continue
        if [tag.word for tag in gold_tags] != [tag.word for tag in guess_tags]:
            scores.n_skipped += 1
            continue
        kept = [plain_label(tag.label) not in PUNCTUATION for tag in gold_tags]
        _add_tags(scores, gold_tags, guess_tags, kept)
        _add_brackets(scores, constituents(gold, kept), constituents(guess, kept), counts)
    scores.per_label = {label: ChunkCounts(*counts[label]) for label in sorted(counts)}
    return scores


def constituents(tree: Tree, kept: Sequence[bool]) -> list[Span]:
    """The brackets of a tree that count, over the words that do.

    Parameters
    ----------
    kept : sequence of bool
        For every word that is no trace whether it counts.
    """
    before = [0]  # words that count before each leaf, traces included
    words = iter(kept)
    for tag in tree.tags():
        before.append(before[-1] + (tag.label != TRACE_TAG and next(words)))
    found = []
    for span in tree.spans():
        label, first, end = plain_label(span.label), before[span.first], before[span.end]
        if first < end and label not in DELETED:
            found.append(Span(first, end, _SAME.get(label, label)))
    return found


def _words(tree: Tree) -> list[Tree]:
    return [tag for tag in tree.tags() if tag.label != TRACE_TAG]


def _add_tags(scores: BracketScores, gold: list[Tree], guess: list[Tree], kept: list[bool]) -> None:
    scores.n_words += sum(kept)
    scores.n_correct_tags += sum(
        a.label == b.label for a, b, counted in zip(gold, guess, kept, strict=True) if counted
    )


def _add_brackets(
    scores: BracketScores, gold: list[Span], guess: list[Span], counts: dict[str, list[int]]
) -> None:
    right = Counter(gold) & Counter(guess)
    n_right = right.total()
    for place, spans in enumerate((gold, guess, right.elements())):
        for span in spans:
            counts.setdefault(span.label, [0, 0, 0])[place] += 1
    n_crossing = _n_crossing(gold, guess)
    scores.n_sentences += 1
    scores.n_true += len(gold)
    scores.n_predicted += len(guess)
    scores.n_correct += n_right
    scores.n_exact += n_right == len(gold) == len(guess)
    scores.n_crossing += n_crossing
    scores.n_without_crossing += n_crossing == 0
    scores.n_two_crossing += n_crossing <= 2


def _n_crossing(gold: list[Span], guess: list[Span]) -> int:
    places = {(span.first, span.end) for span in gold}
    return sum(
        any(
            first < span.first < end < span.end or span.first < first < span.end < end
            for first, end in places
        )
        for span in guess
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
