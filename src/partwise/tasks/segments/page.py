"""Segmented sequences: segments with their probabilities beside the labels of positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.tasks.page import Evidence
from partwise.tasks.segments.data import iob2, read_segments
from partwise.tasks.sequences.page import SequenceExplorer

_FEWEST = 0.001


class SegmentExplorer(SequenceExplorer):
    """Segments as triples (first, last, label), labels of positions in the scheme IOB2."""

    kind = "segments"
    longest = 500

    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        found = super().answer(x, truth, kbest)
        segments = [[first, last, str(label)] for first, last, label in self.estimator.predict([x])[0]]
        if self.has_probabilities:
            probable = self.estimator.predict_marginals([x], threshold=_FEWEST)[0]
            by_name = {(first, last, str(label)): p for (first, last, label), p in probable.items()}
            segments = [[*segment, by_name.get(tuple(segment), 0.0)] for segment in segments]
            found["segment_marginals"] = [[*segment, p] for segment, p in by_name.items()]
        found["segments"] = segments
        if truth is not None:
            [own] = read_segments([truth], np.array([len(found["tokens"])]))
            found["true_segments"] = [[first, last, str(label)] for first, last, label in own]
        return found

    def _labels(self, inputs: Any) -> list[list[str]]:
        return self.estimator.predict_labels(inputs)

    def _names(self) -> list[str]:
        return self.estimator.position_labels()

    def _arrays(self, inputs: Any) -> list[np.ndarray]:
        return self.estimator.predict_position_marginals_array(inputs)

    def _tokens(self) -> Any:
        return self.estimator._encoder.tokens

    def _kbest(self, x: Any, k: int) -> list[dict[str, Any]]:
        length, results = len(x), []
        for segments, value in self.estimator.predict_kbest([x], k=k)[0]:
            named = [[first, last, str(label)] for first, last, label in segments]
            results.append(
                {"labels": iob2(segments, length), "segments": named, self.value_name(): float(value)}
            )
        return results

    def evidence(self, inputs: Any, truths: Any) -> Evidence:
        found = super().evidence(inputs, truths)
        if self.has_probabilities:
            found.predicted, found.every = self._segment_parts(inputs, truths)
        return found

    def _segment_parts(self, inputs: Any, truths: Any) -> tuple[Any, Any]:
        """Probabilities of segments beside the truth; positions outside all of them are no segments."""
        names = [str(label) for label in self.estimator.classes_.tolist()]
        arrays = self.estimator.predict_marginals_array(inputs)
        true = read_segments(truths, np.array([len(array) for array in arrays]))
        first = int(names[0] == self.estimator.outside)
        index = {name: k for k, name in enumerate(names)}
        masks = [np.zeros(array.shape, bool) for array in arrays]
        for mask, segments in zip(masks, true, strict=True):
            for begin, last, label in segments:
                if str(label) in index and last - begin < mask.shape[1]:
                    mask[begin, last - begin, index[str(label)]] = True
        chosen = [np.zeros(array.shape, bool) for array in arrays]
        for mask, segments in zip(chosen, self.estimator.predict(inputs), strict=True):
            for begin, last, label in segments:
                mask[begin, last - begin, index[str(label)]] = True
        p, is_true, is_chosen = (
            np.concatenate([each[:, :, first:].reshape(-1) for each in many] or [np.zeros(0)])
            for many in (arrays, masks, chosen)
        )
        is_chosen = is_chosen.astype(bool)
        return (p[is_chosen], is_true[is_chosen]), (p, is_true)
