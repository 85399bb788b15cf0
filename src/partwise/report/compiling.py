"""A line that says that code is being compiled, so that the program does not seem to hang."""

from __future__ import annotations

from typing import TextIO

from partwise.report.progress import duration


class CompilingLine:
    """Prints that code is compiled, for `partwise.compiled.clock.telling`.

    On a terminal, one line is updated. Elsewhere, one line is printed at the beginning and one at the end.
    """

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.is_terminal = stream.isatty()
        self._begun = False

    def __call__(self, subject: str, seconds: float, is_done: bool) -> None:
        text = compiled_words(seconds) if is_done else compiling_words(subject, seconds)
        if self.is_terminal:
            self.stream.write(f"\r\x1b[K{text}" + "\n" * is_done)
        elif is_done or not self._begun:
            self.stream.write(f"{text}\n")
        self._begun = not is_done
        self.stream.flush()


def compiling_words(subject: str, seconds: float) -> str:
    """The subject, that this happens once per machine, and the time so far."""
    return f"compiling for {subject}, which happens once per machine: {duration(seconds)} so far"


def compiled_words(seconds: float) -> str:
    """The total time."""
    return f"compiled in {duration(seconds)} (once per machine)"
