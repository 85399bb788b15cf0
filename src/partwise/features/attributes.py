"""Attributes of tokens by a template: the engine's features, for every token or pair of neighbours.

Combinations with equal pieces form a *group* and share their attributes; fields in the same place of a group share
their *space* of strings. Fields whose keys would not fit 62 bits are *joined*: the keys of the first fields together,
as far as they occur, are numbered and become one digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Literal

import numpy as np

from partwise.core.arrays import offsets, positions
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features.engine import Interned
from partwise.features.gazetteers import GazetteerSources, matchers_of
from partwise.features.keys.counter import KeyCounter
from partwise.features.keys.hashes import hash_rows
from partwise.features.keys.program import KEY_LIMIT
from partwise.features.keys.records import Program, Table, TokenRows, WordCodes
from partwise.features.keys.rows import ABSENT
from partwise.features.templates import (
    TOKENS,
    Field,
    Template,
    checked_gazetteer,
    names_of_columns,
    parse_crfpp,
    parse_template,
)
from partwise.features.vocabulary import (
    check_vocabulary_settings,
    numbering,
    only_known,
    stable_hash,
    without_duplicates,
)

__all__ = ["AttributeExtractor", "AttributeRows"]

Batches = Iterable[tuple[Mapping[Any, Interned], np.ndarray]]  # columns and offsets of sequences


class AttributeExtractor(GazetteerSources):
    """Attributes of every token (or edge) of a corpus, by a template.

    Parameters
    ----------
    template : Template
    part : "node" or "edge"
        The combinations to use. Node rows are the tokens. Edge rows are the tokens that have a token
        before them in their sequence.

    Attributes
    ----------
    n_attributes : int
    n_columns : int
        How many columns the data must have.
    """

    kind = TOKENS
    n_columns: int

    def __init__(self, template: Template, part: Literal["node", "edge"] = "node"):
        super().__init__()
        self.template, self._matchers = template, matchers_of(template.gazetteers)
        self.part = part
        self._hash_size: int | None = None
        self._joints: dict[
            tuple[int, int], np.ndarray
        ] = {}  # by group and place: keys of all fields before it

    # -- learning --------------------------------------------------------------------------------

    def fit_transform(
        self,
        columns: Sequence[Sequence[str]],
        sequence_ptr: np.ndarray,
        min_count: int = 1,
        hash_size: int | None = None,
    ) -> AttributeRows:
        """Learn the vocabulary from tokens and encode them.

        Parameters
        ----------
        columns : sequence of flat lists of str, each of length n_tokens
        sequence_ptr : int64 array, shape (n_sequences + 1,)
            Offsets of the sequences.
        min_count : int
            Attributes with fewer occurrences are dropped.
        hash_size : int or None
            If given, no vocabulary: attributes are hashed to this many numbers.

        Returns
        -------
        AttributeRows
            Numbers run from the most frequent attribute down, ties by first occurrence.
        """
        self.begin(len(columns), min_count, hash_size)
        ptr = self.check_columns(columns, sequence_ptr)
        interned = self._interned(columns)
        lookups = self.learn_strings(interned)
        if hash_size is not None:
            return self.rows_of(interned, lookups, ptr)
        self.learn_joints(lookups, lambda: [(interned, ptr)])
        counter = self.counter()
        rows = self.count(counter, interned, lookups, ptr, with_ids=True)
        renumbered = self.learn_counts(counter, min_count)
        return self._distinct(only_known(rows._replace(ids=renumbered[rows.ids])))

    def begin(self, n_columns: int, min_count: int, hash_size: int | None) -> None:
        """Forget the vocabulary and prepare for data of so many columns."""
        check_vocabulary_settings(min_count, hash_size)
        self._bind(n_columns, hash_size)
        self.n_attributes = hash_size or 0

    def _bind(self, n_columns: int, hash_size: int | None) -> None:
        bound = self.template.bind(n_columns)
        self.n_columns, self._hash_size, self._joints = n_columns, hash_size, {}
        self._bound = bound.nodes if self.part == "node" else bound.edges
        groups: dict[tuple[str, ...], list[int]] = {}
        for k, combination in enumerate(self._bound):
            groups.setdefault(combination.pieces, []).append(k)
        self._groups = list(groups.values())
        reach = max((abs(f.offset) for each in self._bound for f in each.fields), default=0)
        self._reach = reach if self.template.boundary == "symbol" else 0
        self._prepare(self._bound)

    def _empty_spaces(self) -> dict[str, dict[str, int]]:
        """One space for all sources that meet in the same place of a group, with the boundary symbols first."""
        label = {name: k for k, name in enumerate(self._sources)}
        for members in self._groups:
            for fields in zip(*(self._bound[k].fields for k in members), strict=True):
                met = {label[field.source] for field in fields}
                label = {name: min(met) if each in met else each for name, each in label.items()}
        symbols = [f"_B{sign}{k}" for sign in "-+" for k in range(1, self._reach + 1)]
        spaces = {each: dict(zip(symbols, count(), strict=False)) for each in label.values()}
        found = {name: spaces[each] for name, each in label.items()}
        self._add_marks(found)
        return found

    def _distinct_spaces(self) -> list[dict[str, int]]:
        return list({id(space): space for space in self._spaces.values()}.values())

    def _outside(self) -> np.ndarray:
        codes = np.arange(2 * self._reach) if self._reach else np.full(2, -1)
        return np.tile(codes, (len(self._sources), 1))

    def learn_strings(self, columns: Mapping[Any, Interned]) -> dict[str, Any]:
        """Learn the strings of columns; returns how to look up their codes. Only if attributes are not hashed, the
        strings are kept."""
        if self._hash_size is None:
            return self._lookups(columns, self._spaces, grow=True)
        spaces = self._empty_spaces()
        lookups = self._lookups(columns, spaces, grow=True)
        self._compile_program({name: 1 for name in self._sources})
        distinct = list({id(space): space for space in spaces.values()}.values())
        hashes = [np.array([stable_hash(each) for each in space], np.int64) for space in distinct]
        start = dict(zip(map(id, distinct), offsets([len(each) for each in hashes]).tolist(), strict=False))
        hash_ptr = np.array([start[id(space)] for space in spaces.values()], np.int64)
        return {**lookups, "": (hash_ptr, np.concatenate([np.empty(0, np.int64), *hashes]))}

    def learn_joints(self, lookups: Mapping[str, Any], batches: Any) -> None:
        """Join fields whose keys would be too large; each joint costs a pass over what `batches` returns."""
        limit = KEY_LIMIT // max(len(self._groups), 1)
        for group, members in enumerate(self._groups):
            size = 1
            for place, field in enumerate(self._bound[members[0]].fields):
                radix = len(self._spaces[field.source])
                if size * radix > limit:
                    known = np.zeros(0, np.int64)
                    for columns, ptr in batches():
                        words = self._codes(columns, lookups, ptr)
                        found = [self._prefix_keys(words, group, k, place) for k in members]
                        known = np.union1d(known, np.concatenate(found))
                    self._joints[group, place] = known[known >= 0]
                    size = len(self._joints[group, place])
                size *= radix
        self._compile_vocabulary()

    def counter(self) -> KeyCounter:
        """Counts nothing so far."""
        return KeyCounter(self._compiled)

    def count(
        self,
        counter: KeyCounter,
        columns: Mapping[Any, Interned],
        lookups: Mapping[str, Any],
        sequence_ptr: np.ndarray,
        with_ids: bool = False,
    ) -> AttributeRows:
        """Count the keys of tokens; returns the rows of their numbers if they are wanted."""
        words = self._with_joints(self._codes(columns, lookups, sequence_ptr))
        return counter.add(words, self._token_rows(sequence_ptr), with_ids)

    def learn_counts(self, counter: KeyCounter, min_count: int) -> np.ndarray:
        """Take the vocabulary from counted keys; returns the number of each key."""
        keys, counts = counter.found()
        order, renumbered = numbering(counts, np.arange(len(keys)), min_count)
        self._learn(keys[order])
        return renumbered

    def _compile_vocabulary(self) -> None:
        sizes = {name: len(self._spaces[name]) for name in self._sources}
        self._compile_program(sizes | {name: len(known) for name, _, known in self._joint_sources()})

    def _compile_program(self, sizes: dict[str, int]) -> None:
        """Compile, with joints in place of the fields that they join."""
        combinations = list(self._bound)
        for (group, place), _ in sorted(self._joints.items()):
            for k in self._groups[group]:
                fields = (Field(_joint(group, place, k)), *self._bound[k].fields[place:])
                combinations[k] = replace(self._bound[k], fields=fields)
        outside = self._outside()
        extra = np.full((len(sizes) - len(outside), outside.shape[1]), -1)
        self._compile(combinations, sizes, np.concatenate([outside, extra]))
        # By whether a token is the first, and twice whether it is the last of its sequence.
        part = np.zeros((4, len(combinations)), np.int64)
        for t, each in enumerate(self._compiled.combinations):
            if each.where != "all":
                part[[0, 2] if each.where == "first" else [0, 1], t] = ABSENT
        self._compiled = self._compiled._replace(program=self._compiled.program._replace(relation_part=part))

    # -- joined fields ---------------------------------------------------------------------------

    def _joint_sources(self) -> Iterator[tuple[str, tuple[int, int, int], np.ndarray]]:
        """Name of each joint's source, its group, combination and place, and the keys that have a number."""
        for (group, place), known in sorted(self._joints.items()):
            for k in self._groups[group]:
                yield _joint(group, place, k), (group, k, place), known

    def _with_joints(self, words: WordCodes) -> WordCodes:
        """With a row of codes for each joint."""
        if not self._joints:
            return words
        rows = [
            _number(self._prefix_keys(words, *of), known).astype(np.int32)
            for _, of, known in self._joint_sources()
        ]
        return words._replace(codes=np.concatenate([words.codes, np.stack(rows)]))

    def _prefix_keys(self, words: WordCodes, group: int, combination: int, place: int) -> np.ndarray:
        """The key of a combination's fields before a place, int64 (n_tokens,); -1 for none."""
        keys = np.zeros(words.codes.shape[1], np.int64)
        for at, field in enumerate(self._bound[combination].fields[:place]):
            if (group, at) in self._joints:
                keys = _number(keys, self._joints[group, at])
            codes = self._codes_at(words, field)
            keys = np.where((keys < 0) | (codes < 0), -1, keys * len(self._spaces[field.source]) + codes)
        return keys

    def _codes_at(self, words: WordCodes, field: Field) -> np.ndarray:
        """The code of a field at every token, int64 (n_tokens,)."""
        row, lengths = self._row_of(field), np.diff(words.sentence_ptr)
        place, length = positions(lengths) + field.offset, np.repeat(lengths, lengths)
        codes, outside = words.codes[row], self._outside()[row]
        reach = len(outside) // 2
        inside = codes[np.clip(np.arange(len(codes)) + field.offset, 0, len(codes) - 1)]
        before, after = (
            outside[np.clip(-place, 1, reach) - 1],
            outside[np.clip(place - length, 0, reach - 1) + reach],
        )
        return np.where(place < 0, before, np.where(place >= length, after, inside)).astype(np.int64)

    # -- encoding --------------------------------------------------------------------------------

    def transform(self, columns: Sequence[Sequence[str]], sequence_ptr: np.ndarray) -> AttributeRows:
        """Encode tokens; attributes that are not in the vocabulary are dropped.

        Parameters and result are those of ``fit_transform``.
        """
        ptr = self.check_columns(columns, sequence_ptr)
        if ptr[-1] == 0:  # no tokens, and perhaps no columns to read them from
            return AttributeRows(np.zeros(1, np.int64), np.zeros(0, np.int32), None)
        interned = self._interned(columns)
        if self._hash_size is None:
            return self.rows_of(interned, self._lookups(interned, self._spaces, grow=False), ptr)
        return self.rows_of(interned, self.learn_strings(interned), ptr)

    def rows_of(
        self, columns: Mapping[Any, Interned], lookups: Mapping[str, Any], sequence_ptr: np.ndarray
    ) -> AttributeRows:
        """Rows of tokens in interned columns."""
        words, rows = self._codes(columns, lookups, sequence_ptr), self._token_rows(sequence_ptr)
        if self._hash_size is None:
            return self._distinct(self._find(self._with_joints(words), rows))
        program = self._compiled.program
        seeds = np.array([stable_hash("\x1f".join(each.pieces)) for each in self._bound], np.int64)
        row_ptr = np.zeros(int(rows.row_ptr[-1]) + 1, np.int64)
        ids = np.empty((len(row_ptr) - 1) * len(seeds), np.int32)
        n_written = hash_rows(program, words, rows, seeds, *lookups[""], self._hash_size, row_ptr, ids)
        return without_duplicates(AttributeRows(row_ptr, ids[:n_written].copy()))

    def _token_rows(self, sequence_ptr: np.ndarray) -> TokenRows:
        if self.part == "node":
            return TokenRows(sequence_ptr, 0)
        return TokenRows(offsets(np.maximum(np.diff(sequence_ptr) - 1, 0)), 1)

    def _distinct(self, rows: AttributeRows) -> AttributeRows:
        """A bag of words may name an attribute twice."""
        return rows if len(self._groups) == len(self._bound) else without_duplicates(rows)

    def check_columns(self, columns: Sequence[Sequence[str]], sequence_ptr: np.ndarray) -> np.ndarray:
        if not hasattr(self, "_bound"):
            raise InputError("the vocabulary is not learnt yet; call fit_transform first")
        ptr = np.array(sequence_ptr, dtype=np.int64)
        used = [source.column for source in self._sources.values()]
        needed = 1 + max((0 if each in self._matchers else int(each) for each in used), default=-1)
        if len(columns) < needed and ptr[-1] > 0:
            raise InputError(f"the data has {len(columns)} columns; the template needs {needed}")
        if ptr.ndim != 1 or len(ptr) == 0 or ptr[0] != 0 or (np.diff(ptr) < 0).any():
            raise InputError("sequence_ptr must start with 0 and never descend")
        if any(len(column) != ptr[-1] for column in columns):
            lengths = ", ".join(str(len(column)) for column in columns)
            raise InputError(f"sequence_ptr ends at {ptr[-1]}, but the columns have lengths {lengths}")
        return ptr

    @property
    def is_hashed(self) -> bool:
        """Whether attributes are hashed, without a vocabulary."""
        return self._hash_size is not None

    # -- one word after another ------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether keys are sums of codes that each word has for itself: no hashing, joined fields or gazetteers."""
        is_hashed = self._hash_size is not None
        return not (is_hashed or self._joints or self.uses_gazetteers) and self.n_attributes > 0

    @property
    def source_names(self) -> list[str]:
        """The sources in the order of the rows of codes."""
        return list(self._sources)

    def sources_by_column(self) -> dict[int, list[str]]:
        """The sources that look at each column of the data."""
        found: dict[int, list[str]] = {}
        for name, source in self._sources.items():
            found.setdefault(int(source.column), []).append(name)
        return found

    def codes_of(self, word: str, sources: Sequence[str]) -> np.ndarray:
        """The codes of one word's values, int32 (n_sources,); -1 if a value was not seen in training."""
        known: dict[Any, Sequence[str | None]] = {}
        values = [self._values(self._sources[name], [word], known)[0] for name in sources]
        found = [
            -1 if value is None else self._spaces[name].get(value, -1)
            for name, value in zip(sources, values, strict=True)
        ]
        return np.array(found, np.int32)

    @property
    def program(self) -> Program:
        """The templates as compiled code reads them."""
        return self._compiled.program

    @property
    def table(self) -> Table:
        """The vocabulary as compiled code reads it."""
        return self._table

    # -- names and files -------------------------------------------------------------------------

    @property
    def column_names(self) -> list[str]:
        """The names of the columns in templates."""
        return names_of_columns(self.template.column_names, self.n_columns)

    def names(self, ids: Iterable[int] | None = None) -> list[str]:
        """The attribute behind each number; ``#number`` when they are hashed."""
        if self._hash_size is None:
            return super().names(ids) if self.n_attributes else []
        return [f"#{k}" for k in (range(self._hash_size) if ids is None else ids)]

    def _digits(self, group: int, ids: np.ndarray) -> list[tuple[str, np.ndarray]]:
        keys, found = self._keys[ids] - self._compiled.group_base[group], []
        fields = self._bound[self._groups[group][0]].fields
        for place in reversed(range(len(fields) + 1)):
            if place < len(fields):
                keys, digits = np.divmod(keys, len(self._spaces[fields[place].source]))
                found.append((fields[place].source, digits))
            if (group, place) in self._joints:
                keys = self._joints[group, place][keys]
        return found[::-1]

    def state(self) -> dict[str, Any]:
        """All that a model file must hold: arrays, and plain JSON values."""
        places, none = sorted(self._joints), np.empty(0, np.int64)
        is_hashed = self._hash_size is not None or not self.n_attributes
        group_of = none if is_hashed else self.template_of(np.arange(self.n_attributes))
        return {
            "template": self.template.text,
            "template_syntax": self.template.syntax,
            "column_names": list(self.template.column_names),
            "gazetteers": [[each.name, list(each.entries)] for each in self.template.gazetteers],
            "part": self.part,
            "n_columns": self.n_columns,
            "hash_size": self._hash_size or 0,
            "strings": [list(space) for space in self._distinct_spaces()],
            "keys": none if is_hashed else self._keys - self._compiled.group_base[group_of],
            "group_of": group_of.astype(np.int32),
            "squeezed_places": np.array(places, dtype=np.int32).reshape(-1, 2),
            "squeezed_ptr": offsets([len(self._joints[each]) for each in places]),
            "squeezed_keys": np.concatenate([none, *(self._joints[each] for each in places)]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AttributeExtractor:
        """Rebuild from what ``state`` returned; raises if its parts do not fit together."""
        if state["template_syntax"] == "crf++":
            template = parse_crfpp(state["template"])
        else:
            lists = [checked_gazetteer(*each) for each in state.get("gazetteers", ())]
            template = parse_template(state["template"], state["column_names"], gazetteers=lists)
        extractor = cls(template, state["part"])
        extractor._bind(int(state["n_columns"]), int(state["hash_size"]) or None)
        extractor.n_attributes = extractor._hash_size or 0
        pieces = np.split(np.array(state["squeezed_keys"], dtype=np.int64), state["squeezed_ptr"][1:-1])
        places = np.array(state["squeezed_places"]).reshape(-1, 2)
        joints = {(int(g), int(p)): keys for (g, p), keys in zip(places, pieces, strict=False)}
        keys, group_of = np.array(state["keys"], np.int64), np.array(state["group_of"], np.int64)
        extractor._take(list(state["strings"]), joints, keys, group_of)
        return extractor

    def _take(
        self,
        strings: list[list[str]],
        joints: dict[tuple[int, int], np.ndarray],
        keys: np.ndarray,
        group_of: np.ndarray,
    ) -> None:
        """Take strings, joints, and the key of each attribute within its group."""
        spaces = self._distinct_spaces()
        if len(strings) != len(spaces) or group_of.max(initial=-1) >= len(self._groups):
            raise InputError("the vocabulary does not belong to the template")
        if self._hash_size is not None:
            return
        for space, own in zip(spaces, strings, strict=True):
            space.clear()
            space.update(zip(own, count(), strict=False))
        self._joints, sizes = joints, []
        for group, members in enumerate(self._groups):
            size = 1
            for place, field in enumerate(self._bound[members[0]].fields):
                if (known := joints.get((group, place))) is not None:
                    if known.max(initial=-1) >= size:
                        raise InputError("the vocabulary of this model is damaged")
                    size = len(known)
                size *= len(self._spaces[field.source])
            sizes.append(size)
        if (keys >= np.array([*sizes, 1], object)[group_of]).any():
            raise InputError("the vocabulary of this model is damaged")
        # Older files have keys up to 2^62 in every group, not in all of them together.
        for group in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
            if sum(sizes) > KEY_LIMIT:
                own = group_of == group
                known = joints[group, len(self._bound[self._groups[group][0]].fields)] = np.unique(keys[own])
                keys[own], sizes[group] = _number(keys[own], known), len(known)
        self._compile_vocabulary()
        self._learn(self._compiled.group_base[group_of] + keys)


def _joint(group: int, place: int, combination: int) -> str:
    """The name of a joint's source; no column has such a name."""
    return f"joint {group}.{place}.{combination}"


def _number(keys: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The index of each key among the known ones, which are sorted; -1 if it is not there."""
    if len(known) == 0:
        return np.full_like(keys, -1)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[places] == keys, places, -1)
