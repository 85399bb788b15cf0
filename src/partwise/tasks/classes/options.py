"""What `partwise train classify` and `partwise encode classify` offer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from partwise.tasks.options import ColumnOptions, DataOptions, cost_file, option


@dataclass
class RowOptions(ColumnOptions):
    """How rows with classes are read."""

    label_column: str = option("-1", "Column of the class: a number or, in CSV, a name.", reading=True)

    def data(self) -> DataOptions:
        column = self.label_column
        is_number = column.lstrip("+-").isdecimal()
        return replace(super().data(), label_column=int(column) if is_number else column)


@dataclass
class ClassOptions(RowOptions):
    """Train a classifier on a libsvm file, a table (CSV, TSV) with a column of classes, or an npz file.

    TRAIN may also be a folder that `partwise encode classify` wrote. Training then reads from the disk, with the
    --pairs of `partwise encode classify`.
    """

    cost_file: str | None = cost_file()


@dataclass
class EncodeOptions(RowOptions):
    """Encode rows with classes for `partwise train classify`.

    TRAIN is read once, in the formats that `partwise train classify` reads, and never held whole: weights and a few
    numbers a row are what must fit in memory. The folder appears when it is complete.
    """

    pairs: str = option(
        "all", "Weights for observed (feature, class) pairs, or all.", choices=("observed", "all")
    )
