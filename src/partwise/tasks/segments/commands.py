"""Segments for the commands: labels in the scheme IOB2 as sequences have them, segments in JSON."""

from __future__ import annotations

import json
from typing import Any

from partwise.report.probabilities import Distribution, distributions
from partwise.tasks.segments.data import iob2
from partwise.tasks.sequences.commands import Sequences
from partwise.tasks.sequences.data import lengths_of
from partwise.tasks.sequences.reading import PredictionBatch
from partwise.tasks.task import Wanted


class Segments(Sequences):
    """Segmentation of sequences."""

    def _labels(self, x: Any) -> list[list[Any]]:
        return self.estimator.predict_labels(x)

    def _kbest(self, x: Any, k: int) -> list[list[tuple[list[Any], float]]]:
        ranked, lengths = self.estimator.predict_kbest(x, k=k), lengths_of(x).tolist()
        return [
            [(iob2(segments, length), value) for segments, value in found]
            for found, length in zip(ranked, lengths, strict=True)
        ]

    def _marginals(self, batch: PredictionBatch) -> list[list[Distribution]]:
        names = self.estimator.position_labels()
        arrays = self.estimator.predict_position_marginals_array(batch.x)
        return [distributions(names, array) for array in arrays]

    def _json_lines(self, batch: PredictionBatch, wanted: Wanted) -> list[str]:
        """Tokens, labels and segments [first, last, label], last included."""
        objects = [json.loads(line) for line in super()._json_lines(batch, Wanted(kbest=wanted.kbest))]
        segments = self.estimator.predict(batch.x)
        for each, own in zip(objects, segments, strict=True):
            each["segments"] = [[first, last, str(label)] for first, last, label in own]
        if wanted.marginals:
            for each, found in zip(objects, self.estimator.predict_marginals(batch.x), strict=True):
                rows = ((*segment, p) for segment, p in found.items())
                each["marginals"] = [[first, last, str(label), p] for first, last, label, p in rows]
        return [json.dumps(each, ensure_ascii=False) for each in objects]
