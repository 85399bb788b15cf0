"""Trees for the commands: parsing streams, scoring files, pages of trees."""

from __future__ import annotations

import io
import json as json_module
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from partwise.data import open_binary, read_dependencies, stream_dependencies, write_dependencies
from partwise.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from partwise.data import DependencyCorpus


def parse_stream(
    parser: Any, path: str, format: str, marginals: bool, kbest: int, json: bool
) -> Iterator[Callable[[TextIO], None]]:
    """What to write, sentences as they arrive."""
    if kbest > 1 and not json:
        raise InputError("--kbest gives several trees a sentence, which only --json can show")
    if marginals:
        parser._sharpness()
    with open_binary(path) as handle:
        for corpus in stream_dependencies(handle, format, path=path):
            yield from _answers(parser, corpus, marginals, kbest, json)


def parse_to_page(
    parser: Any, path: str, format: str, page: str, marginals: bool, json: bool
) -> Iterator[Callable[[TextIO], None]]:
    """The same for a whole file, which is also drawn on a page: arcs by probability, wrong ones marked."""
    from partwise.cli.common import write_page_to
    from partwise.report.trees import tree_page

    corpus = read_dependencies(path, format, need_heads=False)
    parsed = parser.parse(corpus)
    probabilities = None if parser._loss.is_hard else parser.arc_probabilities(corpus, parsed.heads)
    title = f"Dependency trees of {path}"
    write_page_to(
        page, tree_page(corpus, parsed.heads, parsed.relations, marginals=probabilities, title=title)
    )
    if marginals and probabilities is None:
        parser._sharpness()
    shown = probabilities if marginals else None
    if json:
        yield partial(_write, text=_json_lines(parsed, shown, None))
    else:
        yield partial(_write, text=_text(corpus, parsed, shown))


def _answers(
    parser: Any, corpus: DependencyCorpus, marginals: bool, kbest: int, json: bool
) -> Iterator[Callable[[TextIO], None]]:
    if corpus.n_sentences == 0:
        if not json:
            yield partial(write_dependencies, corpus=corpus)
        return
    parsed = parser.parse(corpus)
    probabilities = parser.arc_probabilities(corpus, parsed.heads) if marginals else None
    if json:
        found = _kbest(parser, corpus, kbest) if kbest > 1 else None
        yield partial(_write, text=_json_lines(parsed, probabilities, found))
    else:
        yield partial(_write, text=_text(corpus, parsed, probabilities))


def _text(corpus: DependencyCorpus, parsed: DependencyCorpus, probabilities: np.ndarray | None) -> str:
    """The file with new heads and relations; probabilities go to the last column of CoNLL-U, else to one more."""
    buffer = io.StringIO(newline="")
    write_dependencies(buffer, corpus, parsed.heads, parsed.relations)
    text = buffer.getvalue()
    if probabilities is None or corpus.source is None:
        return text
    lines = text.split("\n")
    for place, p in zip(corpus.source.word_lines.tolist(), probabilities.tolist(), strict=True):
        row = lines[place].rstrip("\r")
        end = lines[place][len(row) :]
        if corpus.source.format == "conllu":
            rest, _, misc = row.rpartition("\t")
            lines[place] = f"{rest}\t{'' if misc == '_' else misc + '|'}ArcProbability={p:.4f}{end}"
        else:
            lines[place] = f"{row}\t{p:.4f}{end}"
    return "\n".join(lines)


def _json_lines(parsed: DependencyCorpus, probabilities: np.ndarray | None, kbest: Any) -> str:
    heads, forms = parsed.split(parsed.heads.tolist()), parsed.split(parsed.forms)
    objects: list[dict[str, Any]] = [
        {"forms": words, "heads": own} for words, own in zip(forms, heads, strict=True)
    ]
    if parsed.relations is not None:
        for each, relations in zip(objects, parsed.split(parsed.relations), strict=True):
            each["relations"] = relations
    if probabilities is not None:
        for each, own in zip(objects, parsed.split(probabilities.round(6).tolist()), strict=True):
            each["probabilities"] = own
    if kbest is not None:
        for each, found in zip(objects, kbest, strict=True):
            each["kbest"] = found
    return "".join(json_module.dumps(each, ensure_ascii=False) + "\n" for each in objects)


def _kbest(parser: Any, corpus: DependencyCorpus, k: int) -> list[list[dict[str, Any]]]:
    value = "score" if parser._loss.is_hard else "probability"
    results = []
    for found in parser.predict_kbest(corpus, k):
        trees = []
        for tree, number in found:
            own = {"heads": tree.heads.tolist(), "relations": tree.relations} if parser.relations_ else {}
            trees.append((own or {"heads": tree.tolist()}) | {value: float(number)})
        results.append(trees)
    return results


def _write(handle: TextIO, text: str) -> None:
    handle.write(text)
    handle.flush()


# -- scores ---------------------------------------------------------------------------------------


def tree_scores(parser: Any, corpus: DependencyCorpus) -> dict[str, Any]:
    """All that `evaluate` says: what both scorers count, with and without punctuation, and pruning."""
    from partwise.scoring.attachment import attachment_scores
    from partwise.scoring.universal_attachment import universal_scores

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
        scores["conll2018"] = {name: getattr(universal, name).f1 for name in ("uas", "las", "clas")}
        scores["per_relation"] = {
            name: {"precision": counts.precision, "recall": counts.recall, "true": counts.n_true}
            for name, counts in found.per_relation.items()
        }
    pruning = parser.pruning_recall(corpus)
    if pruning is not None:
        scores["pruning"] = {"recall": pruning.recall, "arcs_left": pruning.n_kept / pruning.n_arcs}
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
        table.add_row("as CoNLL 2018", *(rate(scores["conll2018"][name]) for name in ("uas", "las", "clas")))
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
