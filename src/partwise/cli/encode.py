"""`partwise encode NAME`: training data to a folder, for training that does not hold them in memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from partwise.cli.options import OneObject, task_app
from partwise.errors import InputError
from partwise.report.output import error_console, print_json
from partwise.tasks.options import STANDARD

# Seconds between two lines of progress: often enough to see that it works, seldom enough for a log file.
_WAIT = 2.0


class Telling:
    """Prints on standard error what is done and how far it is, at most every two seconds."""

    def __init__(self, quiet: bool):
        self._stream = None if quiet else sys.stderr
        self._told = time.monotonic()

    def __call__(self, what: str, n: int) -> None:
        now = time.monotonic()
        if self._stream is None or now < self._told + _WAIT:
            return
        self._told = now
        with suppress(OSError):
            print(f"{what}: {n:,}", file=self._stream, flush=True)


Train = Annotated[
    str, typer.Argument(help="Training data, plain or gzipped; - is standard input.", metavar="TRAIN")
]
Output = Annotated[
    str, typer.Option("--output", "-o", help="Folder to write; it must not exist.", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while encoding.")]


def encode_command(name: str) -> Callable[..., None] | None:
    """The command that encodes data of the task called `name`; None if the task's data cannot be encoded."""
    from partwise.tasks import encode_options, task_class

    offered = encode_options(name)
    if offered is None:
        return None

    def encode(
        *, train: Train, output: Output, options: Any, json: OneObject = False, quiet: Quiet = False
    ) -> None:
        _check_output(output)
        task = task_class(name)
        options.check()
        task.check_format(options.data().format)
        with _naming(train):
            done, sizes, found = task.encode(train, output, options, Telling(quiet))
        if json:
            print_json({"output": output, "format": found.format, **done._asdict()})
        console = error_console(quiet)
        if console is not None:
            words = f"{output}: read as {found.format}; {sizes}"
            console.print(words, markup=False, highlight=False, soft_wrap=True)

    encode.__annotations__["options"] = offered
    encode.__doc__ = offered.__doc__
    return encode


app = task_app("Encode training data to a folder, for training on more than fits in memory.", encode_command)


def _check_output(output: str) -> None:
    """Raise if the folder cannot be written, before hours of reading."""
    from partwise.storage.folder import folder_target

    if output == STANDARD:
        raise InputError("a dataset is written to a folder, not to standard output", "--output")
    folder_target(output)


@contextmanager
def _naming(train: str) -> Iterator[None]:
    """Errors that name no file name the training file."""
    try:
        yield
    except InputError as error:
        raise error if error.path else InputError(error.message, train) from None
