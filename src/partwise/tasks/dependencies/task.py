"""Dependency trees for the command line, reports and the server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.data import open_binary, read_dependencies, stream_dependencies, write_dependencies
from partwise.data.dependency_text import FORMATS
from partwise.report.output import write_page_to, write_text
from partwise.scoring.attachment import attachment_scores
from partwise.tasks.dependencies.options import DependencyOptions
from partwise.tasks.dependencies.page import expected_words, heads_by_probability, read_sentence, tags_of
from partwise.tasks.dependencies.scores import show_scores, tree_scores
from partwise.tasks.options import DataOptions
from partwise.tasks.page import Evidence, confusions, counted_labels, percent
from partwise.tasks.task import LabelledData, Scores, SmallProblem, Task, Wanted, Write, add_each, json_lines

if TYPE_CHECKING:
    from partwise.data import DependencyCorpus


class DependencyTrees(Task):
    """Parsing of sentences into dependency trees.

    X and one example are a `DependencyCorpus`, which also holds the true trees if they are known.
    """

    command, kind = "dependency", "trees"
    formats = FORMATS
    rereads_format = draws_trees = True
    longest = 200

    # -- labelled files -------------------------------------------------------------------------

    @classmethod
    def training_data(cls, path: str, options: DependencyOptions) -> LabelledData:
        data = read_dependencies(path, options.format, single_root=options.single_root == "yes")
        found = DataOptions(data.source.format if data.source else "auto")
        return LabelledData(data, None, data.n_sentences, found)

    @classmethod
    def dev_data(cls, path: str, options: DependencyOptions, train: LabelledData) -> tuple[Any, Any]:
        return read_dependencies(path, options.format), None

    def labelled(self, path: str) -> tuple[Any, Any]:
        corpus = read_dependencies(path, self.options.format)
        return corpus, corpus.heads

    def pick(self, X: DependencyCorpus, truths: Any, i: int) -> tuple[Any, Any]:
        return X.subset(np.array([i])), truths

    def scores(self, X: DependencyCorpus, truths: Any) -> Scores:
        found = tree_scores(self.estimator, X)
        main = {name: found[name] for name in ("uas", "las", "uas_no_punctuation", "las_no_punctuation")}
        bare = f"without punctuation {100 * main['uas_no_punctuation']:.2f}"
        labelled = "" if main["las"] is None else f"  LAS {100 * main['las']:.2f}"
        words = f"dev UAS {100 * main['uas']:.2f}{labelled}  ({bare})"
        return Scores(found, main, words, partial(show_scores, scores=found))

    def evidence(self, X: DependencyCorpus, truths: Any) -> Evidence:
        parsed = self.estimator.parse(X)
        scores = attachment_scores(X, parsed.heads, parsed.relations)
        bare = attachment_scores(X, parsed.heads, parsed.relations, punctuation=False)
        shown = [(name, percent(rate)) for name, _, _, rate in scores.rows()]
        shown.append(("UAS without punctuation", percent(bare.uas)))
        rows = counted_labels(scores.per_relation)
        wrong = X.heads != parsed.heads
        relations, missing = None, []
        if parsed.relations is not None and X.relations is not None:
            relations = confusions([X.relations], [parsed.relations])
            wrong |= np.array(X.relations, object) != np.array(parsed.relations, object)
        else:
            missing.append("no confusions of relations: the trees have none")
        errors = np.add.reduceat(wrong.astype(np.int64), X.sentence_ptr[:-1])
        found = Evidence(shown, rows, relations, errors, missing=missing)
        if self.has_probabilities:
            found.predicted, found.every = self._arc_parts(X, parsed.heads)
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

    @classmethod
    def small_problems(cls) -> list[SmallProblem]:
        from partwise import DependencyParser

        words = [
            [("the", "D"), ("old", "A"), ("dog", "N"), ("barks", "V")],
            [("cats", "N"), ("sleep", "V")],
        ] * 3
        X = [[{"form": form, "coarse_tag": tag, "fine_tag": tag} for form, tag in each] for each in words]
        heads = [[3, 3, 4, 0], [2, 0]] * 3
        trees = [([3, 3, 4, 0], ["det", "mod", "subj", "root"]), ([2, 0], ["subj", "root"])] * 3
        answers = ("predict", "predict_marginals", "predict_kbest")
        order_2 = {"structure": "projective", "order": 2}
        return [
            SmallProblem("dependency trees", DependencyParser, {}, X, trees, answers[:2], True),
            SmallProblem(
                "pruned dependency trees", DependencyParser, {"prune": 2}, X, trees, answers[:2], True
            ),
            SmallProblem(
                "projective trees", DependencyParser, {"structure": "projective"}, X, heads, answers
            ),
            SmallProblem("spanning trees", DependencyParser, {}, X, heads, answers),
            SmallProblem("second-order trees", DependencyParser, order_2, X, heads, answers),
        ]

    # -- predictions for files ------------------------------------------------------------------

    def predictions(self, path: str, wanted: Wanted) -> Iterator[Write]:
        if wanted.html is not None:
            yield self._drawn(path, wanted.html, wanted)
            return
        with open_binary(path) as handle:
            for corpus in stream_dependencies(handle, self.options.format, path=path):
                if corpus.n_sentences:
                    yield partial(write_text, text=self.text(corpus, wanted))
                elif not wanted.json:
                    yield partial(write_dependencies, corpus=corpus)

    def text(self, batch: DependencyCorpus, wanted: Wanted) -> str:
        parsed = self.estimator.parse(batch)
        probabilities = self.estimator.arc_probabilities(batch, parsed.heads) if wanted.marginals else None
        return self._text(batch, parsed, probabilities, wanted)

    def _drawn(self, path: str, page: str, wanted: Wanted) -> Write:
        """Draw a whole file on a page: arcs by probability, wrong arcs marked."""
        from partwise.report.trees import tree_page

        corpus = read_dependencies(path, self.options.format, need_heads=False)
        parsed = self.estimator.parse(corpus)
        probabilities = None
        if self.has_probabilities:
            probabilities = self.estimator.arc_probabilities(corpus, parsed.heads)
        title = f"Dependency trees of {path}"
        drawn = tree_page(corpus, parsed.heads, parsed.relations, marginals=probabilities, title=title)
        write_page_to(page, drawn)
        shown = probabilities if wanted.marginals else None
        return partial(write_text, text=self._text(corpus, parsed, shown, wanted))

    def _text(
        self, corpus: DependencyCorpus, parsed: DependencyCorpus, probabilities: Any, wanted: Wanted
    ) -> str:
        if not wanted.json:
            return rewritten(corpus, parsed, probabilities)
        heads, forms = parsed.split(parsed.heads.tolist()), parsed.split(parsed.forms)
        objects = [{"forms": words, "heads": own} for words, own in zip(forms, heads, strict=True)]
        if parsed.relations is not None:
            add_each(objects, "relations", parsed.split(parsed.relations))
        if probabilities is not None:
            add_each(objects, "probabilities", parsed.split(probabilities.round(6).tolist()))
        if wanted.kbest > 1:
            ranked = self.estimator.predict_kbest(corpus, wanted.kbest)
            names = ("heads", "relations")
            add_each(objects, "kbest", (self.valued(self._trees(found, names)) for found in ranked))
        return json_lines(objects)

    def _trees(self, found: Any, names: tuple[str, str]) -> Iterator[tuple[dict[str, Any], float]]:
        """Trees as objects with heads and, if the parser has relations, relations under these names."""
        for tree, value in found:
            if self.estimator.relations_:
                yield {names[0]: tree[0].tolist(), names[1]: list(tree[1])}, value
            else:
                yield {names[0]: tree.tolist()}, value

    # -- one example ----------------------------------------------------------------------------

    def answer(self, x: DependencyCorpus, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        parsed = self.estimator.parse(x)
        found: dict[str, Any] = {
            "kind": self.kind,
            "tokens": list(x.forms),
            "columns": [[tag] for tag in tags_of(x)],
            "heads": parsed.heads.tolist(),
            "labels": [""] * parsed.n_words if parsed.relations is None else list(parsed.relations),
        }
        if truth is not None:
            found["true_heads"] = x.heads.tolist()
            if x.relations is not None and self.estimator.relations_:
                found["truth"] = list(x.relations)
        if self.has_probabilities:
            found["marginals"] = heads_by_probability(self.estimator.predict_marginals(x)[0])
        ranked = self.estimator.predict_kbest(x, kbest)[0]
        found["kbest"] = self.valued(self._trees(ranked, ("heads", "labels")))
        return found | self.why(x)

    def shown_rival(self, against: Any) -> list[int]:
        return [head for head, _ in against or []]

    def size(self, x: DependencyCorpus) -> int:
        return x.n_words

    def read(self, request: dict[str, Any]) -> DependencyCorpus:
        return read_sentence(request)

    def expects(self) -> dict[str, str]:
        return expected_words(self.estimator._encoder.arcs)


def rewritten(corpus: DependencyCorpus, parsed: DependencyCorpus, probabilities: np.ndarray | None) -> str:
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
