"""Live table of a path of l2: one row per value, and progress at the current value; plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from partwise.report.progress import duration, number, relative_gap

if TYPE_CHECKING:
    from partwise.solvers.driver import Progress

_SHORTEST_REFRESH = 0.1  # seconds between two updates of a terminal: more often would flicker
_LONGEST_SILENCE = 10.0  # seconds between two lines if there is no terminal
_ROWS_SHOWN = 24  # a terminal has about as many lines


class PathDisplay:
    """Shows the points of a path during training.

    Parameters
    ----------
    console : rich.console.Console or None
        Where to draw; None shows nothing.
    """

    def __init__(self, console: Any):
        self.console, self.score_name = console, "score"
        self.records: list[Mapping[str, Any]] = []
        self._live: Any = None
        self._refreshed = time.monotonic()

    def __enter__(self) -> PathDisplay:
        if self.console is not None and self.console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self.console.print(path_table(self.records, self.score_name))

    def point(self, record: Mapping[str, Any]) -> None:
        """Training at one value ended."""
        self.records.append(record)
        self.score_name = record.get("score_name", self.score_name)
        if self._live is not None:
            self._live.update(path_table(self.records, self.score_name), refresh=True)
        elif self.console is not None:
            self._print("  ".join(f"{title} {cell}" for title, cell in _cells(record, self.score_name)))

    def progress(self, progress: Progress) -> None:
        """A step of training at the current value."""
        wait = _LONGEST_SILENCE if self._live is None else _SHORTEST_REFRESH
        if self.console is None or time.monotonic() < self._refreshed + wait:
            return
        self._refreshed = time.monotonic()
        text = f"value {len(self.records) + 1}: pass {progress.passes:.1f}, gap {relative_gap(progress):.1e}"
        if self._live is None:
            self._print(text)
        else:
            from rich.console import Group

            self._live.update(Group(path_table(self.records, self.score_name), text), refresh=True)

    def say(self, text: str) -> None:
        """Print a line above the table."""
        if self.console is not None:
            self._print(text)

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)


def path_table(records: list[Mapping[str, Any]], score_name: str) -> Any:
    """The last points as a table, with the best one in bold."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    shown = [dict(_cells(record, score_name)) for record in records]
    for title in shown[0] if shown else ():
        table.add_column(title, justify="right", no_wrap=True)
    scores = [record["dev_score"] for record in records]
    best = max((score for score in scores if score is not None), default=None)
    for cells, score in list(zip(shown, scores, strict=True))[-_ROWS_SHOWN:]:
        table.add_row(*cells.values(), style="bold" if score is not None and score == best else "")
    return table


def _cells(record: Mapping[str, Any], score_name: str) -> list[tuple[str, str]]:
    cells = [
        ("l2", f"{record['l2']:.4g}"),
        ("objective", number(record["objective"])),
        ("gap", f"{record['gap']:.1e}"),
        ("passes", f"{record['passes']:.1f}"),
        ("time", duration(record["seconds"])),
        ("weights", f"{record['active_weights']:,}"),
    ]
    for key, title in (("train_score", f"train {score_name}"), ("dev_score", score_name)):
        if record[key] is not None:
            cells.append((title, f"{100 * record[key]:.2f}"))
    return cells
