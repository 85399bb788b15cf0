"""A task of your own in one file: labels of words, in which equal words of a sentence inform each other.

In a skip chain (Sutton and McCallum, 2004), neighbouring words are joined as in any chain, and each long word is also
joined to its next occurrence. The structure is a graph, which partwise has. This file says how sentences become graphs
(`SkipChainLabeler`) and how files are read and written (`SkipChains`). Both work in Python, on the command line, in
reports and in the server:

    python skip_chain.py train skip-chain train.txt --model skip.model
    python skip_chain.py predict skip.model new.txt
    python skip_chain.py report skip.model --data test.txt --output report.html
    python skip_chain.py serve skip.model
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from partwise import GraphLabeler
from partwise.cli import main
from partwise.data import GraphExample, decode, open_binary, read_tagged
from partwise.data.conll import whole_lines
from partwise.data.tagged import as_tagged, words_of_lines
from partwise.errors import InputError
from partwise.tasks import register
from partwise.tasks.labels import LabelTask
from partwise.tasks.options import DataOptions, FormatOption, option
from partwise.tasks.page import text_or
from partwise.tasks.task import LabelledData, Wanted, json_lines


@dataclass(eq=False, repr=False, kw_only=True)
class SkipChainLabeler(GraphLabeler):
    """Labels of words, in chains in which long words are also joined to their next occurrence.

    X is a list of sentences, each a list of words.

    Parameters
    ----------
    min_letters : int
        Words with at least so many letters are joined.
    """

    _task = "skip_chains"
    min_letters: int = 4

    def _examples(self, X: Any) -> list[GraphExample]:
        return [x if isinstance(x, GraphExample) else self._graph(x) for x in X]

    def _graph(self, words: list[str]) -> GraphExample:
        edges, kinds, last = [], [], dict[str, int]()
        for t, word in enumerate(words):
            if t:
                edges.append((t - 1, t))
                kinds.append("next")
            if len(word) >= self.min_letters:
                if last.get(word, t) < t - 1:
                    edges.append((last[word], t))
                    kinds.append("same word")
                last[word] = t
        around = ["", *(word.lower() for word in words), ""]
        features = [
            {
                "before": around[t],
                "word": around[t + 1],
                "after": around[t + 2],
                "capital": word[:1].isupper(),
            }
            for t, word in enumerate(words)
        ]
        return GraphExample(features, edges, edge_kinds=kinds)


@dataclass
class SkipChainOptions(FormatOption):
    """Train a labeler of words on text with a sentence a line, written word/TAG word/TAG ...

    Words with many letters are joined to their next occurrence in the sentence.
    """

    min_letters: int = option(4, "Letters from which on a word is joined to its next occurrence.", min=1)
    min_count: int = option(1, "Drop features seen less often.")


class SkipChains(LabelTask):
    """Labelling of words; X is a list of lists of words."""

    command, kind, nouns = "skip-chain", "sequences", ("sentences", "words")
    formats = ("tagged",)

    @classmethod
    def read_labelled(cls, path: str, options: DataOptions, purpose: str) -> LabelledData:
        data = read_tagged(path)
        return LabelledData(data.column_sequences(), data.label_sequences(), data.n_sequences, options)

    def batches(self, path: str) -> Iterator[list[list[str]]]:
        with open_binary(path) as handle:
            for block in whole_lines(handle, 1000, path):
                if sentences := words_of_lines(decode(block, path)):
                    yield sentences

    def text(self, batch: list[list[str]], wanted: Wanted) -> str:
        if wanted.json or wanted.marginals or wanted.kbest > 1:
            return json_lines(self.predicted([{"tokens": words} for words in batch], batch, wanted))
        return "".join(
            " ".join(map(as_tagged, words, labels)) + "\n"
            for words, labels in zip(batch, self.labels(batch), strict=True)
        )

    def read(self, request: dict[str, Any]) -> list[str]:
        words = text_or(request, "tokens")
        words = request["text"].split() if words is None else words
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise InputError('"tokens" must be a list of words with at least one entry')
        return words

    def expects(self) -> dict[str, str]:
        return {"format": "words, with spaces between them", "example": "Green met Miller before Green spoke"}


register("skip_chains", SkipChains, SkipChainOptions, SkipChainLabeler)

if __name__ == "__main__":
    main()
