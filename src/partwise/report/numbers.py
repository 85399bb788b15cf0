"""Numbers as people read them: ``0.1 %`` of a gap, ``6.2`` passes, ``1,234,568``."""

from __future__ import annotations

import math
import os
from typing import Any

from partwise.report.progress import duration

_GAPS = {"relative gap"}
_SHARES = {"accuracy", "f1", "uas", "las"}  # the last word of a name


def shown(value: Any, name: str = "") -> str:
    """Format a value for people. The name decides on the unit.

    Parameters
    ----------
    value : bool, int, float, str or None
    name : str
        "relative gap" and names that end with an accuracy are shown in percent, "seconds" as a duration, "passes"
        with one decimal.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isfinite(value):
        if name in _GAPS:
            return f"{100 * value:.2g} %"
        if name and name.split()[-1] in _SHARES:
            return f"{100 * value:.2f} %"
        if name == "seconds":
            return duration(value)
        return _tenths(value) if name == "passes" else _decimal(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def file_size(path: str) -> str:
    """The size of a file: ``3.1 MB``, or kB below one MB."""
    size = os.path.getsize(path)
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def _tenths(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _decimal(value: float) -> str:
    """Six significant digits. Large numbers have all digits, since exponents are hard to compare."""
    return f"{value:,.6g}" if abs(value) < 1e6 or abs(value) >= 1e15 else f"{value:,.0f}"
