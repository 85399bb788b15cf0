"""What people see: charts, pages, progress and time left."""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from partwise.errors import InputError
from partwise.report import html, palette
from partwise.report.numbers import shown
from partwise.report.plots import plot_convergence, plot_dates, value_range
from partwise.report.progress import TrainingDisplay, duration, number, seconds_left
from partwise.report.svg import Line, line_chart, ticks
from partwise.solvers.base import Record
from partwise.solvers.driver import Progress

HISTORY = [
    {"passes": float(k), "primal": 10 + 8.0 / k, "dual": 10 - 5.0 / k, "gap": 13.0 / k, "seconds": k / 10}
    for k in range(1, 30)
]
HOSTILE = '<script>alert("x")</script>'


def test_chart_is_sound_svg():
    chart = line_chart(
        "a < b",
        [Line("one & two", "#000", [1, 2, 3], [1e-3, 1e-9, 5.0])],
        "x",
        log_y=True,
        level=(1e-4, "tol"),
    )
    root = ElementTree.fromstring(chart)
    assert root.tag.endswith("svg")
    numbers = [
        float(text) for points in re.findall(r'points="([^"]*)"', chart) for text in re.split("[ ,]", points)
    ]
    assert len(numbers) == 6 and all(map(math.isfinite, numbers))
    flat = line_chart("t", [Line("a", "#000", [0, 1], [2.0, 2.0])], "x")
    ElementTree.fromstring(flat)


def test_ticks_are_round():
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(0.3, 0.71) == pytest.approx([0.3, 0.4, 0.5, 0.6, 0.7])
    assert ticks(1, 1) == [1]


class Collector(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def test_pages_escape_everything_and_fetch_nothing():
    sections = [
        (HOSTILE, html.table((HOSTILE, "n"), [(HOSTILE, 1.5), ("b", None)])),
        ("facts", html.facts({HOSTILE: HOSTILE})),
        ("weights", html.weights_table(("a", HOSTILE, "w"), [(HOSTILE, "x", -2.0), ("y", "z", 0.0)])),
        ("text", html.paragraph(HOSTILE) + html.picture(b"png", HOSTILE)),
        ("curve", html.convergence(HISTORY, 1e-3)),
        ("short", html.convergence(HISTORY[:1], None)),
    ]
    page = html.page(HOSTILE, HOSTILE, sections)
    collector = Collector()
    collector.feed(page)
    assert "script" not in {tag for tag, _ in collector.tags}
    for tag, attributes in collector.tags:
        assert tag != "link" and not any(name.startswith("on") for name in attributes)
        assert attributes.get("src", "data:").startswith("data:") and "href" not in attributes
    assert page.count("<svg") == 4  # two charts, each with the frame that clips its curves


def test_numbers_are_for_people_and_never_broken():
    assert shown(0.000466497, "relative gap") == "0.047 %" and shown(0.93614, "dev f1") == "93.61 %"
    assert shown(9.66667, "passes") == "9.7" and shown(12.0, "passes") == "12"
    assert shown(65.2, "seconds") == "1 min 05 s" and shown(1234567.8) == "1,234,568"
    assert shown(0.001) == "0.001" and shown(1e-9) == "1e-09" and shown(math.inf, "relative gap") == "inf"
    assert shown(True) == "yes" and shown(None) == "" and shown(12345) == "12,345"
    table = html.table(("name", "n"), [("a longer name than is kept whole", "0.047 %"), ("b", "1 min 05 s")])
    assert table.count('<td class="whole right">') == 2 and "<td>a longer" in table
    assert table.startswith('<div class="scroll">')
    page = html.page("t", "l", [("facts", html.facts({"relative gap": 0.001, "scheme": None}))])
    assert '<td class="whole">0.1 %</td>' in page and "<th>scheme" not in page
    assert "anywhere" not in page and "prefers-color-scheme: dark" in page
    assert set(palette.LIGHT) == set(palette.DARK)
    assert set(re.findall(r"var\(--([\w-]+)\)", page + html.convergence(HISTORY, 1e-3))) <= set(palette.LIGHT)


def test_pictures(tmp_path):
    data = plot_convergence({"a": HISTORY, "b": HISTORY[::3]}, tmp_path / "c.png", tol=1e-3)
    assert data.startswith(b"\x89PNG") and (tmp_path / "c.png").read_bytes() == data
    random = np.random.default_rng(0)
    digits = random.integers(0, 10, (2, 8))
    marginals = random.dirichlet(np.ones(10), (2, 8))
    data = plot_dates(
        random.random((2, 8, 8, 8)), digits, digits, digits[::-1], marginals, tmp_path / "d.png"
    )
    assert data.startswith(b"\x89PNG")
    with pytest.raises(InputError, match="no finite"):
        plot_convergence({"a": [{"passes": 1, "primal": math.nan, "dual": 0.0, "gap": math.nan}]})


def test_matplotlib_missing_is_one_line(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"partwise\[plots\]"):
        plot_convergence({"a": HISTORY})


def test_axis_shows_the_meeting():
    primal, dual = np.array([1e6, 20.0, 11.0, 10.1]), np.array([-1e6, 5.0, 9.0, 9.9])
    low, high = value_range(primal, dual)
    assert -100 < low < 9 and 11 < high < 100


def test_time_left():
    gaps = [(float(t), math.exp(-t)) for t in range(1, 11)]
    assert seconds_left(gaps, math.exp(-15)) == pytest.approx(5.0)
    assert seconds_left(gaps, 0.5) == 0.0
    assert math.isnan(seconds_left(gaps[:2], 1e-9))
    assert math.isnan(seconds_left([(float(t), float(t)) for t in range(1, 9)], 1e-9))
    nearly_done = Progress(9.0, 10.0, 9.0, 0.0, 0.0)
    assert seconds_left(gaps, math.exp(-100), nearly_done) == pytest.approx(1.0)
    assert [duration(s) for s in (0.44, 12.3, 75, 4000, math.nan)] == [
        "0.4 s",
        "12 s",
        "1 min 15 s",
        "1 h 06 min",
        "",
    ]
    assert number(1234567.891) == "1,234,568" and number(math.nan) == ""


def steps():
    for k in range(1, 9):
        gap = 2.0 ** (-k)
        record = (
            Record(float(k), k / 2, k / 2, 1.0 + gap, 1.0, gap, gap / (1 + gap), 0.0) if k % 2 == 0 else None
        )
        yield Progress(float(k), 100.0, k / 2, 1.0, gap / 3, record, np.zeros(3) if record else None)


def test_display_prints_plain_lines_where_no_one_watches():
    from rich.console import Console

    console = Console(file=io.StringIO(), width=40)
    with TrainingDisplay(1e-3, console, lambda weights: 0.5) as display:
        for step in steps():
            assert not display(step)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 4 and all("primal" in line and "dev 0.5000" in line for line in lines)
    assert display.dev_scores == [(2.0, 0.5), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5)]
    with TrainingDisplay(1e-3) as silent:
        for step in steps():
            silent(step)


def test_display_on_a_terminal():
    from rich.console import Console

    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with TrainingDisplay(1e-3, console) as display:
        for step in steps():
            display(step)
    text = console.file.getvalue()
    assert "relative gap" in text and "passes" in text


def test_estimates_are_marked(monkeypatch):
    from rich.console import Console

    estimated = Progress(1.5, 20, 0.5, 10.0, 2.5)
    unknown = Progress(1.5, 20, 0.5, math.nan, math.nan)
    certified = next(step for step in steps() if step.record is not None)
    for step, is_estimate in ((estimated, True), (unknown, False), (certified, False)):
        console = Console(file=io.StringIO(), force_terminal=True, width=100)
        with TrainingDisplay(1e-3, console) as display:
            display(step)
        shown = console.file.getvalue()
        assert ("≈" in shown) == is_estimate and "nan" not in shown
        for value in ("12.5", "10", "2.00e-01"):
            assert (f"≈ {value}" in shown) == is_estimate
    monkeypatch.setattr("partwise.report.progress._LONGEST_SILENCE", 0.0)
    console = Console(file=io.StringIO(), force_terminal=False, width=100)
    with TrainingDisplay(1e-3, console) as display:
        display(estimated)
        display(unknown)
    first, second = console.file.getvalue().splitlines()
    assert "gap ≈ 2.00e-01" in first and "gap" not in second
