"""How a data file is read: part of every model file that a command wrote."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from partwise.errors import InputError

STANDARD = "-"  # standard input or output, in place of a path


@dataclass(frozen=True)
class DataOptions:
    """How a data file is read; kept in the model file, so that predict and evaluate read alike.

    Attributes
    ----------
    format : str
        "conll", "tagged", "jsonl" or "crfsuite" for sequences; "libsvm", "csv" or "npz" for classes; "conllu",
        "conllx" or "dp" for trees; "brackets", "export", "text" or "tagged" for constituents; "jsonl" for graphs.
    separator : str or None
        Between columns.
    label_column : int or str
        Number, negative from the right, or for CSV a name.
    comment : str or None
        Prefix of lines to skip.
    n_columns : int
        Input columns, the label not counted.
    header : bool
        Whether a CSV file starts with the names of its columns.
    """

    format: str
    separator: str | None = None
    label_column: int | str = -1
    comment: str | None = None
    n_columns: int = 0
    header: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, header: dict[str, Any], path: object) -> DataOptions:
        """The options stored in a model's header; the usual ones for a model that was not trained here."""
        stored = header.get("data")
        if stored is None:
            return cls("auto")
        kinds: dict[str, Any] = {
            "separator": (str, type(None)),
            "label_column": (int, str),
            "comment": (str, type(None)),
        }
        kinds |= {"format": (str,), "n_columns": (int,), "header": (bool,)}
        names = [each.name for each in fields(cls)]
        right = isinstance(stored, dict) and all(isinstance(stored.get(name), kinds[name]) for name in names)
        if not right:
            raise InputError("damaged model file: it does not say how its data is read", path)
        return cls(**{name: stored[name] for name in names})
