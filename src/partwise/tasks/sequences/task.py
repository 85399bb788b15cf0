"""Labelled sequences for the command line, reports and the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from partwise.data import FORMATS
from partwise.data.conll import Columns
from partwise.data.running_text import Splitter
from partwise.errors import InputError
from partwise.estimators.checks import check_choice
from partwise.estimators.entities import DECODERS, Entity
from partwise.report.output import write_text
from partwise.report.probabilities import as_text
from partwise.scoring.entity_scores import EntityScores
from partwise.tasks.entity_output import entity_column, entity_objects
from partwise.tasks.labels import LabelTask
from partwise.tasks.options import DataOptions
from partwise.tasks.page import Evidence, percent
from partwise.tasks.sequences.options import (
    EncodeOptions,
    SequenceFileOptions,
    preset_for,
    template_note,
)
from partwise.tasks.sequences.page import expected_text, facts_of, other_columns, read_request, words_of
from partwise.tasks.sequences.reading import (
    PredictionBatch,
    SequenceFile,
    check_kind,
    check_label_column,
    read_sequences,
    stream_predictions,
    stream_text,
)
from partwise.tasks.task import LabelledData, SmallProblem, Wanted, Write, add_each, json_lines

_MOST_BLANK = 100  # columns of a document line that comes without sequences: it may be one for each labelling


class Sequences(LabelTask):
    """Labelling of sequences."""

    command, kind, nouns = "sequence", "sequences", ("sequences", "tokens")
    formats, finds_entities = FORMATS, True

    # -- labels ---------------------------------------------------------------------------------

    def decoded(self, X: Any, decode: str) -> list[list[str]]:
        if decode == "viterbi":
            return self.labels(X)
        return [list(map(str, own)) for own in self.estimator.predict(X, decode=decode)]

    def entities(self, X: Any, wanted: Wanted) -> list[list[Entity]]:
        """The entities of every sequence."""
        return self.estimator.predict_entities(X, wanted.threshold, wanted.decode, risk=wanted.risk)

    def check_wanted(self, wanted: Wanted) -> None:
        super().check_wanted(wanted)
        if wanted.entities:
            self.estimator.predict_entities([], wanted.threshold, wanted.decode, risk=wanted.risk)  # raises
        check_choice("--decode", wanted.decode, DECODERS)
        encoder = self.token_encoder()
        if wanted.text and (encoder.kind != "columns" or encoder.node.n_columns != 1):
            raise InputError("--text gives words alone; this model needs more than words", self.model)

    def tokens(self, x: Any) -> list[str]:
        return words_of(x)

    def extras(self, x: Any) -> dict[str, Any]:
        columns = other_columns(x)
        return {"columns": columns} if columns else {}

    # -- labelled files -------------------------------------------------------------------------

    @classmethod
    def training_data(cls, path: str, options: SequenceFileOptions) -> LabelledData:
        separator = getattr(options, "alternatives", None)
        data, template = _read(path, options.data(), options.template, "training", separator)
        note = None if template is None else template_note(template, options.template is None)
        parameters = {"template": template}
        return LabelledData(
            data.x, data.y, data.n_sequences, data.options, data.weights, parameters, note, facts_of(data)
        )

    @classmethod
    def dev_data(cls, path: str, options: SequenceFileOptions, train: LabelledData) -> tuple[Any, Any]:
        data, _ = _read(path, train.options, options.template, "--dev")
        if not all(label is None or isinstance(label, str) for label in data.labels()):
            raise InputError("some positions have several labels; --dev needs one, or none", path)
        return data.x, data.label_sequences()

    def labelled(self, path: str) -> tuple[Any, Any]:
        data = read_sequences(path, self.options)
        check_kind(self.estimator, data.x, path)
        if not data.has_labels or not all(isinstance(label, str) for label in data.labels()):
            raise InputError(
                "some positions have no label, or several; evaluation needs one everywhere", path
            )
        return data.x, data.label_sequences()

    def examples(self, X: Any, truths: Any) -> tuple[Any, Any]:
        if isinstance(X, Columns):
            X = X.column_sequences() if len(X.columns) == 1 else X.row_sequences()
        pairs = [(x, y) for x, y in zip(X, truths, strict=True) if len(x)]
        return [x for x, _ in pairs], [y for _, y in pairs]

    @classmethod
    def encode(
        cls, path: str, output: str, options: EncodeOptions, tell: Callable[[str, int], None]
    ) -> tuple[NamedTuple, str, DataOptions]:
        from partwise.estimators.encoders import read_template
        from partwise.features.vocabulary import check_vocabulary_settings
        from partwise.tasks.sequences.encoding import SequenceBatch, encode_sequences
        from partwise.tasks.sequences.streaming import LabelledStream

        template = options.template
        check_vocabulary_settings(options.min_count, options.hash_size)
        if template is not None:
            read_template(template)  # raises before hours of reading
        stream = LabelledStream(path, options.data())

        def batches() -> Iterator[SequenceBatch]:
            for batch in stream:
                if template is not None and not batch.is_columns:
                    raise _no_columns(path)
                yield batch

        def choose(counts: Mapping[str, int], n_columns: int) -> str:
            return preset_for(counts, n_columns) if template is None else template

        def header() -> dict[str, Any]:
            return {"data": stream.options.as_dict(), "source": path}

        done = encode_sequences(batches(), output, choose, options.parameters(), header, tell)
        sizes = f"{done.n_examples:,} sequences, {done.n_positions:,} positions, {done.n_labels:,} labels"
        sizes += f", {done.n_attributes:,} attributes, {done.n_weights:,} weights"
        if done.template:
            sizes += f"; {template_note(done.template, template is None)}"
        return done, sizes, stream.options

    @classmethod
    def small_problems(cls) -> list[SmallProblem]:
        from partwise import KernelSequenceLabeler, SequenceLabeler

        words, chunks = small_sentences()
        points = [[[0.0, 1.0], [1.0, 0.5], [0.5, 0.0]], [[1.0, 1.0], [0.0, 0.5]]] * 3
        labels = [["a", "b", "a"], ["b", "a"]] * 3
        answers = ("predict", "predict_marginals")
        every = (*answers, "predict_kbest", "sample", "predict_edge_marginals")
        edges = {"template": "columns: word tag\nword[0]\nedge: tag[0]"}
        order_2 = {"template": "pos", "order": 2}
        return [
            SmallProblem(
                "sequences", SequenceLabeler, {"template": "chunking"}, words, chunks, answers, True
            ),
            SmallProblem(
                "sequences with k best", SequenceLabeler, {"template": "chunking"}, words, chunks, every
            ),
            SmallProblem("sequences of vectors", SequenceLabeler, {}, points, labels, every),
            SmallProblem("sequences with edge features", SequenceLabeler, edges, words, chunks, every),
            SmallProblem("second-order sequences", SequenceLabeler, order_2, words, chunks, every),
            SmallProblem("kernel sequences", KernelSequenceLabeler, {}, points, labels, answers),
            SmallProblem(
                "kernel edges", KernelSequenceLabeler, {"edges": "kernel"}, points, labels, ("predict",)
            ),
        ]

    # -- predictions for files ------------------------------------------------------------------

    def predictions(self, path: str, wanted: Wanted) -> Iterator[Write]:
        found = stream_text(path, self.splitter) if wanted.text else stream_predictions(path, self.options)
        for batch in found:
            if not batch.tokens:
                if batch.format == "conll" and not wanted.json:
                    yield partial(
                        batch.write,
                        columns=[[]] * (min(wanted.kbest, _MOST_BLANK) + wanted.marginals + wanted.entities),
                    )
                continue
            check_kind(self.estimator, batch.x, path)
            if wanted.json or batch.format == "jsonl":
                yield partial(write_text, text=json_lines(self.objects(batch, wanted)))
            else:
                yield partial(batch.write, columns=self._columns(batch, wanted))

    def _columns(self, batch: PredictionBatch, wanted: Wanted) -> list[list[Any]]:
        if wanted.kbest == 1:
            columns: list[list[Any]] = [self.decoded(batch.x, wanted.decode)]
        else:
            found = self.kbest(batch.x, wanted.kbest)
            columns = [  # a short sequence has fewer labellings, and then fewer columns
                [own[rank][0] if rank < len(own) else [None] * len(own[0][0]) for own in found]
                for rank in range(max(map(len, found)))
            ]
        if wanted.marginals:
            columns.append([list(map(as_text, each)) for each in self.marginals(batch.x)])
        if wanted.entities:
            pairs = zip(self.entities(batch.x, wanted), batch.tokens, strict=True)
            columns.append([entity_column(own, len(tokens)) for own, tokens in pairs])
        return columns

    def objects(self, batch: PredictionBatch, wanted: Wanted) -> list[dict[str, Any]]:
        """The sequences of a batch as JSON objects, with predictions."""
        others: list[dict[str, Any]] = batch.others or [{}] * len(batch.tokens)
        objects = [
            {**known, ("tokens" if isinstance(tokens[0], str) else "features"): tokens}
            for known, tokens in zip(others, batch.tokens, strict=True)
        ]
        objects = self.predicted(objects, batch.x, wanted)
        if wanted.entities:
            rows = zip(self.entities(batch.x, wanted), batch.tokens, others, strict=True)
            add_each(objects, "entities", [entity_objects(*row) for row in rows])
        return objects

    # -- one example ----------------------------------------------------------------------------

    def token_encoder(self) -> Any:
        """What encodes positions."""
        return self.estimator._encoder

    def evidence(self, X: Any, truths: Any) -> Evidence:
        found = super().evidence(X, truths)
        if self.has_probabilities:
            with suppress(InputError):  # labels may mark no entities
                scores = self.entity_scores(X, truths)
                found.scores.append(("calibration error of entities", percent(scores.expected_error)))
        return found

    def entity_scores(self, X: Any, truths: Any) -> EntityScores:
        """Probabilities of entities beside the truth."""
        return self.estimator.entity_scores(X, truths)

    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        found = super().answer(x, truth, kbest)
        if self.has_probabilities:
            with suppress(InputError):  # labels may mark no entities
                [own] = self.estimator.predict_entities(self.alone(x))
                found["entities"] = entity_objects(own, self.tokens(x))
        return found

    def read(self, request: dict[str, Any]) -> Any:
        return read_request(request, self.token_encoder(), self.splitter)

    def expects(self) -> dict[str, str]:
        own, found = self.trained.get("example"), expected_text(self.token_encoder())
        if isinstance(own, str):
            with suppress(InputError):  # a damaged file may hold anything
                self.read({"text": own})
                found["example"] = own
        return found

    @property
    def splitter(self) -> Splitter:
        """How running text becomes tokens."""
        return Splitter.of(self.trained.get("text"))


def _read(
    path: str, options: DataOptions, template: str | None, purpose: str, alternatives: str | None = None
) -> tuple[SequenceFile, str | None]:
    """The data, and the template if one makes the features."""
    data = read_sequences(path, options)
    if not data.is_columns and template is not None:
        raise _no_columns(path)
    if not data.has_labels:
        raise InputError(f"no labels in this file; {purpose} needs them", path)
    data = data.with_alternatives(alternatives, path)
    check_label_column(data, path)
    if data.is_columns and template is None:
        template = preset_for(data.every_label(), data.options.n_columns)
    return data, template


def _no_columns(path: str) -> InputError:
    return InputError("--template needs columns; this file holds ready-made features", path)


def small_sentences() -> tuple[list[list[list[str]]], list[list[str]]]:
    """Two kinds of sentences, of words with tags, and their chunks."""
    words = [[["the", "D"], ["old", "A"], ["dog", "N"], ["barks", "V"]], [["cats", "N"], ["sleep", "V"]]] * 3
    return words, [["B-NP", "I-NP", "I-NP", "O"], ["B-NP", "O"]] * 3
