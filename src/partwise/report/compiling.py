"""One line that says that code is being compiled, so that nobody takes it for a program that hangs."""

from __future__ import annotations

from typing import TextIO

from partwise.report.progress import duration


class CompilingLine:
    """Tells of compiling on a stream, for `partwise.compiled.clock.telling`.

    A terminal's line is rewritten as time goes by; elsewhere there is one line at the beginning and one at the end.
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
    """What is compiled, how often that happens, and how long it has taken."""
    return f"compiling for {subject}, which happens once per machine: {duration(seconds)} so far"


def compiled_words(seconds: float) -> str:
    """The total."""
    return f"compiled in {duration(seconds)} (once per machine)"
