"""Constituent trees for the commands: sentences parsed as they arrive, pages of trees, scores of a file."""

from __future__ import annotations

import io
import json as json_module
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple, TextIO

from partwise.core.losses import Loss
from partwise.data import Tree, decode, open_binary, read_trees, readable, write_trees
from partwise.data.brackets import escaped
from partwise.data.treebank import parse_trees
from partwise.errors import InputError
from partwise.estimators.probabilities import sharpness
from partwise.report.output import write_page_to
from partwise.scoring.brackets import BracketScores, bracket_scores
from partwise.tasks.constituents.data import as_sentences, by_sentence
from partwise.tasks.data_options import DataOptions
from partwise.tasks.task import Evaluation, Task, Wanted, Write

FORMATS = ("brackets", "export", "text", "tagged")
_EXPORT_STARTS = ("#BOS", "#FORMAT", "#BOT", "%%")


class _Input(NamedTuple):
    """Sentences to parse, as the parser takes them, and their true trees where the file has trees."""

    sentences: list[Any]
    trees: list[Tree] | None = None
    format: str = "brackets"


class Constituents(Task):
    """Parsing of sentences into constituents."""

    def __init__(self, estimator: Any, options: DataOptions, model: str = "", format: str | None = None):
        super().__init__(estimator, options, model, format or "auto")
        if self.options.format not in ("auto", *FORMATS):
            raise InputError(f"--format must be auto, {', '.join(FORMATS)}, not {self.options.format!r:.40}")

    def answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        if wanted.marginals and not wanted.json and wanted.html is None:
            raise InputError(
                "--marginals gives probabilities of constituents, which only --json and --html can show"
            )
        if wanted.kbest > 1 and not wanted.json:
            raise InputError("--kbest gives several trees a sentence, which only --json can show")
        if wanted.kbest > 1 and wanted.html is not None:
            raise InputError("--html draws one tree a sentence; leave out --kbest")
        if wanted.marginals:
            sharpness(self.loss)
        return self._answers(path, wanted)

    def _answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        """What to write, sentences as they arrive; with a page, when all have."""
        drawn: list[tuple[list[Tree], Any, list[Tree] | None]] = []
        with open_binary(path) as handle:
            for piece in _pieces(handle, path, self.options.format, self.estimator.has_tags_):
                parsed = self.estimator.parse(piece.sentences)
                marginals = None
                if wanted.marginals or (wanted.html is not None and not self.loss.is_hard):
                    marginals = self.estimator.predict_marginals(piece.sentences)
                if wanted.html is not None:
                    drawn.append((parsed.trees, marginals, piece.trees))
                yield partial(_write, text=self._text(piece, parsed, marginals, wanted))
        if wanted.html is not None:
            self._draw(path, wanted.html, drawn)

    def _text(self, piece: _Input, parsed: Any, marginals: Any, wanted: Wanted) -> str:
        trees = [_escaped(tree) for tree in parsed.trees]
        if not wanted.json:
            buffer = io.StringIO()
            write_trees(buffer, trees, piece.format)
            return buffer.getvalue()
        objects: list[dict[str, Any]] = [
            {"words": own.words(), "tree": str(tree), "fallback": bool(outside)}
            for own, tree, outside in zip(parsed.trees, trees, parsed.fallback, strict=True)
        ]
        if wanted.marginals:
            for each, found in zip(objects, marginals, strict=True):
                each["constituents"] = [[*span, round(p, 6)] for span, p in sorted(found.items())]
        if wanted.kbest > 1:
            value = "score" if Loss.of(self.estimator.loss).is_hard else "probability"
            for each, best in zip(
                objects, self.estimator.predict_kbest(piece.sentences, wanted.kbest), strict=True
            ):
                each["kbest"] = [{"tree": str(_escaped(tree)), value: number} for tree, number in best]
        return "".join(json_module.dumps(each, ensure_ascii=False) + "\n" for each in objects)

    def _draw(self, path: str, page: str, drawn: list[Any]) -> None:
        from partwise.report.constituents import constituent_page

        trees = [tree for own, _, _ in drawn for tree in own]
        marginals = None if self.loss.is_hard else [each for _, own, _ in drawn for each in own]
        gold = [tree for _, _, own in drawn if own is not None for tree in own]
        title = f"Constituent trees of {path}"
        text = constituent_page(
            trees, marginals=marginals, gold=gold if len(gold) == len(trees) and trees else None, title=title
        )
        write_page_to(page, text)

    def evaluation(self, path: str) -> Evaluation:
        found = tree_scores(self.estimator, self._read(path))
        return Evaluation(found, partial(show_scores, scores=found))

    def _read(self, path: str) -> list[Tree]:
        format = self.options.format
        if format in ("text", "tagged"):
            raise InputError(f"--format {format} has no trees to compare with")
        return read_trees(path, format).trees

    def labelled(self, path: str) -> tuple[Any, Any]:
        trees = self._read(path)
        sentences = as_sentences(trees, self.estimator.has_tags_)
        words = by_sentence(sentences, sentences.forms)
        if sentences.tags is None:
            return words, trees
        tags = by_sentence(sentences, sentences.tags)
        return [list(zip(*pair, strict=True)) for pair in zip(words, tags, strict=True)], trees

    def dev_scores(self, x: Any, y: Any) -> dict[str, Any]:
        found = tree_scores(self.estimator, y.trees)
        return {name: found[name] for name in ("f1", "precision", "recall", "exact_match", "tag_accuracy")}

    def dev_words(self, dev: dict[str, Any]) -> str:
        tags = "" if self.estimator.has_tags_ else f"  tags {100 * dev['tag_accuracy']:.2f} %"
        return f"dev F1 {100 * dev['f1']:.2f}  exact {100 * dev['exact_match']:.2f} %{tags}"


def _pieces(handle: BinaryIO, path: str, format: str, has_tags: bool) -> Iterator[_Input]:
    """The sentences of a file: all at once where they are trees, else lines as they arrive."""
    with readable(path):
        head = handle.peek(512)[:512].lstrip()  # type: ignore[attr-defined]
    if format == "auto":
        start = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
        format = (
            "export" if start.startswith(_EXPORT_STARTS) else "brackets" if start.startswith("(") else "text"
        )
        if format == "text" and has_tags:
            format = "tagged"
    if format in ("brackets", "export"):
        with readable(path):
            text = decode(handle.read(), path).removeprefix("\ufeff")
        trees = parse_trees(text, path, format, traces=False).trees
        yield _Input(trees, trees, format)
        return
    number, rest = 0, b""
    while True:
        with readable(path):
            data = handle.read1(1 << 16)  # type: ignore[attr-defined]
        whole, newline, rest = (rest + data).rpartition(b"\n") if data else (rest, b"", b"")
        lines = decode(whole, path, number + 1).split("\n") if whole or newline else []
        sentences = [_words(line, format, has_tags, path, number + k) for k, line in enumerate(lines, 1)]
        number += len(lines)
        if any(sentences):
            yield _Input([words for words in sentences if words])
        if not data:
            return


def _words(line: str, format: str, has_tags: bool, path: str, number: int) -> list[Any]:
    """The words of a line, or of word/TAG the pairs."""
    fields = line.removeprefix("\ufeff").split()
    if format == "text":
        if has_tags and fields:
            raise InputError("this parser needs tags: give words as word/TAG", path, number)
        return fields
    pairs = [field.rsplit("/", 1) for field in fields]
    for pair in pairs:
        if len(pair) != 2 or not all(pair):
            raise InputError(f"{'/'.join(pair)!r:.40} has no tag; this parser needs word/TAG", path, number)
    return [(word, tag) for word, tag in pairs]


def _escaped(tree: Tree) -> Tree:
    """A tree that can be written: brackets among the words by their names."""
    from partwise.data.constituents import fold

    if all(tag.word == escaped(tag.word or "") and tag.label == escaped(tag.label) for tag in tree.tags()):
        return tree

    def make(node: Tree, below: list[Tree]) -> Tree:
        if node.word is None:
            return Tree(node.label, below)
        return Tree(escaped(node.label), escaped(node.word))

    return fold(tree, make)


def _write(handle: TextIO, text: str) -> None:
    handle.write(text)
    handle.flush()


# -- scores ---------------------------------------------------------------------------------------


def tree_scores(parser: Any, trees: Sequence[Tree]) -> dict[str, Any]:
    """All that `evaluate` says: what evalb counts, on all sentences and on those of at most 40 words."""
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
    from rich.markup import escape
    from rich.table import Table

    short = scores["up_to_40_words"]
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("constituents, as evalb counts, %")
    for title in ("F1", "precision", "recall", "exact", "sentences"):
        table.add_column(title, justify="right")
    for name, row in (("all sentences", scores), ("up to 40 words", short)):
        rates = [f"{100 * row[each]:.2f}" for each in ("f1", "precision", "recall", "exact_match")]
        table.add_row(name, *rates, f"{row['n_sentences']:,}")
    console.print(table)
    console.print(
        f"\ntags {100 * scores['tag_accuracy']:.2f} %, crossing brackets {scores['crossing']:.2f} a sentence, none in "
        f"{100 * scores['no_crossing']:.2f} %, outside the grammar {scores['n_fallback']:,}"
    )
    labels = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    labels.add_column("label", overflow="fold")
    for title in ("F1", "precision", "recall", "true"):
        labels.add_column(title, justify="right")
    for name, row in scores["per_label"].items():
        rates = [f"{100 * row[each]:.2f}" for each in ("f1", "precision", "recall")]
        labels.add_row(escape(name), *rates, f"{row['true']:,}")
    console.print()
    console.print(labels)
