"""The colours of all pictures and pages, told apart also by colour-blind readers."""

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
DARK_PAGE = "#14181f"
DARK_INK = "#e6e9ef"
DARK_SOFT_INK = "#9aa4b6"
DARK_GRID = "#2b3240"
DARK_ARC = "#6ea8e8"
DARK_WRONG = "#f07f8e"
DARK_RIGHT = "#5fc39d"
