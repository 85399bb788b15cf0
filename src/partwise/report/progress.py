"""Live display of training: passes, primal, dual, gap, dev score, time left; plain lines in a pipe."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.solvers.driver import Progress

_SHORTEST_REFRESH = 0.1  # seconds between two updates of a terminal: more often would flicker
_LONGEST_SILENCE = 10.0  # seconds between two lines if there is no terminal
_ROWS_SHOWN = 8  # certificates that the live table shows
_FEWEST_GAPS = 5  # gaps before the time left is estimated: the first passes tell little about the rate


class TrainingDisplay:
    """A callback for ``fit`` that shows progress. A ≈ marks estimates; numbers without it are certified.

    Parameters
    ----------
    tol : float
        The relative gap aimed at.
    console : rich.console.Console or None
        Where to draw; None shows nothing and only keeps the dev scores.
    dev_score : callable or None
        Score of a weight vector on the dev data, called at every certificate.

    Attributes
    ----------
    dev_scores : list of (passes, score)
    seconds_before : float
        Seconds from the start of the fit to that of the solver: encoding. The times shown include them.
    """

    def __init__(self, tol: float, console: Any = None, dev_score: Callable[[Any], float] | None = None):
        self.tol = tol
        self.console = console
        self.dev_score = dev_score
        self.dev_scores: list[tuple[float, float]] = []
        self.seconds_before = 0.0
        self._gaps: list[tuple[float, float]] = []
        self._correction = 1.0
        self._rows: list[tuple[str, ...]] = []
        self._live: Any = None
        self._refreshed = time.monotonic()
        self._compiling = False

    def __enter__(self) -> TrainingDisplay:
        if self.console is not None and self.console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
            self._refreshed = 0.0
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, progress: Progress) -> None:
        """Show one step; never asks to stop."""
        gap = relative_gap(progress)
        self._note_gap(progress, gap)
        if progress.record is not None:
            if self.dev_score is not None:
                self.dev_scores.append((progress.passes, self.dev_score(progress.weights)))
            self._rows.append(self._row(progress, progress.record.primal, progress.record.dual, gap))
            if self.console is not None and self._live is None:
                line = self._line(self._rows[-1]) + progress.record.note
                self.console.print(line, highlight=False, soft_wrap=True, markup=False)
        wait = _LONGEST_SILENCE if self._live is None else _SHORTEST_REFRESH
        if progress.record is None and time.monotonic() < self._refreshed + wait:
            return
        self._refreshed = time.monotonic()
        if self._live is not None:
            self._live.update(self._table(progress, gap), refresh=True)
        elif progress.record is None and self.console is not None:
            estimate = f"  gap ≈ {gap:.2e}" if math.isfinite(gap) else ""
            text = f"pass {progress.passes:>6.2f}{estimate}  {self._elapsed(progress)}"
            self.console.print(text, highlight=False, soft_wrap=True)

    def say(self, lines: list[str]) -> None:
        """Print lines above the table."""
        if self.console is not None:
            for line in lines:
                self.console.print(line, highlight=False, soft_wrap=True, markup=False)

    def compiling(self, subject: str, seconds: float, is_done: bool) -> None:
        """Say that code is being compiled; for `partwise.compiled.clock.telling`."""
        from partwise.report.compiling import compiled_words, compiling_words

        if self.console is None:
            return
        if is_done:
            self.console.print(compiled_words(seconds), highlight=False, soft_wrap=True)
        elif self._live is not None:
            self._live.update(compiling_words(subject, seconds), refresh=True)
        elif not self._compiling:
            self.console.print(compiling_words(subject, seconds), highlight=False, soft_wrap=True)
        self._compiling = not is_done

    def _note_gap(self, progress: Progress, gap: float) -> None:
        """Keep the solver's estimates of the gap; certificates show their error."""
        estimate = estimated_relative_gap(progress)
        if estimate > 0:
            self._gaps.append((progress.seconds, estimate))
            if progress.record is not None and 0 < gap < math.inf:  # approximate sums have no bound: inf
                self._correction = gap / estimate
        elif 0 < gap < math.inf:
            self._gaps.append((progress.seconds, gap))

    def _row(self, progress: Progress, primal: float, dual: float, gap: float) -> tuple[str, ...]:
        dev = f"{self.dev_scores[-1][1]:.4f}" if self.dev_scores else ""
        left = 0.0 if gap <= self.tol else seconds_left(self._gaps, self.tol / self._correction, progress)
        return (
            f"{progress.passes:.1f}", number(primal), number(dual), f"{gap:.2e}", dev,
            self._elapsed(progress), duration(left),
        )  # fmt: skip

    def _elapsed(self, progress: Progress) -> str:
        return duration(self.seconds_before + progress.seconds)

    def _line(self, row: tuple[str, ...]) -> str:
        passes, primal, dual, gap, dev, elapsed, left = row
        text = f"pass {passes:>6}  primal {primal:>12}  dual {dual:>12}  gap {gap}"
        return text + (f"  dev {dev}" if dev else "") + f"  {elapsed}  left {left or '?'}"

    def _table(self, progress: Progress, gap: float) -> Any:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
        for title in ("passes", "primal", "dual", "relative gap", "dev", "time", "left"):
            if title != "dev" or self.dev_score is not None:
                table.add_column(title, justify="right", no_wrap=True)
        rows = list(self._rows[-_ROWS_SHOWN:])
        styles = ["dim"] * len(rows)
        if progress.record is None:
            primal = progress.dual + progress.estimated_gap
            passes, *bounds, shown, dev, elapsed, left = self._row(progress, primal, progress.dual, gap)
            rows.append((passes, *map(_about, bounds), _about(shown), dev, elapsed, left))
            styles.append("italic")
        for row, style in zip(rows, [*styles[:-1], "bold" if progress.record else "italic"], strict=True):
            cells = row if self.dev_score is not None else (*row[:4], *row[5:])
            table.add_row(*cells, style=style)
        return table


def _about(text: str) -> str:
    """Mark an estimate; an unknown number stays empty."""
    return f"≈ {text}" if text and text != "nan" else ""


def relative_gap(progress: Progress) -> float:
    """The certified gap if there is one, else the solver's estimate; nan if it has none."""
    if progress.record is not None:
        return float(progress.record.relative_gap)
    return estimated_relative_gap(progress)


def estimated_relative_gap(progress: Progress) -> float:
    """The solver's estimate of the gap; nan if it has none."""
    return progress.estimated_gap / max(abs(progress.dual + progress.estimated_gap), 1e-12)


def seconds_left(gaps: list[tuple[float, float]], tol: float, progress: Progress | None = None) -> float:
    """Seconds until the gap reaches `tol` if its logarithm goes on falling as it has lately; nan if unknown.

    Parameters
    ----------
    gaps : list of (seconds, relative gap)
    progress : Progress or None
        If given, the estimate never goes beyond max_passes.
    """
    latest = math.inf
    if progress is not None and progress.passes > 0:
        latest = progress.seconds / progress.passes * max(progress.max_passes - progress.passes, 0.0)
    if gaps and gaps[-1][1] <= tol:
        return 0.0
    recent = gaps[-max(_FEWEST_GAPS, len(gaps) // 2) :]
    if len(recent) < _FEWEST_GAPS:
        return math.nan
    n = len(recent)
    mean_x = sum(seconds for seconds, _ in recent) / n
    mean_y = sum(math.log(gap) for _, gap in recent) / n
    spread = sum((seconds - mean_x) ** 2 for seconds, _ in recent)
    slope = sum((seconds - mean_x) * (math.log(gap) - mean_y) for seconds, gap in recent)
    if spread <= 0 or slope >= 0:
        return math.nan
    return min(math.log(gaps[-1][1] / tol) / (-slope / spread), latest)


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 07 min``; empty for nan."""
    if not math.isfinite(seconds):
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def number(value: float) -> str:
    """Seven significant digits, grouped; empty for nan."""
    return f"{value:,.7g}" if math.isfinite(value) else ""
