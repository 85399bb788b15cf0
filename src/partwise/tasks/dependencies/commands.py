"""Trees for the commands: sentences parsed as they arrive, pages of trees, scores of a file."""

from __future__ import annotations

import io
import json as json_module
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from partwise.core.losses import Loss
from partwise.data import open_binary, read_dependencies, stream_dependencies, write_dependencies
from partwise.errors import InputError
from partwise.estimators.probabilities import sharpness
from partwise.report.output import write_page_to
from partwise.tasks.data_options import DataOptions
from partwise.tasks.task import Evaluation, Task, Wanted, Write

if TYPE_CHECKING:
    import numpy as np

    from partwise.data import DependencyCorpus


class DependencyTrees(Task):
    """Parsing of sentences."""

    def __init__(self, estimator: Any, options: DataOptions, model: str = "", format: str | None = None):
        # Treebanks tell their format; a parser reads others than that it was trained on.
        super().__init__(estimator, options, model, format or "auto")

    def answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        if wanted.html is None:
            return self._answers(path, wanted)
        if wanted.kbest > 1:
            raise InputError("--html draws one tree a sentence; leave out --kbest")
        return self._drawn(path, wanted.html, wanted)

    def _answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        """What to write, sentences as they arrive."""
        if wanted.kbest > 1 and not wanted.json:
            raise InputError("--kbest gives several trees a sentence, which only --json can show")
        if wanted.marginals:
            sharpness(self.loss)
        with open_binary(path) as handle:
            for corpus in stream_dependencies(handle, self.options.format, path=path):
                if corpus.n_sentences:
                    yield self._answer(corpus, wanted)
                elif not wanted.json:
                    yield partial(write_dependencies, corpus=corpus)

    def _answer(self, corpus: DependencyCorpus, wanted: Wanted) -> Write:
        parsed = self.estimator.parse(corpus)
        probabilities = self.estimator.arc_probabilities(corpus, parsed.heads) if wanted.marginals else None
        if not wanted.json:
            return partial(_write, text=_text(corpus, parsed, probabilities))
        found = _kbest(self.estimator, corpus, wanted.kbest) if wanted.kbest > 1 else None
        return partial(_write, text=_json_lines(parsed, probabilities, found))

    def _drawn(self, path: str, page: str, wanted: Wanted) -> Iterator[Write]:
        """The same for a whole file, which is also drawn on a page: arcs by probability, wrong ones marked."""
        from partwise.report.trees import tree_page

        corpus = read_dependencies(path, self.options.format, need_heads=False)
        parsed = self.estimator.parse(corpus)
        probabilities = None
        if not self.loss.is_hard:
            probabilities = self.estimator.arc_probabilities(corpus, parsed.heads)
        title = f"Dependency trees of {path}"
        write_page_to(
            page, tree_page(corpus, parsed.heads, parsed.relations, marginals=probabilities, title=title)
        )
        if wanted.marginals:
            sharpness(self.loss)
        shown = probabilities if wanted.marginals else None
        text = _json_lines(parsed, shown, None) if wanted.json else _text(corpus, parsed, shown)
        yield partial(_write, text=text)

    def evaluation(self, path: str) -> Evaluation:
        found = tree_scores(self.estimator, read_dependencies(path, self.options.format))
        return Evaluation(found, partial(show_scores, scores=found))

    def labelled(self, path: str) -> tuple[Any, Any]:
        corpus = read_dependencies(path, self.options.format)
        return corpus, corpus.heads

    def dev_scores(self, x: Any, y: Any) -> dict[str, Any]:
        found = tree_scores(self.estimator, x)
        return {name: found[name] for name in ("uas", "las", "uas_no_punctuation", "las_no_punctuation")}

    def dev_words(self, dev: dict[str, Any]) -> str:
        bare = f"without punctuation {100 * dev['uas_no_punctuation']:.2f}"
        labelled = "" if dev["las"] is None else f"  LAS {100 * dev['las']:.2f}"
        return f"dev UAS {100 * dev['uas']:.2f}{labelled}  ({bare})"


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
    value = "score" if Loss.of(parser.loss).is_hard else "probability"
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
    from partwise.scoring.universal_attachment import is_universal, universal_scores

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
        # Relations of other schemes are not told apart into those of content and of function words.
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
