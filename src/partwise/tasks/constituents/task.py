"""Constituent trees for the command line, reports and the server."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from partwise.data import Tree, open_binary, read_trees, write_trees
from partwise.data.brackets import escaped
from partwise.data.constituents import Span
from partwise.data.treebank import plain_label, plain_spans, without_traces
from partwise.errors import InputError
from partwise.report.output import write_page_to, write_text
from partwise.scoring.brackets import bracket_scores
from partwise.tasks.constituents.data import as_sentences, by_sentence
from partwise.tasks.constituents.options import ConstituentOptions
from partwise.tasks.constituents.page import (
    expected_words,
    nodes_of,
    paired_labels,
    read_sentence,
)
from partwise.tasks.constituents.reading import FORMATS, SentenceBatch, stream_sentences
from partwise.tasks.constituents.scores import show_scores, tree_scores
from partwise.tasks.options import DataOptions
from partwise.tasks.page import Evidence, Term, confusions, counted_labels, paired, percent
from partwise.tasks.task import LabelledData, Scores, SmallProblem, Task, Wanted, Write, add_each, json_lines


class ConstituentTrees(Task):
    """Parsing of sentences into constituents.

    X is a list of sentences, each a list of words or of pairs (word, tag); truths are trees.
    """

    command, kind = "constituency", "constituents"
    formats = FORMATS
    rereads_format = draws_trees = True
    longest = 100

    # -- labelled files -------------------------------------------------------------------------

    @classmethod
    def training_data(cls, path: str, options: ConstituentOptions) -> LabelledData:
        bank = read_trees(path, options.format).mapped(without_traces)
        if options.max_length is not None:
            bank = bank.only([len(tree.words()) <= options.max_length for tree in bank.trees])
            if not bank.trees:
                raise InputError(f"no sentence of at most {options.max_length} words in this file", path)
        sentences = as_sentences(bank.trees, None if options.tags else False)
        return LabelledData(sentences, bank, len(bank.trees), DataOptions(bank.format))

    @classmethod
    def dev_data(cls, path: str, options: ConstituentOptions, train: LabelledData) -> tuple[Any, Any]:
        bank = read_trees(path, options.format)
        return as_sentences(bank.trees, None if options.tags else False), bank

    def labelled(self, path: str) -> tuple[Any, Any]:
        format = self.options.format
        if format in ("text", "tagged"):
            raise InputError(f"--format {format} has no trees to compare with")
        trees = read_trees(path, format).trees
        return as_sentences(trees, self.estimator.has_tags_), trees

    def examples(self, X: Any, truths: Any) -> tuple[Any, Any]:
        words = by_sentence(X, X.forms)
        if X.tags is None:
            return words, truths
        tags = by_sentence(X, X.tags)
        return [list(zip(*pair, strict=True)) for pair in zip(words, tags, strict=True)], truths

    def scores(self, X: Any, truths: Any) -> Scores:
        found = tree_scores(self.estimator, getattr(truths, "trees", truths))
        main = {name: found[name] for name in ("f1", "precision", "recall", "exact_match", "tag_accuracy")}
        tags = "" if self.estimator.has_tags_ else f"  tags {100 * main['tag_accuracy']:.2f} %"
        words = f"dev F1 {100 * main['f1']:.2f}  exact {100 * main['exact_match']:.2f} %{tags}"
        return Scores(found, main, words, partial(show_scores, scores=found))

    def evidence(self, X: Any, truths: Any) -> Evidence:
        parsed = self.estimator.parse(X)
        scores = bracket_scores(truths, parsed.trees)
        shown = [
            ("labelled F1, as evalb counts", percent(scores.f1)),
            ("precision", percent(scores.precision)),
            ("recall", percent(scores.recall)),
            ("exact trees", percent(scores.exact_match)),
            ("tags", percent(scores.tag_accuracy)),
            ("sentences", f"{scores.n_sentences:,}"),
        ]
        rows = counted_labels(scores.per_label)
        true = [plain_spans(without_traces(tree) or tree) for tree in truths]
        mine = [plain_spans(tree) for tree in parsed.trees]
        errors = [len(a ^ b) for a, b in zip(true, mine, strict=True)]
        confused = confusions(*paired_labels(true, mine))
        found = Evidence(shown, rows, confused, np.array(errors, np.int64))
        if self.has_probabilities:
            found.predicted, found.every = self._span_parts(X, true, mine)
        return found

    def _span_parts(self, X: Any, true: list[set[Span]], mine: list[set[Span]]) -> tuple[Any, Any]:
        """Probabilities of constituents beside the truth; those below 0.0001 are left out."""
        chosen: list[tuple[float, bool]] = []
        every: list[tuple[float, bool]] = []
        for found, own_truth, own in zip(self.estimator.predict_marginals(X), true, mine, strict=True):
            for span, p in found.items():
                bare = span._replace(label=plain_label(span.label))
                every.append((p, bare in own_truth))
                if bare in own:
                    chosen.append(every[-1])
        return paired(chosen), paired(every)

    @classmethod
    def small_problems(cls) -> list[SmallProblem]:
        from partwise import ConstituencyParser

        X = [[("the", "D"), ("old", "A"), ("dog", "N"), ("barks", "V")], [("cats", "N"), ("sleep", "V")]] * 3
        trees = ["(S (NP (D the) (A old) (N dog)) (V barks))", "(S (NP (N cats)) (V sleep))"] * 3
        answers, splits = ("predict", "predict_marginals", "predict_kbest"), {"split_templates": "default"}
        rules = {"rule_templates": "default", "rule_threshold": 1e-4}
        return [
            SmallProblem("constituents", ConstituencyParser, {}, X, trees, answers[:2], True),
            SmallProblem("constituents with splits", ConstituencyParser, splits, X, trees, answers),
            SmallProblem("constituents with anchored rules", ConstituencyParser, rules, X, trees, answers),
        ]

    # -- predictions for files ------------------------------------------------------------------

    def check_wanted(self, wanted: Wanted) -> None:
        if wanted.marginals and not wanted.json and wanted.html is None:
            raise InputError(
                "--marginals gives probabilities of constituents, which only --json and --html can show"
            )
        super().check_wanted(wanted)

    def predictions(self, path: str, wanted: Wanted) -> Iterator[Write]:
        """What to write, as sentences arrive; the page is written after all of them."""
        drawn: list[tuple[list[Tree], Any, list[Tree] | None]] = []
        need_marginals = wanted.marginals or (wanted.html is not None and self.has_probabilities)
        for batch in self.batches(path):
            parsed = self.estimator.parse(batch.sentences)
            marginals = self.estimator.predict_marginals(batch.sentences) if need_marginals else None
            if wanted.html is not None:
                drawn.append((parsed.trees, marginals, batch.trees))
            yield partial(write_text, text=self._text(batch, parsed, marginals, wanted))
        if wanted.html is not None:
            self._draw(path, wanted.html, drawn)

    def batches(self, path: str) -> Iterator[SentenceBatch]:
        with open_binary(path) as handle:
            yield from stream_sentences(handle, path, self.options.format, self.estimator.has_tags_)

    def _text(self, batch: SentenceBatch, parsed: Any, marginals: Any, wanted: Wanted) -> str:
        trees = [_escaped(tree) for tree in parsed.trees]
        if not wanted.json:
            buffer = io.StringIO()
            write_trees(buffer, trees, batch.format)
            return buffer.getvalue()
        objects: list[dict[str, Any]] = [
            {"words": own.words(), "tree": str(tree), "fallback": bool(outside)}
            for own, tree, outside in zip(parsed.trees, trees, parsed.fallback, strict=True)
        ]
        if wanted.marginals:
            rows = ([[*span, round(p, 6)] for span, p in sorted(found.items())] for found in marginals)
            add_each(objects, "constituents", rows)
        if wanted.kbest > 1:
            ranked = self.estimator.predict_kbest(batch.sentences, wanted.kbest)
            shown = (
                self.valued(({"tree": str(_escaped(tree))}, value) for tree, value in best) for best in ranked
            )
            add_each(objects, "kbest", shown)
        return json_lines(objects)

    def _draw(self, path: str, page: str, drawn: list[Any]) -> None:
        from partwise.report.constituents import constituent_page

        trees = [tree for own, _, _ in drawn for tree in own]
        marginals = [each for _, own, _ in drawn for each in own] if self.has_probabilities else None
        gold = [tree for _, _, own in drawn if own is not None for tree in own]
        title = f"Constituent trees of {path}"
        text = constituent_page(
            trees, marginals=marginals, gold=gold if len(gold) == len(trees) and trees else None, title=title
        )
        write_page_to(page, text)

    # -- one example ----------------------------------------------------------------------------

    def answer(self, x: Any, truth: Tree | None = None, kbest: int = 3) -> dict[str, Any]:
        parsed = self.estimator.parse([x])
        tree, is_substitute = parsed.trees[0], bool(parsed.fallback[0])
        marginals = self.estimator.predict_marginals([x])[0] if self.has_probabilities else None
        found: dict[str, Any] = {
            "kind": self.kind,
            "tokens": tree.words(),
            "labels": [tag.label for tag in tree.tags()],
            "nodes": nodes_of(tree, None if is_substitute else marginals),
            "tree": str(tree),
        }
        if truth is not None:
            bare = without_traces(truth) or truth
            found["truth"] = [tag.label for tag in bare.tags()]
            found["true_spans"] = [list(span) for span in sorted(plain_spans(bare))]
        if marginals is not None:
            ordered = sorted(marginals.items(), key=lambda each: -each[1])
            found["span_marginals"] = [[*span, round(p, 6)] for span, p in ordered]
        found["kbest"] = self.valued(
            ({"tree": str(each), "nodes": nodes_of(each)}, value)
            for each, value in self.estimator.predict_kbest([x], kbest)[0]
        )
        if is_substitute:
            return found | {"note": "the grammar has no tree of this sentence; this is a substitute"}
        try:
            return found | self.why(x)
        except InputError as error:  # words may have tags that were not in training
            return found | {"note": f"not explained: {error}"}

    def terms(self, explanation: Any) -> Iterable[Term]:
        return (
            Term(term.first, term.end, term.feature, term.label, term.contribution)
            for term in explanation.terms
        )

    def shown_rival(self, against: Any) -> str:
        return str(against)

    def read(self, request: dict[str, Any]) -> Any:
        return read_sentence(request, self.estimator.has_tags_)

    def expects(self) -> dict[str, str]:
        return expected_words(self.estimator.has_tags_)


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
