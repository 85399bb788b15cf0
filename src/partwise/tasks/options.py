"""Options of `partwise train NAME`, and how a data file is read, which is kept in model files.

A task describes its options as a dataclass whose fields are made by `option`. The docstring of the dataclass is the
help of the command.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from partwise.errors import InputError

STANDARD = "-"  # standard input or output, in place of a path


def option(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] = (),
    min: int | None = None,
    switch: str | None = None,
    reading: bool = False,
) -> Any:
    """A field of a dataclass that the command line offers as an option.

    Parameters
    ----------
    help : str
    choices : sequence of str
        The values that are allowed, if there are few.
    min : int, optional
        The smallest number that is allowed.
    switch : str, optional
        Of a bool: its two names, as "--tags/--no-tags".
    reading : bool
        Whether the option says how files are read; if not, it is a parameter of the estimator.
    """
    metadata = {"help": help, "choices": tuple(choices), "min": min, "switch": switch, "reading": reading}
    return field(default=default, metadata=metadata)


@dataclass
class TrainOptions:
    """Options of `partwise train` for one task; a subclass adds fields."""

    def check(self) -> None:
        """Raise unless options with few values have one of them."""
        for each in fields(self):
            choices, value = each.metadata.get("choices"), getattr(self, each.name)
            if choices and value not in choices:
                name = each.name.replace("_", "-")
                raise InputError(f"--{name} must be {' or '.join(choices)}, not {value!r:.40}")

    def parameters(self) -> dict[str, Any]:
        """Parameters of the estimator."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if not each.metadata["reading"]}
        path = found.pop("cost_file", None)
        return found if path is None else found | {"cost": read_costs(path)}

    def data(self) -> DataOptions:
        """How files are read."""
        names = {each.name for each in fields(self)} & {each.name for each in fields(DataOptions)}
        return DataOptions(**{"format": "auto"} | {name: getattr(self, name) for name in names})

    def files(self) -> dict[str, str | None]:
        """Files that options name, by the name of the option; None if it names none."""
        return {}


def cost_file() -> Any:
    """The option of tasks whose parts may have costs."""
    return option(
        None,
        'Costs of losses with a margin, as JSON: {"arc": [[0, 2], [1, 0]], "relation": "hamming"}, or a matrix.',
    )


def read_costs(path: str) -> Any:
    """Costs by kind of parts, or a matrix [true, predicted], from a file of JSON."""
    from partwise.data import read_text

    try:
        found = json.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"the costs are not JSON: {error}", path) from None
    if isinstance(found, dict) and found:
        return {
            kind: own if own == "hamming" else _cost_matrix(own, kind, path) for kind, own in found.items()
        }
    return _cost_matrix(found, "", path)


def _cost_matrix(rows: Any, kind: str, path: str) -> Any:
    """A square matrix of numbers, float64."""
    import numpy as np

    try:
        matrix = np.asarray(rows, np.float64)
    except (ValueError, TypeError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        what = f"the costs of {kind!r} are" if kind else "the file is"
        more = ' nor "hamming"' if kind else ' nor an object {"kind": costs}'
        raise InputError(f"{what} neither a square matrix [[true, predicted], …]{more}", path)
    return matrix


@dataclass
class FormatOption(TrainOptions):
    """For files whose format can be detected."""

    format: str = option("auto", "How the data are written; auto looks at them.", reading=True)


_SEPARATORS = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ","}


@dataclass
class ColumnOptions(FormatOption):
    """For files of columns."""

    separator: str | None = option(None, "Between columns: a character, tab, space, comma.", reading=True)
    comment: str | None = option(None, "Skip lines that start with this.", reading=True)

    def data(self) -> DataOptions:
        own = super().data()
        if own.separator is None:
            return own
        return replace(own, separator=_SEPARATORS.get(own.separator, own.separator))


def template_lines(path: str, what: str = "templates") -> list[str]:
    """The lines of a file of templates, without blank lines and comments."""
    from partwise.data import read_text

    lines = [line.strip() for line in read_text(path).splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise InputError(f"this file has no {what}", path)
    return found


@dataclass(frozen=True)
class DataOptions:
    """How a data file is read; kept in the model file, so that predict and evaluate read alike.

    Attributes
    ----------
    format : str
        "auto", or one of the task's `formats`.
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
        """The options in a model's header; the defaults for a model that Python saved."""
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
