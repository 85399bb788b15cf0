"""The colours of all pictures and pages, safe for colour-blind readers, for light and dark backgrounds."""

from __future__ import annotations

INK = "#1d2433"
SOFT_INK = "#5b6478"
FAINT_INK = "#a9b0bf"
LINE = "#c6ccd8"
GRID = "#eceff4"
FAINT = "#d5dae4"
BAND = "#eef2fb"
PRIMAL = "#d1495b"
DUAL = "#2a6fbb"
RIGHT = "#2a8c6a"
WRONG = "#d1495b"
SERIES = ("#2a6fbb", "#e08e1b", "#2a8c6a", "#8a4fbf", "#5b6478")

LIGHT = {
    "page": "#ffffff", "ink": INK, "soft": SOFT_INK, "faint": FAINT_INK, "line": LINE, "grid": GRID, "band": BAND,
    "primal": PRIMAL, "dual": DUAL, "right": RIGHT, "wrong": WRONG, "tone": "45%",
    **{f"series-{k}": color for k, color in enumerate(SERIES, 1)},
}  # fmt: skip
DARK = {
    "page": "#14181f", "ink": "#e6e9ef", "soft": "#9aa4b6", "faint": "#6b7588", "line": "#465064",
    "grid": "#2b3240", "band": "#202b3d", "primal": "#f07f8e", "dual": "#6ea8e8", "right": "#5fc39d",
    "wrong": "#f07f8e", "tone": "62%", "series-1": "#6ea8e8", "series-2": "#f0ac4e", "series-3": "#5fc39d",
    "series-4": "#b98ae6", "series-5": "#9aa4b6",
}  # fmt: skip


def variables() -> str:
    """CSS: ``var(--ink)``, ``var(--page)`` … light or dark, by the setting of the reader's system."""
    light, dark = (
        " ".join(f"--{name}: {color};" for name, color in colors.items()) for colors in (LIGHT, DARK)
    )
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    )
