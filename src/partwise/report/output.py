"""Consoles, text, JSON and pages on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

from partwise.errors import InputError
from partwise.report.json_values import finite_only

if TYPE_CHECKING:
    from rich.console import Console


def error_console(quiet: bool = False) -> Console | None:
    """A console on standard error, or none."""
    return None if quiet else _console(stderr=True)


def output_console() -> Console:
    """A console on standard output. A pipe gets 120 columns, enough for tables."""
    standard_output()
    return _console(highlight=False)


def _console(**settings: Any) -> Console:
    from rich.console import Console

    class PlainConsole(Console):
        """Raises on a broken pipe, so that `main` handles it; Rich would exit."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = PlainConsole(**settings)
    return console if console.is_terminal else PlainConsole(**settings, width=120)


def standard_output() -> TextIO:
    """Standard output, or an error if it is closed."""
    if sys.stdout is None:
        raise InputError("standard output is closed")
    return sys.stdout


def text_output() -> TextIO:
    """Standard output as UTF-8 without changed line ends, whatever the locale and the platform."""
    target = standard_output()
    reconfigure = getattr(target, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
    return target


def write_text(handle: TextIO, text: str) -> None:
    """Write text at once, for programs that read it as it arrives."""
    handle.write(text)
    handle.flush()


def write_page_to(path: str, page: str) -> None:
    """Write an HTML page to a file, or to standard output for "-"."""
    from partwise.report.html import write_page

    if path == "-":
        text_output().write(page)
    else:
        write_page(path, page)


def open_in_browser(address: str) -> None:
    """Open a page in the user's browser, or say that there is none."""
    import webbrowser

    if not webbrowser.open(address):
        console = error_console()
        if console is not None:
            console.print(f"no browser to open {address} with", soft_wrap=True, markup=False)


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object on standard output; nan and inf become null."""
    target = standard_output()
    in_full = (getattr(target, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    target.write(json.dumps(finite_only(values), ensure_ascii=not in_full) + "\n")
