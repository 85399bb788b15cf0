"""Words, spans, splits and anchored rules of sentences as rows of a grammar's structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.core.arrays import offsets, positions
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, OwnRows
from partwise.estimators.place_encoder import PlaceEncoder
from partwise.features.anchored import RuleFeatures, RuleNames
from partwise.features.spans import Places, Sentences, SpanFeatures
from partwise.structures import Grammar
from partwise.structures.contract import Shapes

# The kinds of rows, and the parameters for their templates.
TEMPLATES = {
    "word": "word_templates",
    "span": "span_templates",
    "split": "split_templates",
    "anchored": "rule_templates",
}


class SpanEncoder(PlaceEncoder):
    """Features of words and spans, and of splits and anchored rules if they are parts."""

    def transform(self, structure: Grammar, sentences: Sentences, shapes: Shapes) -> Encoded:
        """Rows of all candidate words, spans, splits and anchored rules."""
        own = tuple(
            OwnRows(features.transform(sentences, places_of(kind, structure, shapes)))
            for kind, features in self.features.items()
        )
        return Encoded(sentences.lengths, own, shapes)

    @classmethod
    def from_state(
        cls, header: Any, arrays: Mapping[str, np.ndarray], kinds: Sequence[str], names: RuleNames
    ) -> SpanEncoder:
        """From what a model file holds, everything in it checked."""
        found: dict[str, SpanFeatures] = {}
        for kind in kinds:
            stored = cls._stored(header, arrays, kind)
            if stored.get("what") != kind:
                raise InputError(f"the features of {kind} are missing")
            is_rule = kind == "anchored"
            found[kind] = RuleFeatures.of_state(stored, names) if is_rule else SpanFeatures.from_state(stored)
        return cls(found)


def places_of(kind: str, structure: Grammar, shapes: Shapes) -> Places:
    """Where the rows of a kind lie in their sentences."""
    if kind == "word":
        return Places.of_words(shapes.lengths)
    if kind == "anchored":
        ptr, rule, *places = structure.anchored_of(shapes)
        first, cut, last = (each.astype(np.int32) for each in places)
        return Places(ptr, first, last, cut, rule.astype(np.int32))
    ptr, first, last = structure.spans_of(shapes)
    if kind == "span":
        return Places(ptr, first.astype(np.int32), last.astype(np.int32), np.zeros(len(first), np.int32))
    cuts = last - first
    split = np.repeat(first, cuts) + positions(cuts)
    row_ptr = offsets(cuts)[ptr]
    both = (np.repeat(first, cuts).astype(np.int32), np.repeat(last, cuts).astype(np.int32))
    return Places(row_ptr, *both, split.astype(np.int32))


def gold_places(
    structure: Grammar, lengths: np.ndarray, nodes: np.ndarray
) -> dict[str, tuple[Places, np.ndarray]]:
    """The rows that derivations use, kind by kind: their places, and the column of each."""
    first, last, symbol, rule = nodes.T
    is_word, n_binary = rule < 0, len(structure.rules)
    is_binary = ~is_word & (rule < n_binary)
    example = np.repeat(np.arange(len(lengths)), np.diff(_node_ptr(nodes, lengths)))
    columns = {
        "word": np.searchsorted(structure.word_symbols, symbol),
        "span": np.where(
            is_binary,
            np.searchsorted(structure.binary_symbols, symbol),
            len(structure.binary_symbols) + np.searchsorted(structure.unary_symbols, symbol),
        ),
    }

    def places(chosen: np.ndarray, split: np.ndarray) -> Places:
        counts = np.bincount(example[chosen], minlength=len(lengths))
        own = [each[chosen].astype(np.int32) for each in (first, last, split, rule)]
        return Places(np.append(0, np.cumsum(counts)), *own)

    none = np.zeros(len(nodes), np.int64)
    result = {"word": (places(is_word, none), columns["word"][is_word])}
    result["span"] = places(~is_word, none), columns["span"][~is_word]
    # In preorder the left child comes next.
    left_end = np.append(last[1:], 0)
    if structure.splits:
        result["split"] = places(is_binary, left_end), none[is_binary]
    if structure.anchored:
        result["anchored"] = places(~is_word, np.where(is_binary, left_end, last)), none[~is_word]
    return result


def _node_ptr(nodes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The nodes of each derivation, int64 (n + 1,): it ends with its last word."""
    ends = np.append(0, np.flatnonzero(nodes[:, 3] < 0) + 1)
    return ends[np.append(0, np.cumsum(lengths))]
