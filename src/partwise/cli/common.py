"""What the commands share: consoles, loading models, and how data is read for a model."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TextIO

from partwise.errors import InputError
from partwise.report.json_values import finite_only

if TYPE_CHECKING:
    from rich.console import Console

    from partwise.cli.tasks import Task


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


def load_with_header(path: str) -> tuple[Any, dict[str, Any]]:
    """The estimator in a model file, and the file's header."""
    from partwise.storage.model_file import estimator_from, load_model

    header, arrays = load_model(path)
    return estimator_from(header, arrays, path), header


def load_task(path: str, format: str | None) -> Task:
    """The model in a file with what reads its data, by the model's own options but for a format that is given."""
    from partwise.cli.tasks import task_of

    estimator, header = load_with_header(path)
    return task_of(estimator, DataOptions.of(header, path), path, format)


def error_console(quiet: bool = False) -> Console | None:
    """A console on standard error, or none."""
    return None if quiet else _console(stderr=True)


def output_console() -> Console:
    """A console on standard output, wide enough for tables when it is a pipe."""
    standard_output()
    return _console(highlight=False)


def _console(**settings: Any) -> Console:
    from rich.console import Console

    class PlainConsole(Console):
        """Leaves a broken pipe to `main`; Rich would exit on the spot."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = PlainConsole(**settings)
    return console if console.is_terminal else PlainConsole(**settings, width=120)


def standard_output() -> TextIO:
    """Standard output, or an error where there is none."""
    if sys.stdout is None:
        raise InputError("standard output is closed")
    return sys.stdout


def text_output() -> TextIO:
    """Standard output for text that must leave as it came, whatever the locale and the platform's line ends."""
    target = standard_output()
    reconfigure = getattr(target, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
    return target


def write_lines(handle: TextIO, lines: list[str]) -> None:
    """Write lines so that whoever reads them as they arrive sees them now."""
    handle.write("".join(line + "\n" for line in lines))
    handle.flush()


def write_page_to(path: str, page: str) -> None:
    """Write an HTML page to a file, or to standard output for "-"."""
    from partwise.report.html import write_page

    if path == "-":
        text_output().write(page)
    else:
        write_page(path, page)


def print_json(values: dict[str, Any]) -> None:
    """One JSON object on standard output; what JSON cannot say (nan, inf) becomes null."""
    target = standard_output()
    in_full = (getattr(target, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    target.write(json.dumps(finite_only(values), ensure_ascii=not in_full) + "\n")
