"""From templates to the program that compiled code runs: every template a range of keys, every field a digit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from partwise.core.arrays import offsets
from partwise.errors import InputError
from partwise.features.keys.records import Program
from partwise.features.keys.rows import ABSENT
from partwise.features.templates import RELATION, SEVERAL, Combination, Field, Kind

# Keys are sums of two absent parts at worst, which must not overflow 64 bits.
KEY_LIMIT = 2**62


class Compiled(NamedTuple):
    """Templates in the order of the program.

    Attributes
    ----------
    program : Program
    combinations : list of Combination
        Those with several values come last.
    strides : list of list of int
        The worth of each field's digit in a key.
    sizes : list of list of int
        The number of codes of each field.
    group_of : list of int
        Combinations of one group share their features.
    by_size : int64 (n_groups,)
        The groups in the order of their keys. Those with few keys come first, so that the lowest keys can be found
        without a search.
    group_base : int64 (n_groups,)
        Where the keys of each group begin.
    file_base : int64 (n_groups,)
        Where they begin in model files, which have the groups in order.
    size : int
        Keys are below it.
    """

    program: Program
    combinations: list[Combination]
    strides: list[list[int]]
    sizes: list[list[int]]
    group_of: list[int]
    by_size: np.ndarray
    group_base: np.ndarray
    file_base: np.ndarray
    size: int

    def group_of_keys(self, keys: np.ndarray) -> np.ndarray:
        """The group of each key, int64."""
        return self.by_size[np.searchsorted(self.group_base[self.by_size], keys, side="right") - 1]

    def in_files(self, keys: np.ndarray) -> np.ndarray:
        """Keys as model files have them."""
        return keys + (self.file_base - self.group_base)[self.group_of_keys(keys)]

    def from_files(self, keys: np.ndarray) -> np.ndarray:
        """Keys of a model file."""
        group = np.searchsorted(self.file_base, keys, side="right") - 1
        return keys + (self.group_base - self.file_base)[group]


def compile_templates(
    combinations: Sequence[Combination],
    kind: Kind,
    sizes: Mapping[str, int],
    windows: Sequence[str],
    relations: Mapping[str, np.ndarray],
    outside: np.ndarray,
) -> Compiled:
    """Translate templates.

    Parameters
    ----------
    combinations : sequence of Combination
    kind : Kind
    sizes : dict of str to int
        The number of codes of each source, in the order of the rows of codes.
    windows : sequence of str
        The sources whose values are those of all words of a row.
    relations : dict of str to int64 array (n_numbers,)
        For each number of a row's relations, the value of each relation; -1 for none.
    outside : int64 array (n_sources, 2 * reach)
        Codes of places outside the sentence.
    """
    ordered = sorted(combinations, key=lambda each: each.has_several)
    size_of = dict(sizes) | {name: int(values.max()) + 1 for name, values in relations.items()}
    radices = [[size_of[f.source] for f in each.fields] for each in ordered]
    strides, totals, size = [], [], 0
    groups: dict[tuple[str, ...], int] = {}
    for each, own in zip(ordered, radices, strict=True):
        *worth, total = accumulate(own[::-1] if kind.first_field_highest else own, int.__mul__, initial=1)
        strides.append(worth[::-1] if kind.first_field_highest else worth)
        if each.pieces not in groups:
            groups[each.pieces] = len(groups)
            totals.append(total)
            size += total
            if size > KEY_LIMIT:
                raise InputError(
                    f"{kind.name} templates have too many combinations of values (up to {each.text()}); "
                    "use fewer fields"
                )
    group_of = [groups[each.pieces] for each in ordered]
    by_size = np.argsort(np.array(totals, np.int64), kind="stable")
    group_base = np.empty(len(totals), np.int64)
    group_base[by_size] = offsets(np.array(totals, np.int64)[by_size])[:-1]
    file_base = offsets(np.array(totals, np.int64))[:-1]
    rows = {name: row for row, name in enumerate(sizes)}
    digits = [
        list(zip(each.fields, worth, strict=True)) for each, worth in zip(ordered, strides, strict=True)
    ]
    program = _program(
        kind,
        digits,
        rows,
        {name: k for k, name in enumerate(windows)},
        relations,
        outside,
        group_base[group_of],
    )
    return Compiled(program, ordered, strides, radices, group_of, by_size, group_base, file_base, size)


Digits = list[list[tuple[Field, int]]]  # the fields of each template, and the worth of each


def _program(
    kind: Kind,
    digits: Digits,
    rows: Mapping[str, int],
    windows: Mapping[str, int],
    relations: Mapping[str, np.ndarray],
    outside: np.ndarray,
    base: np.ndarray,
) -> Program:
    def stride_of(*places: str, source: str = "") -> np.ndarray:
        """The stride of such a field in every template, int64 (n_templates,); 0 if a template has none."""
        found = [
            sum(s for f, s in fields if f.place in places and source in ("", f.source)) for fields in digits
        ]
        return np.array(found, np.int64)

    places = [*kind.places, *[None] * (kind.n_places - len(kind.places))]
    pieces = [
        [[(rows[f.source], f.offset, s) for f, s in fields if f.place == p and f.source != "feat"] for fields in digits]
        for p in places
    ]  # fmt: skip
    flat = np.array([each for side in pieces for own in side for each in own], np.int64).reshape(-1, 3)
    ends = offsets([len(own) for side in pieces for own in side])
    n = len(digits)
    in_windows = [[(windows[f.source], s) for f, s in fields if f.source in windows] for fields in digits]
    window = np.array([each for own in in_windows for each in own], np.int64).reshape(-1, 2)
    relation_part = np.zeros((max(map(len, relations.values()), default=1), n), np.int64)
    for name, values in relations.items():
        stride = stride_of(RELATION, source=name)
        relation_part += np.where((values < 0)[:, None] & (stride > 0), ABSENT, values[:, None] * stride)
    several = [next((rows[f.source] for f, _ in fields if f.place in SEVERAL), 0) for fields in digits]
    return Program(
        n_simple=sum(
            not any(f.place in SEVERAL or f.source == "feat" for f, _ in fields) for fields in digits
        ),
        base=np.ascontiguousarray(base, np.int64),
        piece_ptr=np.stack([ends[k * n : (k + 1) * n + 1] for k in range(kind.n_places)]),
        piece_source=np.ascontiguousarray(flat[:, 0]),
        piece_offset=np.ascontiguousarray(flat[:, 1]),
        piece_stride=np.ascontiguousarray(flat[:, 2]),
        relation_part=np.maximum(relation_part, ABSENT),
        window_ptr=offsets([len(own) for own in in_windows]),
        window_row=np.ascontiguousarray(window[:, 0]),
        window_stride=np.ascontiguousarray(window[:, 1]),
        feature_stride=np.stack([stride_of(p, source="feat") for p in (*kind.places, "")[:2]]),
        several_stride=stride_of(*SEVERAL),
        several_source=np.array(several, np.int64),
        outside_code=np.ascontiguousarray(outside, np.int64),
    )
