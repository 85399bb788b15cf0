"""`partwise report`: what it reads, what it says of damaged and unfinished runs, and its page in a real browser."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from browser import Watched, chromium

import partwise
from partwise.cli import main
from partwise.report.bundle import SCRIPTS, scripted_page, static
from partwise.report.runs import clean_history, read_given
from partwise.storage.model_file import save_model

LABELS = {
    "tag": "<script>alert(1)</script>",
    "quote": "\"'><img/src=x/onerror=alert(1)>",
    "rtl": "שלום\u202e",
    "emoji": "👩‍👩‍👧",
    "plain": "O",
}
WORDS = ["</script><script>alert(2)</script>", "&lt;b&gt;", "x" * 10_000, "سلام", "🎉", "a"]
HISTORY = [
    {
        "passes": float(k),
        "seconds": k / 10,
        "primal": 10 + 8 / k,
        "dual": 10 - 5 / k,
        "relative_gap": 10.0**-k,
    }
    for k in range(1, 8)
]


def hostile_lines(n, wrong=False):
    """Columns: a word, and the label that it has, or in some sentences another."""
    labels = list(LABELS.values())
    blocks = []
    for i in range(n):
        rows = [f"{word} {labels[(k + (wrong and i % 2)) % len(labels)]}" for k, word in enumerate(WORDS)]
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks)


def run(*arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, arguments)))
    return stop.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with hostile labels and words, and the page of it."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "train.txt").write_text(hostile_lines(6))
    (folder / "dev.txt").write_text(hostile_lines(4, wrong=True))
    point = {"objective": 1.0, "gap": 1e-3, "seconds": 0.1}
    path = [{"l2": 2.0**-k, "passes": 3.0 + k, "dev_score": 0.9 - k / 50, **point} for k in range(5)]
    (folder / "path.json").write_text(json.dumps(path))
    (folder / "run.json").write_text(
        json.dumps({"history": HISTORY, "converged": False, "stop_reason": "</script>"})
    )
    assert (
        run("train", "sequence", folder / "train.txt", "-m", folder / "m.pw", "-q", "--separator", "space")
        == 0
    )
    assert run("report", folder / "m.pw", folder / "run.json", folder / "path.json", "--data", folder / "dev.txt",
               "-o", folder / "page.html") == 0  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


# -- in the browser ---------------------------------------------------------------------------------


def test_a_page_of_hostile_words_runs_nothing_and_fetches_nothing(folder, browser):
    watched = Watched(browser)
    page = watched.open((folder / "page.html").as_uri())
    assert watched.requests == [(folder / "page.html").as_uri()] and watched.complaints == []
    assert page.locator("script").count() == 2 and page.locator("main img, main script").count() == 0
    headings = page.locator("h2").all_inner_texts()
    assert page.locator("[role=tab]").all_inner_texts() == ["Errors", "Calibration", "Training", "Model"]
    for k in range(4):
        page.locator("[role=tab]").nth(k).click()
        headings += page.locator("h2").all_inner_texts()
    page.locator("[role=tab]").first.click()
    for heading in (
        "Training",
        "Regularisation path",
        "Scores",
        "Confusion matrix",
        "Reliability",
        "Examples",
    ):
        assert heading in headings
    tokens = page.locator(".token")
    assert tokens.count() == len(WORDS)
    assert tokens.nth(0).locator(".word").inner_text() == WORDS[0]
    assert tokens.nth(2).locator(".word").inner_text().endswith("…")
    assert LABELS["tag"] in page.locator(".token .name, .token .truth").all_inner_texts()
    assert "expected calibration error" in page.locator("main").text_content()


def test_words_are_explained_by_mouse_and_by_keys(folder, browser):
    watched = Watched(browser)
    page = watched.open((folder / "page.html").as_uri())
    page.locator(".token").nth(3).click()
    assert page.locator(".details h3").inner_text() == WORDS[3]
    assert page.locator(".details td").count() > 3
    page.locator(".token").nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.matches('.token[aria-selected=true]')")
    assert page.locator(".details h3").inner_text() == WORDS[1]
    page.keyboard.press("End")
    assert page.locator(".details h3").inner_text() == WORDS[-1]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    before = page.locator("#example").input_value()
    page.keyboard.press("ArrowDown")
    assert page.locator("#example").input_value() != before
    page.locator(".kbest button").nth(1).focus()
    page.keyboard.press("Enter")
    assert page.locator(".kbest button").nth(1).get_attribute("aria-pressed") == "true"
    page.locator("[role=tab]").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("[role=tab][aria-selected=true]").inner_text() == "Training"
    panel = page.locator("[role=tabpanel]:not(.away)")
    chart = panel.locator("svg.chart").first
    chart.focus()
    page.keyboard.press("End")
    assert re.match(r"pass \d.*: .*", panel.locator(".readout").first.inner_text())
    chart.hover(position={"x": 90, "y": 60})
    assert panel.locator(".readout").first.inner_text().startswith("pass 1")
    assert watched.complaints == []


def test_everything_can_be_reached_by_tab(folder, browser):
    page = Watched(browser).open((folder / "page.html").as_uri())
    seen = set()
    page.locator("[role=tab]").nth(2).click()
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                "'' + document.activeElement.tagName + ' ' + document.activeElement.className.baseVal"
            )
        )
    assert "svg chart" in seen
    page.locator("[role=tab]").first.click()
    for _ in range(70):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("[document.activeElement.tagName, document.activeElement.className.baseVal ?? "
                               "document.activeElement.className].join(' ')"))  # fmt: skip
    for wanted in ("BUTTON cell", "BUTTON sort", "SELECT ", "BUTTON token wrong", "DIV scroll"):
        assert any(each.startswith(wanted) for each in seen), wanted


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_need_not_scroll_sideways(folder, browser, scheme):
    watched = Watched(browser, width=400, scheme=scheme)
    page = watched.open((folder / "page.html").as_uri())
    assert not watched.is_too_wide()
    for k in range(len(WORDS)):
        page.locator(".token").nth(k).click()
        assert not watched.is_too_wide(), WORDS[k][:20]
    red, green, blue = map(
        int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert (red + green + blue > 600) == (scheme == "light")


def test_on_paper_controls_are_left_out(folder, browser):
    page = Watched(browser).open((folder / "page.html").as_uri())
    page.emulate_media(media="print")
    assert not page.locator(".chooser").first.is_visible() and not page.locator(".tabs").is_visible()
    for k in range(4):
        assert page.locator("[role=tabpanel]").nth(k).is_visible()
    assert page.locator("svg.chart").first.is_visible()
    assert page.pdf().startswith(b"%PDF")


def test_examples_are_filtered_and_a_confusion_opens_its_examples(folder, browser):
    page = Watched(browser).open((folder / "page.html").as_uri())
    count = page.locator("#example option").count()
    assert count == 4 and page.locator(".token[aria-selected=true]").get_attribute("class") == "token wrong"
    page.locator("#filter-errors").select_option("right")
    assert page.locator("#example option").count() == 2 and page.locator(".token.wrong").count() == 0
    page.locator("#filter-type").select_option(LABELS["emoji"])
    assert page.locator("#example option").count() == 2
    page.locator("#filter-doubt").select_option("0.5")
    assert page.locator("#example option").count() < count
    page.locator("button.cell").first.click()
    assert page.locator("#example option").count() == 2 and page.locator(".token.wrong").count() > 0
    assert "predicted as" in page.locator("section:has(#example) [role=status]").inner_text()


def test_entities_are_coloured_pills(browser, tmp_path):
    labels, truth = ["B-PER", "I-PER", "O", "B-ORG", "B-ORG"], ["B-PER", "I-PER", "O", "O", "B-ORG"]
    probable = [[["B-PER", 0.9]], [["I-PER", 0.6]], [["O", 1.0]], [["B-ORG", 0.7]], [["B-ORG", 1.0]]]
    example = {"kind": "sequences", "number": 1, "errors": 1, "tokens": list("abcde"), "labels": labels}
    example |= {"truth": truth, "marginals": probable}
    content = {"explorer": {"kind": "sequences", "total": 1, "examples": [example]}}
    (tmp_path / "page.html").write_text(scripted_page("t", content))
    page = Watched(browser).open((tmp_path / "page.html").as_uri())
    pills = page.locator(".segment")
    assert pills.locator(".segment-name").all_inner_texts() == ["PER 60.0 %", "ORG 70.0 %", "ORG 100.00 %"]
    assert page.locator(".segment.wrong").count() == 1 and page.locator(".details h3").inner_text() == "d"
    hues = [pills.nth(k).evaluate("each => each.style.getPropertyValue('--hue')") for k in range(3)]
    assert hues[0] != hues[1] == hues[2]
    assert page.locator(".token .name").count() == 1  # only where the label is wrong


def test_labels_are_sorted_by_their_titles(folder, browser):
    page = Watched(browser).open((folder / "page.html").as_uri())
    button = page.locator("button.sort").first
    button.click()
    first = page.locator("section:has(button.sort) tbody tr td:first-child").all_inner_texts()
    assert first == sorted(first, key=lambda text: text.encode("utf-16-be"))
    assert page.evaluate("document.activeElement.textContent").startswith("label")


ANSWERS = {
    "trees": {"heads": [2, 0, 2], "true_heads": [2, 0, 1], "labels": ["<b>", "root", "obj"], "columns": [["D"]] * 3,
              "marginals": [[[2, 0.9], [0, 0.1]]] * 3, "kbest": [{"heads": [2, 0, 2], "probability": 0.9},
                                                                 {"heads": [2, 0, 1], "probability": 0.1}]},
    "constituents": {"nodes": [["", None, -1, 0, 3, None], ["S", None, 0, 0, 3, 1.0], ["<i>", None, 1, 0, 2, 0.4],
                               ["D", "a", 2, 0, 1, None], ["N", "b", 2, 1, 2, None], ["V", "c", 1, 2, 3, None]],
                     "labels": ["D", "N", "V"], "true_spans": [[0, 3, "S"]], "span_marginals": [[0, 2, "<i>", 0.4]]},
    "graphs": {"labels": ["X", "<u>", "X"], "truth": ["X", "Y", "X"], "edges": [[0, 1], [1, 2]],
               "marginals": [[["X", 1.0]]] * 3},
    "segments": {"labels": ["B-<s>", "I-<s>", "O"], "segments": [[0, 1, "<s>", 0.7]], "true_segments": [[0, 2, "A"]]},
}  # fmt: skip


@pytest.mark.parametrize("kind", list(ANSWERS))
def test_trees_graphs_and_segments_are_drawn(browser, tmp_path, kind):
    example = {"kind": kind, "number": 1, "errors": 1, "tokens": ["<q>", "b", "c"], **ANSWERS[kind]}
    content = {"explorer": {"kind": kind, "total": 1, "examples": [example]}}
    (tmp_path / "page.html").write_text(scripted_page("t", content))
    watched = Watched(browser, width=400)
    page = watched.open((tmp_path / "page.html").as_uri())
    drawn = page.locator(".segment" if kind == "segments" else "svg.drawing")
    assert drawn.count() == 1 and watched.complaints == [] and not watched.is_too_wide()
    name = {"trees": "<b>", "constituents": "<i>", "graphs": "<u>", "segments": "<s>"}[kind]
    assert (
        name in drawn.text_content() and page.locator("main b, main i, main u, main s, main q").count() == 0
    )
    assert page.locator(".wrong").count() > 0
    if kind == "constituents":
        page.locator("svg.drawing g.wrong text").click()
        assert "40.0 %" in page.locator(".details").inner_text()
        page.locator(".token").first.click()
        assert "40.0 %" not in page.locator(".details").inner_text()
        page.locator("svg.drawing g.wrong").focus()
        page.keyboard.press("Enter")
        assert "40.0 %" in page.locator(".details").inner_text()
    if kind == "trees":
        page.locator(".kbest button").nth(1).click()
        assert page.locator("svg.drawing g.wrong").count() == 0


# -- what a report is given ---------------------------------------------------------------------------


def test_the_policy_allows_its_own_script_alone(folder):
    page = (folder / "page.html").read_text()
    assert "default-src 'none'; script-src 'sha256-" in page and "unsafe" not in page.split("</head>")[0]
    assert page.count("<script") == 2 and " onclick" not in page
    for name in SCRIPTS:
        text = static(name)
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "http://",
            "https://",
        ):
            assert word not in text.replace('const SVG = "http://www.w3.org/2000/svg"', ""), (name, word)


def test_damaged_and_unfinished_runs(folder, tmp_path, capsys):
    whole = (folder / "m.pw").read_bytes()
    flipped = bytearray(whole)
    flipped[-3] ^= 255
    (tmp_path / "flipped.pw").write_bytes(flipped)
    (tmp_path / "cut.pw").write_bytes(whole[: len(whole) - 40])
    (tmp_path / "torn.json").write_text('{"history": [')
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "nothing").write_bytes(b"")
    for name in ("flipped.pw", "cut.pw"):
        given = read_given(str(tmp_path / name))
        assert given.kind == "damaged" and given.history and given.model is None and "damaged" in given.note
    for name in ("torn.json", "other.json", "nothing", "missing", "."):
        assert read_given(str(tmp_path / name)).is_empty
        capsys.readouterr()
        assert run("report", tmp_path / name, "-o", tmp_path / "none.html") == 2
        assert len(capsys.readouterr().err.splitlines()) == 1 and not (tmp_path / "none.html").exists()
    assert (
        run("report", tmp_path / "cut.pw", tmp_path / "torn.json", folder / "m.pw", "-o", tmp_path / "p.html")
        == 0
    )
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3 and "cut.pw" in said[0] and "torn.json" in said[1]
    page = (tmp_path / "p.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert len(data["notes"]) == 3 and data["model"]["name"].endswith("m.pw") and data["runs"][0]["points"]


def test_a_checkpoint_is_an_unfinished_run(tmp_path):
    header = {"history": HISTORY, "run": [7.0, 0.7, 0.7]}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(tmp_path / "run.npz", header=text)
    given = read_given(str(tmp_path / "run.npz"))
    assert given.kind == "checkpoint" and len(given.history) == 7 and "after 7.0 passes" in given.note
    (tmp_path / "bad.npz").write_bytes((tmp_path / "run.npz").read_bytes()[:60])
    assert read_given(str(tmp_path / "bad.npz")).note == "is not a whole partwise checkpoint"


def test_histories_keep_what_are_numbers():
    odd = [
        {"passes": 2, "primal": 4.0, "dual": 3.0},
        {"passes": math.nan},
        "x",
        {"passes": 1.0, "gap": 10**400},
        {},
    ]
    assert clean_history(odd) == [
        {"passes": 1.0},
        {"passes": 2.0, "primal": 4.0, "dual": 3.0, "relative_gap": 0.25},
    ]
    assert clean_history(None) == []


def test_what_is_not_shown_is_said(folder, tmp_path, capsys):
    x = np.array([[0.0, 1.0], [1.0, 0.5]] * 4)
    partwise.KernelClassifier().fit(x, ["a", "b"] * 4).save(tmp_path / "k.pw")
    assert run("report", tmp_path / "k.pw", "-o", tmp_path / "k.html") == 0
    data = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "k.html").read_text())[1])
    assert [note.split(":")[0] for note in data["notes"]] == [
        "no largest weights",
        "no scores, reliability or examples",
    ]
    (tmp_path / "unlabelled.txt").write_text("a\n")
    capsys.readouterr()
    assert (
        run("report", folder / "m.pw", "-o", tmp_path / "n.html", "--data", tmp_path / "unlabelled.txt") == 2
    )
    assert len(capsys.readouterr().err.splitlines()) == 1 and not (tmp_path / "n.html").exists()


def test_paths_are_read_from_their_files(tmp_path):
    points = [
        {"l2": 2.0**-k, "objective": 1.0, "gap": 1e-3, "passes": 3.0, "dev_score": None} for k in range(3)
    ]
    header = {"estimator": "RegularizationPath", "results": [*points[::-1], {"l2": -1.0}, 7], "ended": ""}
    save_model(tmp_path / "p.path", header, {"weights": np.ones(3, np.float32)})
    given = read_given(str(tmp_path / "p.path"))
    assert [point["l2"] for point in given.path] == [1.0, 0.5, 0.25] and given.kind == "path"
    assert given.note == "2 of 5 points have no l2 above 0 and are left out"
    save_model(tmp_path / "q.path", {**header, "results": points}, {"weights": np.ones(3, np.float32)})
    assert read_given(str(tmp_path / "q.path")).note == "not finished: 3 points of the path so far"
    (tmp_path / "cut.path").write_bytes((tmp_path / "q.path").read_bytes()[:-2])
    cut = read_given(str(tmp_path / "cut.path"))
    assert len(cut.path) == 3 and "damaged" in cut.note and "its points are shown" in cut.note
    (tmp_path / "p.json").write_text(json.dumps({"path": points, "history": HISTORY, "converged": True}))
    given = read_given(str(tmp_path / "p.json"))
    assert len(given.path) == 3 and len(given.history) == 7 and not given.note
