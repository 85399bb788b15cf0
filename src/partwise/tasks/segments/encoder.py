"""What a segment model makes of X: rows of all segments that fit, and rows of positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, KindSize, ListedNames, OwnRows
from partwise.estimators.encoders import ENCODERS, ColumnEncoder, choose_encoder, read_columns
from partwise.estimators.saving import prefixed, unprefixed
from partwise.features.segments import SegmentFeatures, Spans, all_spans
from partwise.storage.checks import expect_array, expect_number, expect_offsets, expect_text, expect_texts

_ARRAYS = ("template_of", "code_ptr", "codes")
DURATIONS = "durations"  # The segment template without rows of segments: a weight for every length and label.
_LONG = (
    32  # Segments longer than this have a table of durations by default, unless they have features of words.
)


class SegmentEncoder(ListedNames):
    """Features of segments, and of positions as a labeler of sequences has them.

    Attributes
    ----------
    tokens : AttributeEncoder, ColumnEncoder or MatrixEncoder
    segments : SegmentFeatures or None
        Of the same columns; of nothing but lengths where X has none. None if lengths have a table of weights,
        which needs no rows.
    max_length : int
    """

    def __init__(self, tokens: Any, segments: SegmentFeatures | None, max_length: int):
        self.tokens, self.segments, self.max_length = tokens, segments, max_length

    @classmethod
    def choose(cls, X: Any, template: Any, segment_template: Any, max_length: int) -> SegmentEncoder:
        """The encoder for this kind of input, not fitted yet."""
        tokens = choose_encoder(X, template)
        if not tokens.tied:
            raise InputError(
                "template: segments have tied transitions; leave out edge attributes, and in CRF++'s syntax keep the "
                "line B"
            )
        names = tokens.template.column_names if isinstance(tokens, ColumnEncoder) else ()
        if segment_template == "auto":
            segment_template = "length" if max_length <= _LONG else DURATIONS
            if isinstance(tokens, ColumnEncoder):
                segment_template = "default"
        if segment_template == DURATIONS:
            return cls(tokens, None, max_length)
        return cls(tokens, SegmentFeatures(segment_template, names), max_length)

    @property
    def kind(self) -> str:
        return self.tokens.kind

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        own = () if self.segments is None else (KindSize(0, self.segments.n_attributes),)
        return *own, self.tokens.sizes[0]

    def names(self, kind: str) -> list[str]:
        return self.segments.names() if kind == "segment" and self.segments else self.tokens.names()

    def fit_transform(self, X: Any, true: Spans, min_count: int) -> Encoded:
        """Learn from true segments and all positions, and encode."""
        token_rows = self.tokens.fit_transform(X, min_count)
        if self.segments is not None:
            self.segments.fit(self._columns(X), true, min_count)
        return self._encoded(X, token_rows)

    def transform(self, X: Any) -> Encoded:
        return self._encoded(X, self.tokens.transform(X))

    def _encoded(self, X: Any, tokens: Encoded) -> Encoded:
        if self.segments is None:
            return Encoded(tokens.lengths, (tokens.own[0],))
        spans = all_spans(tokens.lengths, self.max_length)
        rows = self.segments.transform(self._columns(X), spans)
        return Encoded(tokens.lengths, (OwnRows(rows), tokens.own[0]))

    def _columns(self, X: Any) -> list[list[str]]:
        return read_columns(X)[0] if isinstance(self.tokens, ColumnEncoder) else []

    def keep(self, used: list[np.ndarray]) -> tuple[SegmentEncoder, list[np.ndarray]]:
        """The same without the features that have no weight."""
        if self.segments is None:
            tokens, kept = self.tokens.keep(used)
            return SegmentEncoder(tokens, None, self.max_length), kept
        tokens, [kept] = self.tokens.keep(used[1:])
        return SegmentEncoder(tokens, self.segments.keep(used[0]), self.max_length), [used[0], kept]

    # -- model files ------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        token_header, token_arrays = self.tokens.state()
        segment_header, segment_arrays = self.segments.state() if self.segments else (DURATIONS, {})
        arrays = prefixed(token_arrays, "tokens.") | prefixed(segment_arrays, "segments.")
        return {"kind": self.kind, "tokens": token_header, "segments": segment_header}, arrays

    @classmethod
    def from_state(
        cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], max_length: int
    ) -> SegmentEncoder:
        kind = expect_text(header, "kind", tuple(ENCODERS))
        tokens, segments = header.get("tokens"), header.get("segments")
        if not isinstance(tokens, dict) or not (isinstance(segments, dict) or segments == DURATIONS):
            raise InputError("the features are missing")
        encoder = ENCODERS[kind].from_state(tokens, unprefixed(arrays, "tokens."))
        if not encoder.tied:
            raise InputError("the template has edge attributes, which segments have not")
        if not isinstance(segments, dict):
            return cls(encoder, None, max_length)
        return cls(encoder, _segment_features(segments, unprefixed(arrays, "segments.")), max_length)


def _segment_features(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SegmentFeatures:
    """Rebuild them, after checking all that their code takes on trust."""
    expect_text(header, "template")
    expect_texts(header, "column_names")
    expect_number(header, "n_columns", 0, 10_000, whole=True)
    strings = header.get("strings")
    if not isinstance(strings, list):
        raise InputError("the strings of the segments' features are missing")
    for space in strings:
        if not expect_texts({"strings": space}, "strings", distinct=True):
            raise InputError("the strings of the segments' features are missing")
    wide = {name: expect_array(arrays, name, np.uint32).astype(np.int64) for name in _ARRAYS}
    expect_offsets(wide, "code_ptr", len(wide["template_of"]), len(wide["codes"]))
    return SegmentFeatures.from_state(header, wide)
