"""The command line: a module per command, over the registry of tasks.

Read `train` first: it makes a command for each task, and `training` runs it. `options` describes the options that
commands share. This file is the app, and the one place that turns errors into one line and an exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from partwise import __version__
from partwise.cli import (
    calibrate,
    convert,
    demo,
    encode,
    evaluate,
    inspect,
    path,
    predict,
    report,
    serve,
    train,
)
from partwise.cli import compile as compile_command
from partwise.cli.interruption import Interrupted, ignore_further
from partwise.cli.options import add_command
from partwise.compiled.clock import telling
from partwise.errors import InputError
from partwise.report.compiling import CompilingLine

_ORDER = [
    "train",
    "predict",
    "evaluate",
    "path",
    "calibrate",
    "inspect",
    "report",
    "serve",
    "encode",
    "compile",
]


class _Commands(TyperGroup):
    """Lists commands in the order in which they are needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        others = [name for name in self.commands if name not in _ORDER]
        return [name for name in _ORDER if name in self.commands] + others


app = typer.Typer(
    name="partwise",
    cls=_Commands,
    help="Structured prediction trained in the dual, with a certificate of how far it is from the optimum.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in boxes would double the time to start
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(train.app, name="train")
add_command(app, "predict", predict.predict)
add_command(app, "evaluate", evaluate.evaluate)
app.add_typer(path.app, name="path")
add_command(app, "calibrate", calibrate.calibrate)
add_command(app, "convert", convert.convert)
add_command(app, "inspect", inspect.inspect)
add_command(app, "report", report.report)
add_command(app, "serve", serve.serve)
app.add_typer(encode.app, name="encode")
add_command(app, "compile", compile_command.compile_ahead)
add_command(app, "demo", demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"partwise {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and leave.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Options of the program itself."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 2 bad input, 130 interrupted, 141 output no longer read.

    Parameters
    ----------
    arguments : sequence of str or None
        Instead of ``sys.argv[1:]``.
    """
    _settle_streams()
    try:
        with telling(None if sys.stderr is None else CompilingLine(sys.stderr)):
            code = _run(arguments)
    except InputError as error:
        code = _fail(str(error))
    except MemoryError:
        code = _fail("out of memory; try --hash-size, --min-count or fewer data")
    except Interrupted as error:
        code = _fail(str(error), 130) if str(error) else 130
    except KeyboardInterrupt:
        ignore_further()
        code = _fail("interrupted", 130)
    except BrokenPipeError:
        _drop_output()
        code = 141
    except OSError as error:
        _drop_output()
        code = _fail(f"{error.filename or 'standard output'}: {error.strerror or error}")
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="partwise", standalone_mode=False)
        if code == 130:  # typer turns Ctrl-C into this code, without a message
            raise KeyboardInterrupt
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SystemExit as stop:  # Rich, while typer shows help
        if isinstance(stop.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        raise
    except Exception as error:
        # Exceptions for wrong usage have these two, whether typer brings its own click or not.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        message = error.format_message()
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        return _show(message) if is_help else _fail(" ".join(message.split()))


def _settle_streams() -> None:
    """Files opened later must not take the place of a closed stream; characters that cannot be printed are escaped."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Drop buffered output that nobody reads, so that the interpreter does not fail to flush it at its end."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _fail(message: str, code: int = 2) -> int:
    return _show(f"partwise: {message}", code)


def _show(message: str, code: int = 2) -> int:
    if message and sys.stderr is not None:
        with suppress(OSError):
            print(message, file=sys.stderr, flush=True)
    return code
