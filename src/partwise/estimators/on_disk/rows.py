"""Rows of features on their way to disk: which weights exist, and entries as compiled code reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from partwise.core.maps import FeatureMap, Pairs, pairs_in
from partwise.core.rows import AttributeRows
from partwise.core.streamed import ROW_ARRAYS
from partwise.features.streamed import Tell
from partwise.storage.folder import ArrayFile, FolderWriter

_LARGEST_TABLE = 2**26  # pairs that are marked in a table, a byte each; more are kept sorted
_MANY = 2**22
_DTYPES = {
    "wide_ptr": np.int64, "wide_start": np.int32, "wide_value": np.float32, "narrow_ptr": np.int64,
    "narrow_start": np.int32, "narrow_count": np.int32, "narrow_value": np.float32,
}  # fmt: skip
_VALUES = ("wide_value", "narrow_value")

LabelledRows = Callable[[], Iterable[tuple[AttributeRows, np.ndarray]]]


class SeenPairs:
    """The (attribute, label) pairs of batches of rows.

    Parameters
    ----------
    n_attributes, width : int
        Attributes there are, and labels.
    """

    def __init__(self, n_attributes: int, width: int):
        self.n_attributes, self.width = n_attributes, width
        is_small = n_attributes * width <= _LARGEST_TABLE
        self._table = np.zeros(n_attributes * width, bool) if is_small else None
        self._sorted, self._new = np.zeros(0, np.int64), [np.zeros(0, np.int64)]

    def add(self, rows: AttributeRows, labels: np.ndarray) -> None:
        """Those of rows with these labels, −1 where unknown."""
        self.add_pairs(pairs_in(rows, labels, self.width))

    def add_pairs(self, pairs: np.ndarray) -> None:
        """Each attribute · width + label."""
        if self._table is not None:
            self._table[pairs] = True
            return
        self._new.append(np.unique(pairs))
        if sum(map(len, self._new)) > max(_MANY, len(self._sorted)):
            self._merge()

    def _merge(self) -> None:
        self._sorted, self._new = np.unique(np.concatenate([self._sorted, *self._new])), []

    def feature_map(self) -> FeatureMap:
        """Weights for these pairs."""
        self._merge()
        found = self._sorted if self._table is None else np.flatnonzero(self._table)
        return FeatureMap.of_pairs(self.width, self.n_attributes, 0, found)


def placed(
    n_attributes: int, width: int, pairs: Pairs, rows: LabelledRows, always: np.ndarray | None = None
) -> FeatureMap:
    """Weights for all pairs of attribute and label, or for those of batches of rows and their labels.

    Parameters
    ----------
    rows : callable
        Gives the batches; not asked where all pairs have weights.
    always : int64 array or None
        Pairs that have weights though no row has them.
    """
    if pairs == "all":
        return FeatureMap.build(width, n_attributes)
    seen = SeenPairs(n_attributes, width)
    if always is not None:
        seen.add_pairs(always)
    for batch, labels in rows():
        seen.add(batch, labels)
    return seen.feature_map()


def map_arrays(name: str, feature_map: FeatureMap) -> dict[str, np.ndarray]:
    """What a folder keeps of where the weights of a kind lie."""
    return {
        f"{name}.{part}": getattr(feature_map, part) for part in ("start", "count", "narrow_label", "mask")
    }


def write_rows(
    writer: FolderWriter, name: str, feature_map: FeatureMap, rows: Iterable[AttributeRows]
) -> None:
    """Write batches of rows of the kind `name` as one array of each of ``ROW_ARRAYS``."""
    files = {each: writer.array(f"{name}.{each}", _DTYPES[each]) for each in ROW_ARRAYS}
    for way in ("wide", "narrow"):
        files[f"{way}_ptr"].write(np.zeros(1, np.int64))
    for batch in rows:
        entries = feature_map.entries(batch)
        for way in ("wide", "narrow"):
            before = files[f"{way}_start"].n
            files[f"{way}_ptr"].write(entries[f"{way}_ptr"][1:] + before)
            values = entries[f"{way}_value"]
            files[f"{way}_start"].write(entries[f"{way}_start"])
            if way == "narrow":
                files["narrow_count"].write(entries["narrow_count"])
            if batch.values is not None:
                _write_ones(files[f"{way}_value"], before)
                files[f"{way}_value"].write(values)
    if any(files[each].n for each in _VALUES):
        for way in ("wide", "narrow"):
            _write_ones(files[f"{way}_value"], files[f"{way}_start"].n)


def write_dense_rows(
    writer: FolderWriter, name: str, feature_map: FeatureMap, blocks: Iterable[np.ndarray], tell: Tell
) -> None:
    """Write rows of the kind `name` that have dense attributes and no others, (n, n_dense) at a time."""
    dense = writer.array(f"{name}.dense", np.float32, feature_map.n_dense)

    def without_entries() -> Iterator[AttributeRows]:
        for block in blocks:
            dense.write(block)
            yield AttributeRows(np.zeros(len(block) + 1, np.int64), np.zeros(0, np.int32))

    write_rows(writer, name, feature_map, told(without_entries(), "writing rows", tell))


def told(batches: Iterable[AttributeRows], what: str, tell: Tell) -> Iterator[AttributeRows]:
    """The batches, telling of each how many rows there were."""
    done = 0
    for each in batches:
        yield each
        done += len(each.row_ptr) - 1
        tell(what, done)


def _write_ones(file: ArrayFile, n: int) -> None:
    """Values of the entries so far that have none, which are 1."""
    while file.n < n:
        file.write(np.ones(min(n - file.n, 1 << 20), np.float32))
