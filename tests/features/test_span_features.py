"""Features of words, spans and splits, against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.core.arrays import offsets
from partwise.core.word_classes import word_class
from partwise.errors import InputError
from partwise.features.spans import LANGUAGES, LENGTHS, Places, Sentences, SpanFeatures
from partwise.features.templates import parse_line, parse_list

LONG = [(f"w{t}", "NN") for t in range(12)]
SENTENCES = [[("The", "DT"), ("dog", "NN"), ("barks", "VBZ"), (".", ".")], [("Run", "VB")], [], LONG]
BINS = [1, 2, 3, 4, 5, 10, 20, 10**9]
WORDS = [word for sentence in SENTENCES for word in sentence]
CORPUS = Sentences(
    [form for form, _ in WORDS], [tag for _, tag in WORDS], offsets([len(each) for each in SENTENCES])
)


def places(rows: list[list[tuple[int, int, int]]]) -> Places:
    flat = np.array([row for each in rows for row in each], np.int32).reshape(-1, 3)
    return Places(offsets([len(each) for each in rows]), flat[:, 0], flat[:, 1], flat[:, 2])


SPLITS = [[(i, j, m) for i in range(4) for j in range(i + 1, 4) for m in range(i, j)], [], [], []]
SPANS = [[(i, j, 0) for i in range(4) for j in range(i, 4)], [(0, 0, 0)], [], [(0, j, 0) for j in range(12)]]


def value(sentence: list[tuple[str, str]], at: int, source: str) -> str | None:
    """A field of a word, by its definition."""
    inside = 0 <= at < len(sentence)
    if source.startswith(("prefix", "suffix")):
        length = int(source[6:])
        if not inside or len(sentence[at][0]) <= length:
            return None
        return sentence[at][0][:length] if source.startswith("prefix") else sentence[at][0][-length:]
    if not inside:
        return "<outside>"
    form, tag = sentence[at]
    return {"form": form, "lower": form.lower(), "tag": tag, "class": word_class(form, at == 0)}[source]


def shape(sentence: list[tuple[str, str]], first: int, last: int) -> str | None:
    looks = [
        "9"
        if any(map(str.isdigit, form))
        else "X"
        if form[0].isupper()
        else "x"
        if form[0].isalpha()
        else form[0]
        for form, _ in sentence[first : last + 1]
    ]
    return "".join(looks) if len(looks) <= 8 else None


def names_by_definition(what: str, sentence: list[tuple[str, str]], row: tuple[int, int, int]) -> list[str]:
    first, last, split = row
    found = []
    for text in LANGUAGES[what].presets["default"]:
        values = []
        [combination] = parse_line(text, LANGUAGES[what])
        for piece in combination.fields:
            if piece.source == "length":
                values.append(LENGTHS[sum(last - first + 1 > limit for limit in BINS)])
            elif piece.source == "shape":
                values.append(shape(sentence, first, last))
            else:
                at = {"word": first, "first": first, "last": last, "split": split}[piece.place] + piece.offset
                values.append(value(sentence, at, piece.source))
        if None not in values:
            pairs = zip(combination.fields, values, strict=True)
            found.append(" & ".join(f"{piece.text()}={each}" for piece, each in pairs))
    return found


@pytest.mark.parametrize(
    ("what", "rows"),
    [
        ("word", [[(t, t, 0) for t in range(len(each))] for each in SENTENCES]),
        ("span", SPANS),
        ("split", SPLITS),
    ],
)
def test_features_are_those_of_the_definition(what: str, rows: list[list[tuple[int, int, int]]]) -> None:
    features = SpanFeatures(what).fit(CORPUS, places(rows))
    again = SpanFeatures.from_state(features.state())
    for each in (features, again):
        found = each.transform(CORPUS, places(rows))
        at = 0
        for sentence, own in zip(SENTENCES, rows, strict=True):
            for row in own:
                ids = found.ids[found.row_ptr[at] : found.row_ptr[at + 1]]
                assert sorted(each.names(ids.tolist())) == sorted(names_by_definition(what, sentence, row))
                at += 1
    few = features.keep(np.array([3, 1]))
    assert few.names() == features.names([3, 1]) and few.n_attributes == 2


def test_unknown_values_rare_features_and_missing_tags_are_left_out() -> None:
    features = SpanFeatures("word", ["word.form", "word.suffix2"]).fit(
        CORPUS, Places.of_words(CORPUS.lengths)
    )
    other = Sentences(["cats", "logs", "marks"], None, np.array([0, 3]))
    found = features.transform(other, Places.of_words(other.lengths))
    assert [features.names(found.ids[found.row_ptr[t] : found.row_ptr[t + 1]].tolist()) for t in range(3)] == [
        [], [], ["word.suffix2=ks"],
    ]  # fmt: skip
    untagged = CORPUS._replace(tags=None)
    features = SpanFeatures("word").fit(untagged, Places.of_words(CORPUS.lengths))
    assert features.used_templates and not any("tag" in text for text in features.used_templates)
    spans = SpanFeatures("span", ["length", "first.tag"], min_count=2).fit(CORPUS, places(SPANS))
    assert "first.tag=." not in spans.names() and "first.tag=DT" in spans.names()
    with pytest.raises(InputError, match="no word template is left"):
        SpanFeatures("word", ["word.tag"]).fit(untagged, Places.of_words(CORPUS.lengths))


@pytest.mark.parametrize(
    ("what", "templates"),
    [
        ("word", ["first.tag"]), ("word", ["length"]), ("span", ["split.tag"]), ("span", ["word.tag"]),
        ("span", ["first.tag + first.tag"]), ("span", ["first.tag", "first.tag"]), ("span", ["first.lemma"]),
        ("span", "unheard"), ("span", []), ("span", [3]), ("span", {"length"}),
    ],
)  # fmt: skip
def test_bad_templates_are_refused(what: str, templates: object) -> None:
    with pytest.raises(InputError, match="template"):
        parse_list(templates, LANGUAGES[what])  # type: ignore[arg-type]
