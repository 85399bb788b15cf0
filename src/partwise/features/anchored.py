"""Features of anchored rules: templates that see the rule, its symbols and the words at its places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from partwise.core.rows import AttributeRows
from partwise.features.keys.records import RuleRows, WordCodes
from partwise.features.spans import _OF_LENGTH, Places, Sentences, SpanFeatures


class RuleNames(NamedTuple):
    """The rules of a grammar for templates.

    Attributes
    ----------
    rules : list of str
    symbols : list of str
    parent, left, right : int64 (n_rules,)
        Symbols by number; `right` is −1 for unary rules.
    """

    rules: list[str]
    symbols: list[str]
    parent: np.ndarray
    left: np.ndarray
    right: np.ndarray


class RuleFeatures(SpanFeatures):
    """Numbers the features of anchored rules by templates.

    Parameters
    ----------
    names : RuleNames
    templates : "default", list of str or None
        None: anchored rules have no features, and only costs.
    min_count : int
        Features with fewer occurrences in training are dropped.
    """

    subject = "features of anchored rules"

    def __init__(
        self, names: RuleNames, templates: str | Sequence[str] | None = "default", min_count: int = 1
    ):
        self.names_of_rules, self.is_empty = names, templates is None
        super().__init__("anchored", ["rule"] if templates is None else templates, min_count)
        symbols = tuple(names.symbols)
        own = {"rule": tuple(names.rules), **dict.fromkeys(("parent", "left", "right"), symbols)}
        self.kind = replace(self.kind, relations={**self.kind.relations, **own})

    def fit(self, sentences: Sentences, places: Places) -> RuleFeatures:
        """Learn which features the rows at these places, those of true trees, have."""
        if not self.is_empty:
            super().fit(sentences, places)
        return self

    def transform(self, sentences: Sentences, places: Places) -> AttributeRows:
        """The known features of rows."""
        if self.is_empty:
            return AttributeRows(np.zeros(int(places.row_ptr[-1]) + 1, np.int64), np.zeros(0, np.int32))
        return super().transform(sentences, places)

    def _relations(self) -> dict[str, np.ndarray]:
        """By rule, then by length if a template looks at it. A last number, which no row has, holds all values."""
        fields = {field.source for some in self._parsed.values() for each in some for field in each.fields}
        of_length = _OF_LENGTH if "length" in fields else np.zeros(1, np.int64)
        names, n_lengths = self.names_of_rules, len(of_length)
        columns = {
            "rule": np.arange(len(names.rules)), "parent": names.parent, "left": names.left, "right": names.right
        }  # fmt: skip
        found = {
            name: np.append(np.repeat(values, n_lengths), len(self.kind.relations[name]) - 1)
            for name, values in columns.items()
        }
        lengths = np.append(np.tile(of_length, len(names.rules)), int(_OF_LENGTH.max()))
        return found | {"length": lengths}

    def _span_rows(self, rows: Places) -> Any:
        assert rows.rule is not None
        rule = np.ascontiguousarray(rows.rule, np.int32)
        return RuleRows(*super()._span_rows(rows), rule, len(self.names_of_rules.rules))

    def _coded_rows(self, words: WordCodes, rows: Any) -> Any:
        return rows._replace(window=self._window_codes(words, rows))

    def names(self, ids: Iterable[int] | None = None) -> list[str]:
        return [] if self.is_empty else super().names(ids)

    def keep(self, ids: np.ndarray) -> Any:
        return self if self.is_empty else super().keep(ids)

    def state(self) -> dict[str, Any]:
        if not self.is_empty:
            return super().state()
        nothing: dict[str, Any] = {"templates": [], "sources": [], "strings": [], "what": self.what}
        return nothing | {"min_count": self.min_count, "keys": np.zeros(0, np.int64)}

    @classmethod
    def of_state(cls, state: Mapping[str, Any], names: RuleNames) -> RuleFeatures:
        """Rebuild from what `state` returned."""
        features = cls(names, state["templates"] or None, int(state["min_count"]))
        if not features.is_empty:
            features._restore(state)
        return features
