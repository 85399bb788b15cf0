"""One dependency tree on pages: its words, its probable heads, and what people type."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.data import DependencyCorpus, corpus_from_sentences
from partwise.data.dependency import parse_dependencies
from partwise.errors import InputError
from partwise.tasks.page import text_or

# Pages show at most so many heads of a word, and none that is less probable.
_MOST_HEADS, _LEAST_SHOWN = 8, 0.001
_COLUMNS = ("form", "coarse_tag", "fine_tag", "lemma", "feats")
_EXAMPLE = [
    ("the", "DET", "DT"), ("old", "ADJ", "JJ"), ("man", "NOUN", "NN"), ("saw", "VERB", "VBD"), ("a", "DET", "DT"),
    ("dog", "NOUN", "NN"),
]  # fmt: skip


def tags_of(corpus: DependencyCorpus) -> list[str]:
    return corpus.coarse_tags if set(corpus.coarse_tags) != {"_"} else corpus.fine_tags


def heads_by_probability(matrix: np.ndarray) -> list[list[list[Any]]]:
    """The most probable heads of each word with their probabilities; 0 is the root."""
    order = np.argsort(-matrix, axis=0, kind="stable")[:_MOST_HEADS]
    return [
        [
            [int(head), round(float(matrix[head, word]), 6)]
            for head in order[:, word]
            if matrix[head, word] >= _LEAST_SHOWN
        ]
        for word in range(1, len(matrix))
    ]


def read_sentence(request: dict[str, Any]) -> DependencyCorpus:
    """The sentence of a request."""
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
        columns["fine_tags"] = columns["coarse_tags"]  # there is only one tag
    return corpus_from_sentences(columns.pop("forms"), **columns)


def _one_sentence(corpus: DependencyCorpus) -> DependencyCorpus:
    if corpus.n_sentences != 1:
        raise InputError(f"one sentence at a time; these are {corpus.n_sentences}")
    return corpus


def expected_words(features: Any) -> dict[str, str]:
    """How a person writes a sentence for these arc features, and an example."""
    tags, coarse = (set(features.known_values(source)) for source in ("tag", "coarse"))
    # If training data had two tags per word, the coarse tags differ from the fine ones.
    has_both = bool(coarse) and bool(tags) and coarse != tags
    penn = "NN" in tags and not has_both
    columns = slice(0, 3) if has_both else slice(0, 3, 2) if penn else slice(0, 2)
    names = "word, coarse tag, fine tag" if has_both else "word, tag"
    return {
        "format": f"one word a line: {names}, perhaps lemma and features, with tabs or spaces between them; or "
        "lines of CoNLL-U",
        "example": "\n".join("\t".join(row[columns]) for row in _EXAMPLE),
    }
