"""Pages of every kind of model with hostile labels and words in a real browser, on a desk and on a phone."""

from __future__ import annotations

import json
import threading

import pytest
from browser import Watched, chromium

from partwise.cli import main
from partwise.report.bundle import scripted_page
from partwise.report.summary import summarize
from partwise.storage.model_file import estimator_from, load_model
from partwise.tasks.task import opened_task
from partwise.web.server import ModelServer
from partwise.web.service import Limits, Service

LABELS = [
    "<script>alert(1)</script>", "</script><img/src=x/onerror=alert(1)>", "\"'><svg/onload=alert(1)>", "}</style><b>",
    "&lt;i&gt;&#60;", "javascript:alert(1)", "שלום\u202e", "é" + "\u0301" * 60, "👩‍👩‍👧" * 30, "`${alert(1)}`",
    "x" * 5000, "__proto__", "constructor", "%3Cb%3E",
]  # fmt: skip
WORDS = [*LABELS, "a", "b"]


def rows(form, end):
    """Sentences of two words whose labels are hostile, each label twice."""
    pairs = zip(LABELS * 2, [*LABELS[1:], LABELS[0]] * 2, strict=True)
    return "".join(form.format(a=a, b=b) + end for a, b in pairs)


def graph(a, b):
    nodes = [{"features": {"w": label[:50]}, "label": label} for label in (a, b)]
    return json.dumps({"nodes": nodes, "edges": [[0, 1]]}) + "\n"


def table_row(k, label):
    quoted = label.replace('"', '""')
    return f'{k % 5},{k % 3},"{quoted}"\n'


def brackets(label):
    """Brackets and spaces end a label in trees."""
    return label.replace("(", "[").replace(")", "]")


FILES = {
    "sequence": rows("{a} {a}\n{b} {b}\n", "\n"),
    "segments": rows("{a} B-{a}\n{b} B-{b}\n", "\n"),
    "classify": "".join(table_row(k, label) for k, label in enumerate(LABELS * 3)),
    "multilabel": "".join(
        json.dumps({"features": {label[:50]: 1.0}, "labels": [label, LABELS[k % len(LABELS) - 1]]}) + "\n"
        for k, label in enumerate(LABELS * 2)
    ),
    "dependency": rows("1\t{a}\t_\t{a}\t{b}\t_\t2\t{a}\t_\t_\n2\t{b}\t_\t{b}\t{a}\t_\t0\t{b}\t_\t_\n", "\n"),
    "constituency": "".join(
        f"(S ({brackets(a)} (N {brackets(b)}) (V b)) ({brackets(b)} (V {brackets(a)})))\n"
        for a, b in zip(LABELS, [*LABELS[1:], LABELS[0]], strict=True)
    ),
    "graph": "".join(graph(a, b) for a, b in zip(LABELS * 2, [*LABELS[1:], LABELS[0]] * 2, strict=True)),
}
DRAWN = ("dependency", "constituency")


def run(*arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, arguments)))
    assert stop.value.code == 0


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory, browser):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module", params=FILES)
def made(request, folder):
    """A model, its report, and if it draws trees a page of them."""
    task, path = request.param, folder / request.param
    path.with_suffix(".txt").write_text(FILES[task], encoding="utf-8")
    extra = ["--separator", "space"] if task in ("sequence", "segments") else []
    data, model = path.with_suffix(".txt"), path.with_suffix(".pw")
    run("train", task, data, "-m", model, "-q", "--l2", "0.1", "--tol", "0.1", *extra)
    run("report", model, "--data", data, "-o", path.with_suffix(".html"))
    pages = [path.with_suffix(".html")]
    if task in DRAWN:
        pages.append(folder / f"{task}-trees.html")
        run("predict", model, data, "--html", pages[-1], "-o", folder / "out")
    return task, model, pages


def check(watched, address):
    """Nothing ran, nothing was fetched, nothing is wider than the screen, nothing of a label became an element."""
    assert watched.complaints == [] and all(url.startswith(address) for url in watched.requests)
    assert not watched.is_too_wide()
    body = watched.page.locator("body")
    assert (
        body.locator("img, iframe, object, [onload], [onerror], svg[onload], a[href^=javascript]").count()
        == 0
    )
    assert watched.page.locator("style").count() <= 2


@pytest.mark.parametrize("width", [1280, 390])
def test_reports_and_trees_of_hostile_labels(made, browser, width):
    _, _, pages = made
    for path in pages:
        watched = Watched(browser, width=width)
        if path.name.endswith("-trees.html"):
            page = watched.page
            page.goto(path.as_uri())
        else:
            page = watched.open(path.as_uri())
        check(watched, path.as_uri())
        text = page.locator("body").text_content()
        # Labels are there as they are; long ones are shortened.
        assert "<script>alert" in text.replace("[", "(") and "onerror=alert" in text.replace("[", "(")
        tokens = page.locator(".token")
        for k in range(min(tokens.count(), 3)):
            tokens.nth(k).click()
            check(watched, path.as_uri())
        watched.page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_served_page_of_hostile_labels(made, browser, width):
    _, model, _ = made
    header, arrays = load_model(model)
    estimator = estimator_from(header, arrays, model)
    task, summary = opened_task(estimator, header, str(model)), summarize(estimator, header, 5)
    service = Service(task, summary, Limits())
    live = {**task.expects(), "most_kbest": service.limits.kbest}
    page = scripted_page("Model <b>m</b>", {"live": live}, live=True)
    server = ModelServer("127.0.0.1", 0, service, page)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        watched = Watched(browser, width=width)
        watched.open(server.address)
        watched.page.wait_for_selector(".token, [role=alert]:not(:empty)")
        check(watched, server.address)
        watched.page.close()
    finally:
        server.stop()
