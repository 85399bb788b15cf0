"""Segmented sequences for the command line, reports and the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from partwise.tasks.page import Parts
from partwise.tasks.segments.data import Segment, iob2, read_segments
from partwise.tasks.sequences.data import lengths_of
from partwise.tasks.sequences.reading import PredictionBatch
from partwise.tasks.sequences.task import Sequences, small_sentences
from partwise.tasks.task import SmallProblem, Wanted, add_each

_LEAST_SHOWN = 0.001  # pages leave out segments that are less probable


class Segments(Sequences):
    """Segmentation of sequences: files and pages show labels of positions in the scheme IOB2 beside the segments."""

    command, kind, longest = "segments", "segments", 500

    def labels(self, X: Any) -> list[list[str]]:
        return self.estimator.predict_labels(X)

    def decoded(self, X: Any, decode: str) -> list[list[str]]:
        pairs = zip(self.segments(X, decode), lengths_of(X).tolist(), strict=True)
        return [iob2(own, length) for own, length in pairs]

    def kbest(self, X: Any, k: int) -> list[list[tuple[list[str], float]]]:
        ranked, lengths = self.estimator.predict_kbest(X, k=k), lengths_of(X).tolist()
        return [
            [(iob2(segments, length), value) for segments, value in found]
            for found, length in zip(ranked, lengths, strict=True)
        ]

    def arrays(self, X: Any) -> list[np.ndarray]:
        return self.estimator.predict_position_marginals_array(X)

    def label_names(self) -> list[str]:
        return self.estimator.position_labels()

    def token_encoder(self) -> Any:
        return self.estimator._encoder.tokens

    def segments(self, X: Any, decode: str) -> list[list[Segment]]:
        """The segments of every sequence."""
        if decode == "viterbi":
            return self.estimator.predict(X)
        return [[entity[:3] for entity in own] for own in self.estimator.predict_entities(X, decode=decode)]

    def objects(self, batch: PredictionBatch, wanted: Wanted) -> list[dict[str, Any]]:
        """Tokens, labels and segments [first, last, label], last included."""
        objects = super().objects(batch, replace(wanted, marginals=False))
        add_each(objects, "segments", map(_rows, self.segments(batch.x, wanted.decode)))
        if wanted.marginals:
            found = self.estimator.predict_marginals(batch.x)
            add_each(objects, "marginals", ([[*row, p] for row, p in _probable(each)] for each in found))
        return objects

    @classmethod
    def small_problems(cls) -> list[SmallProblem]:
        from partwise import SegmentLabeler

        words, _ = small_sentences()
        segments = [[(0, 2, "NP")], [(0, 0, "NP")]] * 3
        answers = ("predict", "predict_marginals", "predict_kbest")
        return [
            SmallProblem("segments", SegmentLabeler, {"template": "pos"}, words, segments, answers[:2], True),
            SmallProblem(
                "segments with k best", SegmentLabeler, {"template": "pos"}, words, segments, answers
            ),
        ]

    # -- pages ----------------------------------------------------------------------------------

    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        found = super().answer(x, truth, kbest)
        segments = _rows(self.estimator.predict([x])[0])
        if self.has_probabilities:
            probable = _probable(self.estimator.predict_marginals([x], threshold=_LEAST_SHOWN)[0])
            by_name = {tuple(row): p for row, p in probable}
            segments = [[*row, by_name.get(tuple(row), 0.0)] for row in segments]
            found["segment_marginals"] = [[*row, p] for row, p in probable]
        found["segments"] = segments
        ranked = self.estimator.predict_kbest([x], k=kbest)[0]
        add_each(found["kbest"], "segments", (_rows(own) for own, _ in ranked))
        if truth is not None:
            [own] = read_segments([truth], np.array([len(found["tokens"])]))
            found["true_segments"] = _rows(own)
        return found

    def best(self, x: Any) -> dict[str, Any]:
        return super().best(x) | {"segments": _rows(self.estimator.predict([x])[0])}

    def parts(self, X: Any, true: list[list[str]]) -> tuple[Parts | None, Parts | None]:
        """Probabilities of segments beside the truth; positions outside all segments are left out."""
        names = [str(label) for label in self.estimator.classes_.tolist()]
        arrays = self.estimator.predict_marginals_array(X)
        gold = read_segments(true, np.array([len(array) for array in arrays]))
        first = int(names[0] == self.estimator.outside)
        index = {name: k for k, name in enumerate(names)}
        masks = [_mask(array, segments, index) for array, segments in zip(arrays, gold, strict=True)]
        predicted = self.estimator.predict(X)
        chosen = [_mask(array, segments, index) for array, segments in zip(arrays, predicted, strict=True)]
        p, is_true, is_chosen = (
            np.concatenate([each[:, :, first:].reshape(-1) for each in many] or [np.zeros(0)])
            for many in (arrays, masks, chosen)
        )
        is_chosen = is_chosen.astype(bool)
        return (p[is_chosen], is_true[is_chosen]), (p, is_true)


def _rows(segments: Any) -> list[list[Any]]:
    return [[first, last, str(label)] for first, last, label in segments]


def _probable(marginals: dict[Any, float]) -> list[tuple[list[Any], float]]:
    return [([first, last, str(label)], p) for (first, last, label), p in marginals.items()]


def _mask(array: np.ndarray, segments: Any, index: dict[str, int]) -> np.ndarray:
    """True for the segments given, in an array (n_positions, max_length, n_labels); longer ones are left out."""
    mask: np.ndarray = np.zeros(array.shape, bool)
    for first, last, label in segments:
        if str(label) in index and last - first < mask.shape[1]:
            mask[first, last - first, index[str(label)]] = True
    return mask
