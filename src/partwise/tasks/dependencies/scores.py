"""Scores of dependency trees as `partwise evaluate` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partwise.report.score_tables import in_words, number_table
from partwise.scoring.attachment import attachment_scores
from partwise.scoring.universal_attachment import is_universal, universal_scores

if TYPE_CHECKING:
    from partwise.data import DependencyCorpus


def tree_scores(parser: Any, corpus: DependencyCorpus) -> dict[str, Any]:
    """All scores of `evaluate`: those of both scorers, with and without punctuation, and pruning."""
    parsed = parser.parse(corpus)
    found, bare = (
        attachment_scores(corpus, parsed.heads, parsed.relations, punctuation=counted)
        for counted in (True, False)
    )
    scores: dict[str, Any] = {
        "uas": found.uas, "las": found.las,
        "uas_no_punctuation": bare.uas, "las_no_punctuation": bare.las,
        "label_accuracy": found.label_accuracy, "root_accuracy": found.root_accuracy,
        "complete_match": found.complete_match,
        "n_sentences": corpus.n_sentences, "n_words": found.n_words, "n_words_no_punctuation": bare.n_words,
    }  # fmt: skip
    if found.has_relations:
        universal = universal_scores(corpus, parsed)
        scores["conll2018"] = {name: getattr(universal, name).f1 for name in ("uas", "las")}
        # CLAS needs to know which relations are of content words; only universal relations say so.
        scores["conll2018"]["clas"] = universal.clas.f1 if is_universal(corpus.relations or []) else None
        scores["per_relation"] = {
            name: {"precision": counts.precision, "recall": counts.recall, "true": counts.n_true}
            for name, counts in found.per_relation.items()
        }
    pruning = parser.pruning_recall(corpus)
    if pruning is not None:
        scores["pruning"] = pruning.as_dict()
    return scores


def show_scores(console: Any, scores: dict[str, Any]) -> None:
    """Print scores for people."""
    bare = scores["uas_no_punctuation"], scores["las_no_punctuation"], None, scores["n_words_no_punctuation"]
    rows: list[tuple[Any, ...]] = [
        ("all words", scores["uas"], scores["las"], None, scores["n_words"]),
        ("without punctuation", *bare),
    ]
    if "conll2018" in scores:
        uas, las, clas = (scores["conll2018"][name] for name in ("uas", "las", "clas"))
        rows.append(("as CoNLL 2018", uas, las, "n/a: not UD" if clas is None else clas, None))
    console.print(number_table(["attachment, %"], ["UAS", "LAS", "CLAS", "words"], rows))
    console.print(
        f"\nroots {in_words(scores['root_accuracy'])} %, sentences all right {in_words(scores['complete_match'])} % of "
        f"{scores['n_sentences']:,}"
    )
    if "pruning" in scores:
        left, recall = in_words(scores["pruning"]["arcs_left"]), in_words(scores["pruning"]["recall"])
        console.print(f"pruning left {left} % of the arcs and {recall} % of the true ones")
    if "per_relation" in scores:
        relations = (
            [name, *(row[each] for each in ("precision", "recall", "true"))]
            for name, row in scores["per_relation"].items()
        )
        console.print()
        console.print(number_table(["relation"], ["precision", "recall", "true"], relations))
