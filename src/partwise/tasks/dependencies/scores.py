"""Scores of dependency trees as `partwise evaluate` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from rich.markup import escape
    from rich.table import Table

    def rate(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.2f}"

    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("attachment, %")
    for title in ("UAS", "LAS", "CLAS", "words"):
        table.add_column(title, justify="right")
    table.add_row("all words", rate(scores["uas"]), rate(scores["las"]), "", f"{scores['n_words']:,}")
    bare = f"{scores['n_words_no_punctuation']:,}"
    table.add_row(
        "without punctuation",
        rate(scores["uas_no_punctuation"]),
        rate(scores["las_no_punctuation"]),
        "",
        bare,
    )
    if "conll2018" in scores:
        rates = [rate(scores["conll2018"][name]) for name in ("uas", "las", "clas")]
        table.add_row("as CoNLL 2018", *rates[:2], rates[2] or "n/a: not UD")
    console.print(table)
    console.print(
        f"\nroots {rate(scores['root_accuracy'])} %, sentences all right {rate(scores['complete_match'])} % of "
        f"{scores['n_sentences']:,}"
    )
    if "pruning" in scores:
        left = rate(scores["pruning"]["arcs_left"])
        console.print(
            f"pruning left {left} % of the arcs and {rate(scores['pruning']['recall'])} % of the true ones"
        )
    if "per_relation" in scores:
        relations = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
        relations.add_column("relation", overflow="fold")
        for title in ("precision", "recall", "true"):
            relations.add_column(title, justify="right")
        for name, row in scores["per_relation"].items():
            relations.add_row(escape(name), rate(row["precision"]), rate(row["recall"]), f"{row['true']:,}")
        console.print()
        console.print(relations)
