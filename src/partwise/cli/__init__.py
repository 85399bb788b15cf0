"""The command line: one app, and one place where bad input becomes one line and exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from partwise.cli import compile as compile_command
from partwise.cli import demo, evaluate, inspect, predict, report, train
from partwise.cli.common import add_command
from partwise.compiled.clock import telling
from partwise.errors import InputError
from partwise.report.compiling import CompilingLine

app = typer.Typer(
    name="partwise",
    help="Structured prediction trained in the dual, with a certificate of how far it is from the optimum.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in boxes takes as long again to start
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_command(app, "demo", demo.demo)
app.add_typer(train.app, name="train")
add_command(app, "predict", predict.predict)
add_command(app, "evaluate", evaluate.evaluate)
add_command(app, "inspect", inspect.inspect)
add_command(app, "report", report.report)
add_command(app, "compile", compile_command.compile_ahead)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 2 bad input, 130 interrupted.

    Parameters
    ----------
    arguments : sequence of str or None
        Instead of ``sys.argv[1:]``.
    """
    code: object = 0
    try:
        with telling(CompilingLine(sys.stderr)):
            code = typer.main.get_command(app).main(arguments, prog_name="partwise", standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        code = _fail(str(error))
    except MemoryError:
        code = _fail("out of memory; try --hash-size, --min-count or fewer data")
    except KeyboardInterrupt:
        print("partwise: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        # The reader of our output has gone; the interpreter must not try to flush into the void.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception as error:
        # Exceptions for wrong usage have these two, whether typer brings its own click or not.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        message = error.format_message()
        code = (
            _fail(" ".join(message.split()))
            if type(error).__name__ != "NoArgsIsHelpError"
            else _show(message)
        )
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> int:
    print(f"partwise: {message}", file=sys.stderr)
    return 2


def _show(message: str) -> int:
    if message:
        print(message, file=sys.stderr)
    return 2
