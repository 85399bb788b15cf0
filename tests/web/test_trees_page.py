"""Pages of dependency trees: sound, escaped, one arc a word, opacity and marks as they should be."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import Watched, chromium
from data_paths import SHARED, needs_shared
from effort import lines_executed
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.data import corpus_from_sentences, read_dependencies
from partwise.errors import InputError
from partwise.report import palette
from partwise.report.arc_layout import levels
from partwise.report.html import write_page
from partwise.report.trees import tree_page

NAME = "{http://www.w3.org/2000/svg}"
HOSTILE = '</svg><script>alert("x")</script>&\''
CORPUS = corpus_from_sentences(
    [["Dogs", "bark", "loudly", "."], ["Go"]],
    fine_tags=[["N", "V", "R", "P"], ["V"]],
    heads=[[2, 0, 2, 2], [0]],
    relations=[["nsubj", "root", "advmod", "punct"], ["root"]],
)


class Collector(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def drawings(page):
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def edges(drawing, kind="edge"):
    return [group for group in drawing.iter(f"{NAME}g") if group.get("class").split()[0] == kind]


def texts(element, kind):
    return [each.text for each in element.iter(f"{NAME}text") if each.get("class").split()[0] == kind]


def test_one_arc_a_word_with_its_label():
    page = tree_page(CORPUS)
    first, second = drawings(page)
    for drawing, sentence in ((first, slice(0, 4)), (second, slice(4, 5))):
        groups = edges(drawing)
        assert [len(group.findall(f"{NAME}path")) for group in groups] == [1] * len(groups)
        assert (
            texts(drawing, "word") == CORPUS.forms[sentence]
            and texts(drawing, "tag") == CORPUS.fine_tags[sentence]
        )
        assert [texts(group, "relation")[0] for group in edges(drawing, "name")] == CORPUS.relations[sentence]
    assert not edges(first, "gold") and "wrong" not in ElementTree.tostring(first, encoding="unicode")
    assert "Scores" not in page and "2 sentences, 5 words" in page


def end_points(group):
    """Where an arc begins and ends; those of the root are vertical."""
    path = group.find(f"{NAME}path").get("d")
    numbers = [float(text) for text in re.findall(r"-?[\d.]+", path)]
    return (numbers[0], numbers[-3 if "Q" in path else 0])


def test_arcs_lead_from_heads_to_words():
    drawing = drawings(tree_page(CORPUS))[0]
    places = [float(text.get("x")) for text in drawing.iter(f"{NAME}text") if text.get("class") == "word"]
    assert places == sorted(places)
    for word, (group, head) in enumerate(zip(edges(drawing), CORPUS.heads[:4].tolist(), strict=True)):
        begin, end = end_points(group)
        assert end == pytest.approx(places[word], abs=0.1)
        assert begin == pytest.approx(places[head - 1] if head else places[word], abs=5)
    assert float(drawing.get("width")) >= places[-1] and drawing.get("viewBox").startswith("0 0 ")


def test_opacity_is_the_marginal():
    marginals = np.array([0.25, 1.0, 0.0, 0.875, 0.5])
    page = tree_page(CORPUS, CORPUS.heads, CORPUS.relations, marginals=marginals)
    found = [
        float(group.find(f"{NAME}path").get("opacity")) for each in drawings(page) for group in edges(each)
    ]
    assert found == marginals.tolist()
    titles = [group.find(f"{NAME}title").text for group in edges(drawings(page)[0])]
    assert titles[0] == "bark → Dogs: nsubj, probability 0.250" and titles[1].startswith("root → bark")
    assert all(
        "opacity" not in group.find(f"{NAME}path").attrib for group in edges(drawings(tree_page(CORPUS))[0])
    )


def test_wrong_arcs_are_marked_and_the_truth_is_shown():
    page = tree_page(CORPUS, np.array([3, 0, 2, 2, 0]), ["nsubj", "root", "obl", "punct", "root"])
    first, second = drawings(page)
    assert [group.get("class") for group in edges(first)] == ["edge wrong", "edge", "edge", "edge"]
    gold = edges(first, "gold")
    assert len(gold) == 1 and texts(edges(first, "name")[-1], "relation") == ["nsubj"]
    places = [
        float(text.get("x")) for text in first.iter(f"{NAME}text") if text.get("class").startswith("word")
    ]
    begin, end = end_points(gold[0])
    assert end == pytest.approx(places[0], abs=0.1) and begin == pytest.approx(places[1], abs=5)
    labels = {text.text: text.get("class") for text in first.iter(f"{NAME}text")}
    assert (
        labels["obl"] == "relation wrong" and labels["Dogs"] == "word wrong" and labels["punct"] == "relation"
    )
    assert not edges(second, "gold") and "wrong" not in ElementTree.tostring(second, encoding="unicode")
    assert "80.00 %" in page and "4 of 5" in page and "60.00 %" in page  # UAS, LAS
    assert "Sentence 1: 1 of 4 heads wrong" in page and "Sentence 2: all heads right" in page
    # A root that was missed hangs from the lower border.
    missed = drawings(tree_page(CORPUS, np.array([2, 3, 0, 2, 0])))[0]
    roots = [group for group in edges(missed, "gold") if "Q" not in group.find(f"{NAME}path").get("d")]
    ends = [float(re.findall(r"[\d.]+", group.find(f"{NAME}path").get("d"))[1]) for group in roots]
    assert len(roots) == 1 and 0 < ends[0] < float(missed.get("height"))


def test_colours_follow_the_reader_and_nothing_is_fetched(tmp_path):
    page = tree_page(CORPUS, CORPUS.heads)
    assert "prefers-color-scheme: dark" in page and palette.DARK["page"] in page and palette.WRONG in page
    assert "stroke-dasharray" in page and "overflow-x: auto" in page
    tags = Collector(page).tags
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tags}
    assert not any(
        name in ("src", "href", "onclick", "onload", "style") for _, attributes in tags for name in attributes
    )
    assert "default-src 'none'" in page and page.count("http") == page.count("http://www.w3.org/2000/svg") + 1
    write_page(tmp_path / "p.html", page)
    assert (tmp_path / "p.html").read_text("utf-8") == page


def test_hostile_words_are_escaped():
    forms = [[HOSTILE, "\x00\x0b\x1f", "\ud800", "\ufffe", "漢字漢字", "a" * 5000]]
    corpus = corpus_from_sentences(
        forms, fine_tags=[[HOSTILE] * 6], heads=[[0, 1, 1, 1, 1, 1]], relations=[[HOSTILE] * 6]
    )
    page = tree_page(corpus, np.array([2, 0, 1, 1, 1, 1]), [HOSTILE + "x"] * 6, title=HOSTILE)
    assert "<script" not in page
    (drawing,) = drawings(page)
    assert texts(drawing, "word")[:3] == [HOSTILE, "\ufffd" * 3, "\ufffd"]
    assert texts(edges(drawing, "name")[0], "relation") == [HOSTILE + "x"]
    assert len(edges(drawing)) == 6 and len(edges(drawing, "gold")) == 2
    assert ("script" not in {tag for tag, _ in Collector(page).tags}) and page.encode("utf-8")


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12))
def test_arcs_pass_over_those_they_cover(numbers):
    heads = [number % (len(numbers) + 1) for number in numbers]
    heads = [0 if head == word else head for word, head in enumerate(heads, 1)]
    found = levels(heads)
    spans = [(min(head, word), max(head, word)) if head else None for word, head in enumerate(heads, 1)]
    for level, span in zip(found, spans, strict=True):
        assert (level == 0) == (span is None)
    for level, span in zip(found, spans, strict=True):
        for other_level, other in zip(found, spans, strict=True):
            if span and other and span != other and span[0] <= other[0] and other[1] <= span[1]:
                assert level > other_level


def boxes(drawing):
    """Left, top, right and bottom of every relation's name, and the lines (x, y, x, y) of all arcs."""
    labels = [each for each in drawing.iter(f"{NAME}text") if each.get("class").startswith("relation")]
    found = []
    for each in labels:
        x, y, half = float(each.get("x")), float(each.get("y")), 3.1 * len(each.text)
        found.append((x - half, y - 8, x + half, y + 1))
    lines = []
    for path in (each.get("d") for each in drawing.iter(f"{NAME}path")):
        x, y = map(float, re.match(r"M(\S+) ([\d.]+)", path).groups())
        for kind, numbers in re.findall(r"([VHQ])([^VHQ]*)", path):
            *_, to_x, to_y = [x, y, *map(float, numbers.split())]
            to_x, to_y = (x, to_y) if kind == "V" else (to_y, y) if kind == "H" else (to_x, to_y)
            lines.append((x, y, to_x, to_y))
            x, y = to_x, to_y
    return found, lines


def projective(numbers):
    """A projective tree: every word behind the first is put beside the subtree of an earlier one."""
    heads = [0]
    for number in numbers:
        open_words = [len(heads)]  # heads of the right border
        while heads[open_words[-1] - 1]:
            open_words.append(heads[open_words[-1] - 1])
        heads.append(open_words[number % len(open_words)])
    return heads


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=14), st.integers(1, 18), st.booleans())
def test_no_arc_crosses_a_label(numbers, width, mirrored):
    heads = projective(numbers)
    n = len(heads)
    if mirrored:
        heads = [n + 1 - head if head else 0 for head in reversed(heads)]
    names = ["abcdefghijklmnopqrs"[: 1 + (width * word) % 19] for word in range(n)]
    corpus = corpus_from_sentences([["w"] * n], heads=[heads], relations=[names])
    (drawing,) = drawings(tree_page(corpus))
    labels, lines = boxes(drawing)
    assert len(labels) == n and len(lines) >= n
    for left, top, right, bottom in labels:
        for x, y, to_x, to_y in lines:
            apart = (
                max(x, to_x) <= left or min(x, to_x) >= right or max(y, to_y) <= top or min(y, to_y) >= bottom
            )
            assert apart
    for one in labels:
        assert sum(one[0] < b[2] and b[0] < one[2] and one[1] < b[3] and b[1] < one[3] for b in labels) == 1


def test_labels_step_aside_and_lie_above_all_arcs():
    heads = [[5, 4, 0, 3, 3, 2]]  # arcs to 1 and 2 and 6 cross
    corpus = corpus_from_sentences([["w" * 12] * 6], heads=heads, relations=[["name"] * 6])
    page = tree_page(corpus)
    (drawing,) = drawings(page)
    labels, lines = boxes(drawing)
    upright = [line for line in lines if line[0] == line[2]]
    for left, top, right, bottom in labels:
        assert not any(
            left < x < right and min(y, y_) < bottom and max(y, y_) > top for x, y, _, y_ in upright
        )
    kinds = [each.tag.removeprefix(NAME) for each in drawing.iter() if each.tag.endswith(("}path", "}text"))]
    assert kinds == sorted(kinds)  # paths, then texts


def test_the_worst_come_first():
    page = tree_page(CORPUS, np.array([2, 0, 2, 2, 1]), ["nsubj", "root", "advmod", "punct", "root"])
    assert page.index("Sentence 2: 1 of 1 heads wrong") < page.index("Sentence 1: all heads right")
    first = tree_page(CORPUS, np.array([2, 0, 2, 2, 1]), most=1)
    assert "the worst 1 are drawn" in first and "Sentence 1" not in first
    assert "the truth, below" in page and "the truth, below" not in tree_page(CORPUS)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="2 heads for 5 words"):
        tree_page(CORPUS, np.zeros(2, int))
    with pytest.raises(InputError, match="1 marginals for 5 words"):
        tree_page(CORPUS, CORPUS.heads, marginals=np.ones(1))
    with pytest.raises(InputError, match="no tree to draw"):
        tree_page(corpus_from_sentences([["a"]]))
    with pytest.raises(InputError, match="heads must be"):
        tree_page(CORPUS, np.array([2, 0, 2, 2, 7]))


def test_many_and_long_sentences():
    def page_of(length: int) -> str:
        forms, heads = [["w"] * length, *[["a", "b"]] * 50], [[*range(length)], *[[2, 0]] * 50]
        return tree_page(corpus_from_sentences(forms, heads=heads), most=10)

    page = page_of(3000)
    assert lines_executed(lambda: page_of(1000)) < 3 * lines_executed(lambda: page_of(500))
    assert len(drawings(page)) == 10 and "the first 10 are drawn" in page
    nested = corpus_from_sentences([["w"] * 200], heads=[[0, *[1] * 199]])
    assert float(drawings(tree_page(nested))[0].get("height")) < 700  # readable without scrolling down


LINES_OF = """cells => cells.map(cell => {
    const text = document.createRange(); text.selectNodeContents(cell); return text.getClientRects().length })"""


def test_narrow_and_dark_screens(tmp_path):
    page = tree_page(CORPUS, np.array([3, 0, 2, 2, 0]), ["nsubj", "root", "obl", "punct", "root"])
    write_page(tmp_path / "p.html", page)
    with chromium() as browser:
        for scheme, colors in (("light", palette.LIGHT), ("dark", palette.DARK)):
            watched = Watched(browser, 400, scheme)
            watched.page.goto(f"file://{tmp_path}/p.html")
            assert not watched.is_too_wide() and len(watched.requests) == 1 and not watched.complaints
            lines = watched.page.locator("td.whole").evaluate_all(LINES_OF)
            assert len(lines) > 6 and set(lines) == {1}
            ground = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
            wanted = colors["page"].lstrip("#")
            assert ground == f"rgb({', '.join(str(int(wanted[k : k + 2], 16)) for k in (0, 2, 4))})"


@needs_shared
def test_a_real_treebank():
    corpus = read_dependencies(SHARED / "cdt-da" / "dev.conll.gz")
    page = tree_page(corpus, corpus.heads, corpus.relations, most=10**6)
    found = drawings(page)
    assert len(found) == corpus.n_sentences and sum(len(edges(each)) for each in found) == corpus.n_words
    assert "100.00 %" in page
