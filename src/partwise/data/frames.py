"""Data from and for pandas: Series, DataFrames and groups.

Input is recognised by its methods; pandas is imported for output alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from partwise.errors import InputError


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame."""
    return hasattr(value, "iloc") and getattr(value, "ndim", 0) == 2


def is_series(value: Any) -> bool:
    return hasattr(value, "iloc") and getattr(value, "ndim", 0) == 1


def unpacked(values: Any) -> Any:
    """A Series or the result of groupby as a list, also a Series within a list; other values unchanged.

    Parameters
    ----------
    values : object
        Sequences, or the labels of sequences.
    """
    if hasattr(values, "ngroups"):  # (key, group) pairs
        values = [group for _, group in values]
    elif is_series(values):
        values = values.tolist()
    if isinstance(values, (list, tuple)) and any(map(is_series, values)):
        return [each.tolist() if is_series(each) else each for each in values]
    return values


def is_numeric(frame: Any) -> bool:
    """Whether all columns hold numbers."""
    return all(dtype.kind in "biuf" for dtype in frame.dtypes)


def as_dicts(frame: Any) -> list[dict[str, Any]]:
    """One dict per row, from names of columns to values; missing values are left out."""
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise InputError(f"a DataFrame has two columns of one name: {', '.join(names):.200}")
    columns, missing = _columns(frame)
    if not missing.any():
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [
        {name: value for name, value, absent in zip(names, row, gaps, strict=True) if not absent}
        for row, gaps in zip(zip(*columns, strict=True), missing.tolist(), strict=True)
    ]


def as_rows(frame: Any, name: str) -> list[tuple[str, ...]]:
    """One tuple of strings per row, in the order of the columns; other values are converted to strings."""
    columns, missing = _columns(frame)
    if missing.any():
        row, column = (int(places[0]) for places in missing.nonzero())
        title = str(frame.columns[column])
        raise InputError(
            f"{name}: the column {title!r:.60} has no value in row {row}; fill it, or leave it out"
        )
    texts = [[each if isinstance(each, str) else str(each) for each in column] for column in columns]
    return list(zip(*texts, strict=True))


def only_column(frame: Any, name: str) -> list[Any]:
    """The values of a DataFrame of one column."""
    if frame.shape[1] != 1:
        raise InputError(
            f"{name} is a DataFrame of {frame.shape[1]} columns; it must be one, such as frame['tag']"
        )
    return frame.iloc[:, 0].tolist()


def as_words(sequences: Any) -> list[list[str]]:
    """The words of sequences: of strings, of rows of strings that begin with the word, or of DataFrames."""
    sequences = sequences.row_sequences() if hasattr(sequences, "row_sequences") else unpacked(sequences)
    if isinstance(sequences, Iterable) and not isinstance(sequences, str):
        words = [_first_values(sequence) for sequence in sequences]
        if all(isinstance(word, str) for own in words for word in own):
            return words
    raise InputError("words must be lists of strings, or of rows of strings that begin with the word")


def _first_values(sequence: Any) -> list[Any]:
    """The first value of each row of a sequence; [None] if it is no sequence."""
    if is_frame(sequence):
        return sequence.iloc[:, 0].tolist()
    if isinstance(sequence, str) or not isinstance(sequence, Iterable):
        return [None]
    return [each[0] if isinstance(each, (list, tuple)) and each else each for each in sequence]


def _columns(frame: Any) -> tuple[list[list[Any]], Any]:
    """The columns as lists, and a mask of missing values, bool (n_rows, n_columns)."""
    return [frame.iloc[:, k].tolist() for k in range(frame.shape[1])], frame.isna().to_numpy()


def frame_of(rows: list[dict[str, Any]], columns: list[str] | None = None) -> Any:
    """Rows as a DataFrame; without rows, it has `columns`."""
    try:
        import pandas
    except ImportError:
        raise InputError("frames need pandas: pip install pandas") from None
    return pandas.DataFrame(rows, columns=columns)
