"""HTML that notebooks show: facts about a fitted estimator, and explanations with bars. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from partwise.report import palette
from partwise.report.numbers import shown

_CELL = "text-align:left;padding:.15em .8em .15em 0;vertical-align:top"
_NUMBER = "text-align:right;padding:.15em .8em .15em 0;font-variant-numeric:tabular-nums"
_HALF = 5.0  # em: the room on each side of the centre line of a bar


def estimator_html(estimator: Any) -> str:
    """The certificate, the settings and the sizes of a fitted estimator."""
    proof = {
        "objective": estimator.objective_,
        "lower bound of the optimum": estimator.dual_objective_,
        "relative gap": estimator.duality_gap_,
        "converged": estimator.converged_,
        "passes": estimator.n_passes_,
    }
    labels = list(map(str, estimator._known_labels()))
    several = ", ".join(labels[:12]) + (f", … ({len(labels)})" if len(labels) > 12 else "")
    settings = {"l2": getattr(estimator, "l2_", estimator.l2), **estimator._shown_settings()}
    facts = {**proof, **settings, **estimator._shown_sizes(), "labels": several}
    if hasattr(estimator, "scores_"):
        best = estimator.scores_.mean(axis=0).max()
        facts[f"mean {estimator._score_name} of {len(estimator.scores_)} folds"] = shown(float(best))
    rows = [(name, shown(value, name)) for name, value in facts.items() if value is not None]
    body = "".join(_row([(name, _CELL + ";font-weight:600"), (value, _CELL)]) for name, value in rows)
    return f"<div><b>{escape(type(estimator).__name__)}</b>, fitted<table>{body}</table></div>"


def explanation_html(title: str, blocks: Iterable[tuple[str, Sequence[tuple[str, float]]]]) -> str:
    """Terms of a score, with bars from a centre line.

    Parameters
    ----------
    title : str
    blocks : iterable of (heading, terms)
        Terms are (name, contribution).
    """
    listed = [(heading, list(terms)) for heading, terms in blocks]
    largest = max((abs(value) for _, terms in listed for _, value in terms), default=0.0) or 1.0
    rows = []
    for heading, terms in listed:
        style = f"{_CELL};font-weight:600;padding-top:.7em"
        rows.append(f'<tr><td colspan="3" style="{style}">{escape(heading)}</td></tr>')
        for name, value in terms:
            rows.append(_row([(name, _CELL), (f"{value:+.3f}", _NUMBER)], _bar(value / largest)))
    return f"<div><p>{escape(title)}</p><table>{''.join(rows)}</table></div>"


def _bar(share: float) -> str:
    """A bar from the centre to the right, or to the left if negative."""
    width, color = _HALF * min(abs(share), 1.0), palette.DUAL if share >= 0 else palette.PRIMAL
    start = _HALF if share >= 0 else _HALF - width
    inner = f"margin-left:{start:.2f}em;width:{width:.2f}em;background:{color};height:.7em;display:block"
    return f'<span style="display:block;width:{2 * _HALF}em;margin-top:.35em"><span style="{inner}"></span></span>'


def _row(cells: Iterable[tuple[str, str]], last: str = "") -> str:
    text = "".join(f'<td style="{style}">{escape(value)}</td>' for value, style in cells)
    return f"<tr>{text}{f'<td>{last}</td>' if last else ''}</tr>"
