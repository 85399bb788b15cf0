"""Sequences for the commands: predictions as they arrive, scores of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from partwise.data.conll import Columns
from partwise.errors import InputError
from partwise.report.output import write_lines
from partwise.report.probabilities import Distribution, as_text, distributions
from partwise.tasks.sequences.reading import (
    PredictionBatch,
    SequenceFile,
    check_kind,
    read_sequences,
    stream_predictions,
)
from partwise.tasks.task import Evaluation, Task, Wanted, Write


class Sequences(Task):
    """Labelling of sequences."""

    def _labels(self, x: Any) -> list[list[Any]]:
        """The predicted labels of every sequence."""
        return [list(labels) for labels in self.estimator.predict(x)]

    def _kbest(self, x: Any, k: int) -> list[list[tuple[list[Any], float]]]:
        """The k best labellings of every sequence."""
        return self.estimator.predict_kbest(x, k=k)

    def _answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        for batch in stream_predictions(path, self.options):
            if not batch.tokens:
                if batch.format == "conll" and not wanted.json:
                    yield partial(batch.write, columns=[[]] * (wanted.kbest + wanted.marginals))
                continue
            check_kind(self.estimator, batch.x, path)
            if wanted.json or batch.format == "jsonl":
                yield partial(write_lines, lines=self._json_lines(batch, wanted))
            else:
                yield partial(batch.write, columns=self._columns(batch, wanted))

    def _columns(self, batch: PredictionBatch, wanted: Wanted) -> list[list[list[str]]]:
        if wanted.kbest == 1:
            columns = [[list(map(str, labels)) for labels in self._labels(batch.x)]]
        else:
            found = self._kbest(batch.x, wanted.kbest)
            # A short sequence has fewer labellings than asked for; its last one fills the columns.
            columns = [
                [list(map(str, best[min(rank, len(best) - 1)][0])) for best in found]
                for rank in range(wanted.kbest)
            ]
        if wanted.marginals:
            columns.append([list(map(as_text, each)) for each in self._marginals(batch)])
        return columns

    def _json_lines(self, batch: PredictionBatch, wanted: Wanted) -> list[str]:
        labels = self._labels(batch.x)
        others: list[dict[str, Any]] = batch.others or [{}] * len(labels)
        objects = [
            {
                **known,
                ("tokens" if isinstance(tokens[0], str) else "features"): tokens,
                "labels": list(map(str, each)),
            }
            for known, tokens, each in zip(others, batch.tokens, labels, strict=True)
        ]
        if wanted.marginals:
            for each, positions in zip(objects, self._marginals(batch), strict=True):
                each["marginals"] = [dict(position) for position in positions]
        if wanted.kbest > 1:
            value = "score" if self.loss.is_hard else "probability"
            ranked = self._kbest(batch.x, wanted.kbest)
            for each, found in zip(objects, ranked, strict=True):
                each["kbest"] = [
                    {"labels": list(map(str, labels)), value: float(number)} for labels, number in found
                ]
        return [json.dumps(each, ensure_ascii=False) for each in objects]

    def _marginals(self, batch: PredictionBatch) -> list[list[Distribution]]:
        names = [str(label) for label in self.estimator.classes_.tolist()]
        return [distributions(names, array) for array in self.estimator.predict_marginals_array(batch.x)]

    def evaluation(self, path: str) -> Evaluation:
        from partwise.report.score_tables import print_label_scores
        from partwise.scoring.labelling import labelling_scores

        data = self._read(path)
        scores = labelling_scores(data.label_sequences(), self._labels(data.x))
        counts = {"n_sequences": data.n_sequences, "n_tokens": scores.n_labels}
        return Evaluation(scores.as_dict() | counts, partial(print_label_scores, scores=scores))

    def _read(self, path: str) -> SequenceFile:
        data = read_sequences(path, self.options)
        check_kind(self.estimator, data.x, path)
        if not data.has_labels or None in data.labels():
            raise InputError("some positions have no label; evaluation needs them all", path)
        return data

    def labelled(self, path: str) -> tuple[Any, Any]:
        data = self._read(path)
        inputs = data.x
        if isinstance(inputs, Columns):
            is_word = len(inputs.columns) == 1
            inputs = inputs.column_sequences() if is_word else inputs.row_sequences()
        pairs = [(x, y) for x, y in zip(inputs, data.label_sequences(), strict=True) if len(x)]
        return [x for x, _ in pairs], [y for _, y in pairs]

    def dev_scores(self, x: Any, y: Any) -> dict[str, Any]:
        from partwise.scoring.labelling import labelling_scores

        return labelling_scores(y, self._labels(x)).in_short()
