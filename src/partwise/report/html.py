"""Self-contained HTML pages without scripts: all content is inline and escaped."""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from partwise.report import palette
from partwise.report.numbers import shown
from partwise.report.svg import Line, line_chart
from partwise.storage.atomic import write_atomically

_SHORT = 20  # characters; shorter texts are not broken into lines
_NUMBER = re.compile(
    r"([-+−<]?[\d,.]+(e[-+]?\d+)?( ?%| s| min| h|\b)( \d+ (s|min)| of [\d,]+)?)?|inf|nan|-inf"
)

STYLE = (
    palette.variables()
    + """
body { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  color: var(--ink); background: var(--page); max-width: 60rem; margin: 2.5rem auto 4rem; padding: 0 1.25rem;
  overflow-wrap: break-word; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p.lead { color: var(--soft); margin: 0 0 1.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .4rem 0 1rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .28rem 1.1rem .28rem 0; vertical-align: top;
  border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 600; font-size: .86rem; }
td { max-width: 26rem; }
.whole { white-space: nowrap; }
.right { text-align: right; }
.pair { display: flex; flex-wrap: wrap; gap: 1.2rem; }
.pair > * { flex: 1 1 24rem; min-width: 0; }
svg { width: 100%; height: auto; }
svg text { font-family: inherit; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
code { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.bar { display: inline-block; height: .62em; border-radius: 2px; vertical-align: baseline; }
.bar.positive { background: var(--dual); }
.bar.negative { background: var(--primal); }
.tree { overflow-x: auto; border: 1px solid var(--grid); border-radius: 6px; padding: .6rem; }
.tree svg { width: auto; max-width: none; height: auto; display: block; }
.tree text { text-anchor: middle; fill: var(--ink); paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.6rem; padding: 0; margin: .4rem 0; list-style: none;
  color: var(--soft); }
.legend i { display: inline-block; width: 2.2rem; margin-right: .5rem; vertical-align: .28em;
  border-top: 2px solid var(--dual); }
.legend i.wrong { border-top: 2px dashed var(--wrong); }
.legend i.right { border-top: 2px dotted var(--right); }
.legend i.faint { opacity: .3; }
footer { margin-top: 3rem; color: var(--soft); font-size: .86rem; }
@media (max-width: 40rem) {
  body { margin-top: 1.2rem; padding: 0 .8rem; }
  h1 { font-size: 1.35rem; }
  .pair > * { flex-basis: 100%; }
  td { max-width: 12.5rem; }
}
"""
)


def page(title: str, lead: str, sections: Sequence[tuple[str, str]], style: str = "") -> str:
    """A page.

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
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n"
        f'<body><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{body}'
        "<footer>Made by partwise.</footer></body></html>\n"
    )


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page atomically."""
    write_atomically(path, lambda handle: handle.write(text.encode("utf-8", "replace")))


def table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of plain values; columns of numbers are aligned to the right."""
    texts = [[shown(cell) for cell in row] for row in rows]
    numeric = [bool(rows) and all(map(_is_number, column)) for column in zip(*texts, strict=True)]
    numeric = numeric or [False] * len(titles)
    head = "".join(_cell("th", title, right) for title, right in zip(titles, numeric, strict=True))
    lines = [
        "<tr>" + "".join(_cell("td", text, right) for text, right in zip(row, numeric, strict=True)) + "</tr>"
        for row in texts
    ]
    return _scrolling(f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>")


def facts(values: Mapping[str, Any]) -> str:
    """A table of names and values, formatted by `partwise.report.numbers.shown`."""
    rows = "".join(
        f"<tr><th>{escape(str(name))}</th>{_cell('td', shown(value, str(name)))}</tr>"
        for name, value in values.items()
        if value is not None
    )
    return _scrolling(rows)


def weights_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table whose last column is a weight, which is also drawn as a bar."""
    largest = max((abs(float(row[-1])) for row in rows), default=0.0) or 1.0
    head = "".join(_cell("th", title) for title in (*titles, ""))
    lines = []
    for *cells, weight in rows:
        sign = "positive" if weight >= 0 else "negative"
        width = 0.2 + 9.0 * abs(float(weight)) / largest
        bar = f'<span class="bar {sign}" style="width:{width:.2f}rem"></span>'
        text = "".join(_cell("td", shown(cell)) for cell in cells)
        lines.append(f"<tr>{text}{_cell('td', f'{float(weight):+.4f}', True)}<td>{bar}</td></tr>")
    return _scrolling(f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>")


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """A legend: pairs (class of the line: "", "wrong", "right" or "faint"; text)."""
    return (
        '<ul class="legend">'
        + "".join(f'<li><i class="{kind}"></i>{escape(text)}</li>' for kind, text in entries)
        + "</ul>"
    )


def picture(png: bytes, description: str) -> str:
    """A PNG image, inline."""
    data = base64.b64encode(png).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(description)}">'


def convergence(history: Sequence[Mapping[str, float]], tol: float | None) -> str:
    """Curves of primal, dual and relative gap as inline SVG, or a sentence if there are too few points."""
    keys = ("passes", "primal", "dual")
    rows = [[float(record.get(key, math.nan)) for key in keys] for record in history]
    rows = [row for row in rows if math.isfinite(row[0]) and math.isfinite(row[1] - row[2])]
    if len(rows) < 2:
        return paragraph("Too few certificates to draw a curve; train with a smaller tol to see more.")
    from partwise.report.plots import value_range

    passes, primal, dual = (list(column) for column in zip(*rows, strict=True))
    meeting = line_chart(
        "Primal and dual meet",
        [Line("primal", "var(--primal)", passes, primal), Line("dual", "var(--dual)", passes, dual)],
        "passes over the data",
        y_range=value_range(np.array(primal), np.array(dual)),
        fill_between=True,
    )
    gap = [max((p - d) / max(abs(p), 1e-12), 1e-16) for p, d in zip(primal, dual, strict=True)]
    level = (tol, f"tol {100 * tol:.3g} %") if tol and math.isfinite(tol) else None
    falling = line_chart(
        "Relative duality gap",
        [Line("gap", "var(--series-1)", passes, gap)],
        "passes over the data",
        log_y=True,
        level=level,
        percent=True,
    )
    return f'<div class="pair"><div>{meeting}</div><div>{falling}</div></div>'


def _scrolling(rows: str) -> str:
    """A table with a scroll bar of its own on narrow pages."""
    return f'<div class="scroll"><table>{rows}</table></div>'


def _cell(tag: str, text: str, right: bool = False) -> str:
    kinds = ["whole"] * (len(text) <= _SHORT or _is_number(text)) + ["right"] * right
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"


def _is_number(text: str) -> bool:
    """Whether a text is empty, or a number with its unit."""
    return _NUMBER.fullmatch(text) is not None
