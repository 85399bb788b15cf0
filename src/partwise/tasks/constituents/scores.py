"""Scores of constituent trees as `partwise evaluate` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partwise.data import Tree
from partwise.report.score_tables import number_table
from partwise.scoring.brackets import BracketScores, bracket_scores
from partwise.tasks.constituents.data import as_sentences


def tree_scores(parser: Any, trees: Sequence[Tree]) -> dict[str, Any]:
    """All scores of `evaluate`: evalb's, on all sentences and on sentences of at most 40 words."""
    parsed = parser.parse(as_sentences(trees, parser.has_tags_))
    scores, short = bracket_scores(trees, parsed.trees), bracket_scores(trees, parsed.trees, max_length=40)
    found = scores.as_dict()
    found["n_fallback"] = int(parsed.fallback.sum())
    found["up_to_40_words"] = _few(short)
    found["per_label"] = {
        name: {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1, "true": counts.n_true}
        for name, counts in scores.per_label.items()
    }
    return found


def _few(scores: BracketScores) -> dict[str, Any]:
    return {
        name: getattr(scores, name) for name in ("f1", "precision", "recall", "exact_match", "n_sentences")
    }


def show_scores(console: Any, scores: dict[str, Any]) -> None:
    """Print scores for people."""
    short = scores["up_to_40_words"]
    rows = (
        [name, *(row[each] for each in ("f1", "precision", "recall", "exact_match", "n_sentences"))]
        for name, row in (("all sentences", scores), ("up to 40 words", short))
    )
    titles = ["F1", "precision", "recall", "exact", "sentences"]
    console.print(number_table(["constituents, as evalb counts, %"], titles, rows))
    console.print(
        f"\ntags {100 * scores['tag_accuracy']:.2f} %, crossing brackets {scores['crossing']:.2f} a sentence, none in "
        f"{100 * scores['no_crossing']:.2f} %, outside the grammar {scores['n_fallback']:,}\n"
    )
    labels = (
        [name, *(row[each] for each in ("f1", "precision", "recall", "true"))]
        for name, row in scores["per_label"].items()
    )
    console.print(number_table(["label"], ["F1", "precision", "recall", "true"], labels))
