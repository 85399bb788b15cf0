"""Features of candidate arcs of dependency trees, numbered without a string per feature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from partwise.core.arcs import Arcs, all_arcs, checked_arcs, gold_arcs
from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features.arc_key_tables import count_keys, fill_table, find_rows, move_counts
from partwise.features.arc_keys import ArcWork, WordCodes
from partwise.features.arc_templates import (
    DIRECTIONS,
    DISTANCES,
    N_RESERVED,
    Compiled,
    arc_templates,
    compile_templates,
    parse_arc_template,
)
from partwise.features.arc_values import column, distinct, feats, has_fine_tags, interned, sources, value
from partwise.features.vocabulary import check_vocabulary_settings

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus

__all__ = ["ArcFeatures", "Arcs", "all_arcs", "gold_arcs"]

_FIRST_ARCS = 10_000  # room is made for their features before anything is known


class ArcFeatures:
    """Numbers the features of arcs by templates.

    Parameters
    ----------
    templates : {"mcdonald", "pos", "labels"} or list of str
        See `partwise.features.arc_templates`. Templates with a field that the training corpus has no values for
        are left out.
    observed : {"gold", "all"}
        Whether only features of the true arcs get a number, or those of all candidate arcs.
    min_count : int
        Features with fewer occurrences, among the arcs that `observed` names, are dropped.

    Attributes
    ----------
    n_attributes : int
        Features that have a number; the most frequent come first.
    used_templates : list of str
    """

    third: ClassVar[str | None] = None
    directions: ClassVar[tuple[str, ...]] = DIRECTIONS
    _compiled: Compiled
    _fine_tags: bool

    def __init__(
        self,
        templates: str | Sequence[str] = "mcdonald",
        observed: Literal["gold", "all"] = "gold",
        min_count: int = 1,
    ):
        self.templates = self._checked_templates(templates)
        if observed not in ("gold", "all"):
            raise InputError(f"observed={observed!r} is not 'gold' or 'all'")
        check_vocabulary_settings(min_count, None)
        self.observed = observed
        self.min_count = min_count
        self.used_templates: list[str] = []
        self.n_attributes = 0

    def _checked_templates(self, templates: str | Sequence[str]) -> list[str]:
        return arc_templates(templates)

    def _true_parts(self, corpus: DependencyCorpus) -> Any:
        """What features are learnt from, with ``observed="gold"``."""
        return gold_arcs(corpus.heads, corpus.sentence_ptr)

    def fit(self, corpus: DependencyCorpus, arcs: Arcs | None = None) -> ArcFeatures:
        """Learn which features there are.

        Parameters
        ----------
        corpus : DependencyCorpus
            With all heads, unless ``observed="all"``.
        arcs : Arcs, or None for all
            The candidates; needed for ``observed="all"`` only.

        Returns
        -------
        self
        """
        if self.observed == "gold" and not corpus.has_heads:
            word = int(np.flatnonzero(corpus.heads < 0)[0])
            raise InputError(
                "a word without a head: features of true arcs need all heads", **corpus.where(word)
            )
        self._fine_tags = has_fine_tags(corpus)
        strings = {
            source: distinct(dict.fromkeys(column(corpus, source, self._fine_tags)), source)
            for source in sources(self.templates)
        }
        self._adopt({source: values for source, values in strings.items() if values})
        words = self._encode(corpus)
        parts = self._true_parts(corpus) if self.observed == "gold" else _arcs_for(corpus, arcs)
        keys, counts = _count(self._compiled, words, parts)
        kept = counts >= self.min_count
        keys, counts = keys[kept], counts[kept]
        self._learn(keys[np.lexsort((keys, -counts))])
        return self

    def fit_transform(self, corpus: DependencyCorpus, arcs: Arcs | None = None) -> AttributeRows:
        """`fit`, and the features of all candidate arcs."""
        return self.fit(corpus, arcs).transform(corpus, arcs)

    def transform(self, corpus: DependencyCorpus, arcs: Arcs | None = None) -> AttributeRows:
        """The known features of arcs, one row an arc.

        Parameters
        ----------
        corpus : DependencyCorpus
            Heads are not looked at.
        arcs : Arcs, or None for all

        Returns
        -------
        AttributeRows
        """
        return self._rows(corpus, _arcs_for(corpus, arcs))

    def _rows(self, corpus: DependencyCorpus, parts: Any) -> AttributeRows:
        """The known features of arcs or triples, a row each."""
        if not hasattr(self, "_keys"):
            raise InputError("the features are not learnt yet; call fit first")
        words = self._encode(corpus)
        work = _work(self._compiled, words)
        n_parts, room = len(parts.head), len(work.keys)
        row_ptr = np.zeros(n_parts + 1, np.int64)
        ids, n_written, part = np.empty(min(n_parts, _FIRST_ARCS) * room, np.int32), 0, 0
        table = self._keys, self._numbers, self._marks
        while True:
            part, n_written = find_rows(
                self._compiled.program, words, parts, part, n_parts, *table, work, row_ptr, ids, n_written
            )
            if part == n_parts:
                break
            # The same array grows: no second copy in memory.
            expected = 1.1 * n_written / max(part, 1) * n_parts
            ids.resize(min(max(int(expected), len(ids) + _FIRST_ARCS * room), n_parts * room), refcheck=False)
        ids.resize(n_written, refcheck=False)
        return AttributeRows(row_ptr, ids)

    def names(self, ids: Iterable[int] | None = None) -> list[str]:
        """What the features of these numbers (or all) stand for: ``head.form=dog & direction=right``."""
        numbers = np.arange(self.n_attributes) if ids is None else np.fromiter(ids, np.int64)
        keys = self._keys[numbers]
        strings = {source: ["<outside>", "<root>", *space] for source, space in self._spaces.items()}
        strings |= {"direction": list(self.directions), "distance": list(DISTANCES)}
        kinds = self.template_of(numbers).tolist()
        return [self._name(kind, key, strings) for kind, key in zip(kinds, keys.tolist(), strict=True)]

    def known_values(self, source: str) -> list[str]:
        """The values of a field ("form", "tag", "coarse" …) that training saw; none where no template has it."""
        return list(self._spaces.get(source, ()))

    def template_of(self, ids: np.ndarray) -> np.ndarray:
        """The place in `used_templates` of each feature's template, int64."""
        return np.searchsorted(self._compiled.program.base, self._keys[ids], side="right") - 1

    def keep(self, ids: np.ndarray) -> ArcFeatures:
        """The same with only these features, renumbered in the order given."""
        smaller = copy(self)
        smaller._learn(np.ascontiguousarray(self._keys[ids]))
        return smaller

    def state(self) -> dict[str, Any]:
        """All that a model file must hold: an array of keys, and plain JSON values."""
        return {
            "templates": self.used_templates,
            "observed": self.observed,
            "min_count": self.min_count,
            "fine_tags": self._fine_tags,
            "sources": list(self._spaces),
            "strings": [list(space) for space in self._spaces.values()],
            "keys": self._keys,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ArcFeatures:
        """Rebuild from what `state` gave."""
        features = cls(state["templates"] or ["direction"], state["observed"], int(state["min_count"]))
        features._fine_tags = bool(state["fine_tags"])
        strings = dict(zip(state["sources"], state["strings"], strict=True))
        features._adopt({source: list(values) for source, values in strings.items()})
        keys = np.ascontiguousarray(state["keys"], np.int64)
        if features.used_templates != list(state["templates"]):
            raise InputError("damaged arc features: templates and sources do not fit together")
        if keys.ndim != 1 or (len(keys) and not 0 <= keys.min() <= keys.max() < features._compiled.size):
            raise InputError("damaged arc features: keys out of range")
        features._learn(keys)
        return features

    def _adopt(self, strings: dict[str, list[str]]) -> None:
        """Take the distinct values of every source, and compile the templates that need no others."""
        self._spaces = {
            source: dict(zip(values, count(N_RESERVED), strict=False)) for source, values in strings.items()
        }
        used = [text for text in self.templates if sources([text]).keys() <= strings.keys()]
        if not used:
            raise InputError("no arc template is left: the corpus has no values for any of them")
        sizes = [len(values) + N_RESERVED for values in strings.values()]
        self._compiled = compile_templates(used, list(strings), sizes, self.third)
        parsed = {frozenset(parse_arc_template(text)): text for text in used}
        self.used_templates = [parsed[frozenset(pieces)] for pieces in self._compiled.pieces]

    def _learn(self, keys: np.ndarray) -> None:
        if len(keys) >= 2**31:
            raise InputError(f"{len(keys)} arc features are more than 2^31: use a higher min_count")
        self._keys = keys
        self.n_attributes = len(keys)
        size = 1 << max(2 * len(keys), 128).bit_length()
        self._numbers, self._marks = np.empty(size, np.int32), np.zeros(size, np.uint8)
        fill_table(keys, self._numbers, self._marks)

    def _encode(self, corpus: DependencyCorpus) -> WordCodes:
        """Codes of all words, -1 where a word has no value or one not seen in training."""
        codes = np.full((len(self._spaces), corpus.n_words), -1, np.int32)
        feature_ptr, feature_code = np.zeros(corpus.n_words + 1, np.int64), np.zeros(0, np.int32)
        for row, (source, space) in enumerate(self._spaces.items()):
            strings, places = interned(column(corpus, source, self._fine_tags))
            if source == "feat":
                known = [[space[each] for each in feats(string) if each in space] for string in strings]
                lengths = np.array([len(each) for each in known], np.int64)
                feature_ptr = offsets(lengths[places])
                feature_code = np.array([code for place in places for code in known[place]], np.int32)
            else:
                values = [value(string, source) for string in strings]
                found = np.array([-1 if each is None else space.get(each, -1) for each in values], np.int32)
                codes[row] = found[places]
        return WordCodes(
            np.ascontiguousarray(corpus.sentence_ptr, np.int64), codes, feature_ptr, feature_code
        )

    def _name(self, kind: int, key: int, strings: Mapping[str, Sequence[str]]) -> str:
        key -= int(self._compiled.program.base[kind])
        shown = []
        pieces, strides = self._compiled.pieces[kind], self._compiled.strides[kind]
        for piece, stride in reversed(list(zip(pieces, strides, strict=True))):
            code, key = divmod(key, stride)
            shown.append(f"{piece}={strings[piece.source][code]}")
        return " & ".join(reversed(shown))


def _arcs_for(corpus: DependencyCorpus, arcs: Arcs | None) -> Arcs:
    """Checked candidates, which may be given as None for all."""
    return all_arcs(corpus.lengths) if arcs is None else checked_arcs(corpus.lengths, arcs)


def _work(compiled: Compiled, words: WordCodes) -> ArcWork:
    """Room for the longest sentence and for all keys an arc can have."""
    program = compiled.program
    n_templates, n_sources = len(program.base), len(words.codes)
    longest = int(np.diff(words.sentence_ptr).max(initial=0))
    looked_at = np.unique(program.between_source[program.between_stride > 0])
    most = min(longest, int(words.codes[looked_at].max(initial=0)) + 1) if len(looked_at) else 0
    feats = int(np.diff(words.feature_ptr).max(initial=0))
    several = range(program.n_simple, n_templates)
    most_keys = program.n_simple + sum(
        (feats if program.feature_stride[0, t] else 1)
        * (feats if program.feature_stride[1, t] else 1)
        * (most if program.between_stride[t] else 1)
        for t in several
    )
    return ArcWork(
        part=np.empty((len(program.piece_ptr), longest + 2, n_templates), np.int64),
        n_distinct=np.zeros(n_sources, np.int64),
        distinct=np.zeros((n_sources, most), np.int64),
        n_before=np.zeros((n_sources, most, longest + 1), np.int32),
        keys=np.empty(most_keys + 1, np.int64),
        spreads=np.empty(most_keys + 1, np.int64),
    )


def _count(compiled: Compiled, words: WordCodes, parts: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys of arcs or triples and how often each occurs."""
    work = _work(compiled, words)
    table = np.zeros((1 << max(4 * len(work.keys), 2**16).bit_length(), 2), np.int64)
    part, n_found, n_parts = 0, 0, len(parts.head)
    while True:
        part, n_found = count_keys(compiled.program, words, parts, part, n_parts, table, work, n_found)
        if part == n_parts:
            break
        larger = np.zeros((4 * len(table), 2), np.int64)
        move_counts(table, larger)
        table = larger
    found = table[:, 1] > 0
    return table[found, 0], table[found, 1]
