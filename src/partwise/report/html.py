"""Self-contained HTML pages: everything inline, everything escaped, no script, nothing fetched."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from partwise.report import palette
from partwise.report.svg import Line, line_chart
from partwise.storage.atomic import write_atomically

_STYLE = f"""
:root {{ color-scheme: light; }}
body {{ font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  color: {palette.INK}; background: #fff; max-width: 60rem; margin: 2.5rem auto 4rem; padding: 0 1.25rem; }}
h1 {{ font-size: 1.7rem; margin: 0 0 .2rem; letter-spacing: -.01em; }}
h2 {{ font-size: 1.15rem; margin: 2.2rem 0 .6rem; }}
p.lead {{ color: {palette.SOFT_INK}; margin: 0 0 1.4rem; }}
table {{ border-collapse: collapse; margin: .4rem 0 1rem; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; padding: .28rem 1.1rem .28rem 0; vertical-align: top;
  border-bottom: 1px solid {palette.GRID}; }}
th {{ color: {palette.SOFT_INK}; font-weight: 600; font-size: .86rem; }}
td.number, th.number {{ text-align: right; }}
td {{ overflow-wrap: anywhere; }}
.pair {{ display: flex; flex-wrap: wrap; gap: 1.2rem; }}
.pair > * {{ flex: 1 1 24rem; min-width: 0; }}
svg {{ width: 100%; height: auto; }}
img {{ max-width: 100%; height: auto; }}
code {{ font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; }}
.bar {{ display: inline-block; height: .62em; border-radius: 2px; vertical-align: baseline; }}
footer {{ margin-top: 3rem; color: {palette.SOFT_INK}; font-size: .86rem; }}
"""


def page(title: str, lead: str, sections: Sequence[tuple[str, str]], style: str = "") -> str:
    """A whole page.

    Parameters
    ----------
    title, lead : str
        Plain text.
    sections : sequence of (heading, body)
        Headings are plain text, bodies HTML made with the functions of this module.
    style : str
        CSS after that of all pages.
    """
    body = "".join(f"<section><h2>{escape(heading)}</h2>{content}</section>" for heading, content in sections)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head>\n"
        f'<body><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{body}'
        "<footer>Made by partwise.</footer></body></html>\n"
    )


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page, whole or not at all."""
    write_atomically(path, lambda handle: handle.write(text.encode("utf-8", "replace")))


def table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of plain values; numbers are aligned to the right."""
    numeric = [
        bool(rows) and all(isinstance(row[k], (int, float)) or row[k] is None for row in rows)
        for k in range(len(titles))
    ]
    head = "".join(_cell("th", title, right) for title, right in zip(titles, numeric, strict=True))
    lines = [
        "<tr>"
        + "".join(_cell("td", shown(cell), right) for cell, right in zip(row, numeric, strict=True))
        + "</tr>"
        for row in rows
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def facts(values: Mapping[str, Any]) -> str:
    """A table of names and values."""
    rows = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{escape(shown(value))}</td></tr>"
        for name, value in values.items()
    )
    return f"<table>{rows}</table>"


def weights_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table whose last column is a weight, drawn as a bar too."""
    largest = max((abs(float(row[-1])) for row in rows), default=0.0) or 1.0
    head = "".join(_cell("th", title, False) for title in (*titles, ""))
    lines = []
    for *cells, weight in rows:
        color = palette.DUAL if weight >= 0 else palette.PRIMAL
        width = 0.2 + 9.0 * abs(float(weight)) / largest
        bar = f'<span class="bar" style="width:{width:.2f}rem;background:{color}"></span>'
        text = "".join(_cell("td", shown(cell), False) for cell in cells)
        lines.append(f'<tr>{text}<td class="number">{float(weight):+.4f}</td><td>{bar}</td></tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def picture(png: bytes, description: str) -> str:
    """A PNG image, inline."""
    data = base64.b64encode(png).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(description)}">'


def convergence(history: Sequence[Mapping[str, float]], tol: float | None) -> str:
    """Primal and dual meeting, and the relative gap, as inline SVG; a sentence if there is no curve."""
    keys = ("passes", "primal", "dual")
    rows = [[float(record.get(key, math.nan)) for key in keys] for record in history]
    rows = [row for row in rows if math.isfinite(row[0]) and math.isfinite(row[1] - row[2])]
    if len(rows) < 2:
        return paragraph(
            "Too few certificates were made to draw a curve; train with a smaller tol to see more."
        )
    from partwise.report.plots import value_range

    passes, primal, dual = (list(column) for column in zip(*rows, strict=True))
    meeting = line_chart(
        "Primal and dual meet",
        [Line("primal", palette.PRIMAL, passes, primal), Line("dual", palette.DUAL, passes, dual)],
        "passes over the data",
        y_range=value_range(np.array(primal), np.array(dual)),
        fill_between=True,
    )
    gap = [max((p - d) / max(abs(p), 1e-12), 1e-16) for p, d in zip(primal, dual, strict=True)]
    level = (tol, f"tol = {tol:g}") if tol and math.isfinite(tol) else None
    falling = line_chart(
        "Relative duality gap",
        [Line("gap", palette.SERIES[0], passes, gap)],
        "passes over the data",
        log_y=True,
        level=level,
    )
    return f'<div class="pair"><div>{meeting}</div><div>{falling}</div></div>'


def shown(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cell(tag: str, text: str, right: bool) -> str:
    kind = ' class="number"' if right else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"
