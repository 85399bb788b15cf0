"""Dependency trees: arcs with their probabilities, the best trees, and why a word has its head."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from partwise.data import DependencyCorpus, corpus_from_sentences
from partwise.data.dependency import parse_dependencies
from partwise.errors import InputError
from partwise.scoring.attachment import attachment_scores
from partwise.scoring.metrics import confusion
from partwise.tasks.page import (
    Evidence,
    Explorer,
    LabelRow,
    difference,
    percent,
    shortened,
    shown_terms,
    term_of,
    text_or,
)

_FEWEST, _MOST_HEADS = 0.001, 8
_COLUMNS = ("form", "coarse_tag", "fine_tag", "lemma", "feats")
_EXAMPLE = [
    ("the", "DET", "DT"), ("old", "ADJ", "JJ"), ("man", "NOUN", "NN"), ("saw", "VERB", "VBD"), ("a", "DET", "DT"),
    ("dog", "NOUN", "NN"),
]  # fmt: skip


class TreeExplorer(Explorer):
    """An example is a corpus of one sentence, which holds its true tree where that is known."""

    kind = "trees"
    longest = 200

    def answer(self, x: DependencyCorpus, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        parsed = self.estimator.parse(x)
        found: dict[str, Any] = {
            "kind": self.kind,
            "tokens": list(x.forms),
            "columns": [[tag] for tag in _tags(x)],
            "heads": parsed.heads.tolist(),
            "labels": self._relations(parsed),
        }
        if truth is not None:
            found["true_heads"] = x.heads.tolist()
            if x.relations is not None and self.estimator.relations_:
                found["truth"] = list(x.relations)
        if self.has_probabilities:
            found["marginals"] = _heads_by_probability(self.estimator.predict_marginals(x)[0])
        found["kbest"] = [
            {**self._tree(tree), self.value_name(): float(value)}
            for tree, value in self.estimator.predict_kbest(x, kbest)[0]
        ]
        explained = self.estimator.explain(x)
        found |= {"score": explained.score, "terms": shown_terms(map(term_of, explained.contributions))}
        with suppress(InputError):  # where there is no other tree
            other = self.estimator.explain(x, against="runner-up")
            heads = [head for head, _ in other.against or []]
            found["against"] = difference(heads, other.score, map(term_of, other.contributions))
        return found

    def _relations(self, parsed: DependencyCorpus) -> list[str]:
        return [""] * parsed.n_words if parsed.relations is None else list(parsed.relations)

    def _tree(self, tree: Any) -> dict[str, Any]:
        if self.estimator.relations_:
            return {"heads": tree[0].tolist(), "labels": list(tree[1])}
        return {"heads": tree.tolist()}

    def pick(self, inputs: DependencyCorpus, truths: Any, i: int) -> tuple[Any, Any]:
        return inputs.subset(np.array([i])), truths

    def evidence(self, inputs: DependencyCorpus, truths: Any) -> Evidence:
        parsed = self.estimator.parse(inputs)
        scores = attachment_scores(inputs, parsed.heads, parsed.relations)
        bare = attachment_scores(inputs, parsed.heads, parsed.relations, punctuation=False)
        shown = [(name, percent(rate)) for name, _, _, rate in scores.rows()]
        shown.append(("unlabelled attachment without punctuation", percent(bare.uas)))
        rows = [
            LabelRow(shortened(name), counts.precision, counts.recall, counts.f1, counts.n_true)
            for name, counts in scores.per_relation.items()
        ]
        wrong = inputs.heads != parsed.heads
        relations, missing = None, []
        if parsed.relations is not None and inputs.relations is not None:
            names, matrix = confusion([inputs.relations], [parsed.relations])
            relations = [shortened(name) for name in names], matrix
            wrong |= np.array(inputs.relations, object) != np.array(parsed.relations, object)
        else:
            missing.append("no confusions of relations: the trees have none")
        errors = np.add.reduceat(wrong.astype(np.int64), inputs.sentence_ptr[:-1])
        found = Evidence(shown, rows, relations, errors, missing=missing)
        if self.has_probabilities:
            found.predicted, found.every = self._arc_parts(inputs, parsed.heads)
        return found

    def _arc_parts(self, corpus: DependencyCorpus, heads: np.ndarray) -> tuple[Any, Any]:
        """Probabilities of arcs beside the truth: of those predicted, and of all."""
        chosen, every, is_true = [], [], []
        begin = 0
        for matrix in self.estimator.predict_marginals(corpus):
            n = len(matrix) - 1
            words = np.arange(n)
            chosen.append(matrix[heads[begin : begin + n], words + 1])
            every.append(matrix[:, 1:].T.reshape(-1))
            true = np.zeros((n, n + 1), bool)
            true[words, corpus.heads[begin : begin + n]] = True
            is_true.append(true.reshape(-1))
            begin += n
        right = heads == corpus.heads
        return (np.concatenate(chosen), right), (np.concatenate(every), np.concatenate(is_true))

    def size(self, x: DependencyCorpus) -> int:
        return x.n_words

    def read(self, request: dict[str, Any]) -> DependencyCorpus:
        value = text_or(request, "tokens")
        if value is None:
            text = request["text"]
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
            if lines and len(lines[0].split("\t")) >= 8:
                corpus = parse_dependencies(text.strip("\n") + "\n\n", need_heads=False)
                return _one_sentence(corpus)
            value = [line.split("\t") if "\t" in line else line.split() for line in lines]
        if not isinstance(value, list) or not value:
            raise InputError('"tokens" must be a list of words with at least one entry')
        rows = [[row] if isinstance(row, str) else row for row in value]
        for t, row in enumerate(rows):
            strings = isinstance(row, list) and all(isinstance(cell, str) and cell for cell in row)
            if not strings or not 1 <= len(row) <= len(_COLUMNS):
                names = ", ".join(_COLUMNS)
                raise InputError(f'"tokens"[{t}] must be a word, or a list of strings: {names}')
        columns: dict[str, Any] = {
            f"{name}s" if name != "feats" else name: [[(row + ["_"] * 5)[k] for row in rows]]
            for k, name in enumerate(_COLUMNS)
        }
        if columns["fine_tags"] == [["_"] * len(rows)]:
            columns["fine_tags"] = columns["coarse_tags"]  # one tag is all there is
        return corpus_from_sentences(columns.pop("forms"), **columns)

    def expects(self) -> dict[str, str]:
        features = self.estimator._encoder.arcs
        tags, coarse = (set(features.known_values(source)) for source in ("tag", "coarse"))
        # Where words had two tags, coarse ones are another set than those called tags.
        has_both = bool(coarse) and bool(tags) and coarse != tags
        penn = "NN" in tags and not has_both
        columns = slice(0, 3) if has_both else slice(0, 3, 2) if penn else slice(0, 2)
        names = "word, coarse tag, fine tag" if has_both else "word, tag"
        return {
            "format": f"one word a line: {names}, perhaps lemma and features, with tabs or spaces between them; or "
            "lines of CoNLL-U",
            "example": "\n".join("\t".join(row[columns]) for row in _EXAMPLE),
        }


def _tags(corpus: DependencyCorpus) -> list[str]:
    return corpus.coarse_tags if set(corpus.coarse_tags) != {"_"} else corpus.fine_tags


def _heads_by_probability(matrix: np.ndarray) -> list[list[list[Any]]]:
    """Of every word its most probable heads with their probabilities; 0 is the root."""
    order = np.argsort(-matrix, axis=0, kind="stable")[:_MOST_HEADS]
    return [
        [
            [int(head), round(float(matrix[head, word]), 6)]
            for head in order[:, word]
            if matrix[head, word] >= _FEWEST
        ]
        for word in range(1, len(matrix))
    ]


def _one_sentence(corpus: DependencyCorpus) -> DependencyCorpus:
    if corpus.n_sentences != 1:
        raise InputError(f"one sentence at a time; these are {corpus.n_sentences}")
    return corpus
