"""One language and one engine: what is added once works for tokens, segments, arcs, triples and spans alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from partwise.data import corpus_from_sentences
from partwise.errors import InputError
from partwise.features import engine, templates
from partwise.features.arcs import ARCS, ArcFeatures, GrandparentFeatures, SiblingFeatures
from partwise.features.attributes import AttributeExtractor
from partwise.features.functions import FUNCTIONS
from partwise.features.segments import SEGMENTS, SegmentFeatures, all_spans
from partwise.features.spans import LANGUAGES, Places, Sentences, SpanFeatures
from partwise.features.templates import TOKENS, lines, parse_line, parse_template

WORDS, TAGS = ["the", "Dog", "barks"], ["DT", "NN", "VB"]
CORPUS = corpus_from_sentences([WORDS], fine_tags=[TAGS], heads=[[2, 3, 0]])
SENTENCES = Sentences(WORDS, TAGS, np.array([0, 3]))


def places(*rows: tuple[int, int, int]) -> Places:
    return Places(
        np.array([0, len(rows)]), *(np.array(column, np.int32) for column in zip(*rows, strict=True))
    )


def of_tokens(template: str) -> list[str]:
    extractor = AttributeExtractor(parse_template(template))
    extractor.fit_transform([WORDS, TAGS], np.array([0, 3]))
    return extractor.names()


def of_segments(template: str) -> list[str]:
    return SegmentFeatures(template + "\n").fit([WORDS, TAGS], all_spans(np.array([3]), 2)).names()


def of_spans(what: str) -> Callable[[str], list[str]]:
    rows = places((0, 0, 0), (0, 1, 0), (1, 2, 1), (0, 2, 1))
    return lambda template: SpanFeatures(what, [template]).fit(SENTENCES, rows).names()


def of_arcs(kind: Any) -> Callable[[str], list[str]]:
    return lambda template: kind([template]).fit(CORPUS).names()


# For each kind: how its features are made, and a template of one column at one position, in both spellings.
KINDS = {
    "token": (of_tokens, "word[-1]", "token-1.word"),
    "segment": (of_segments, "word[first+1]", "first+1.word"),
    "arc": (of_arcs(ArcFeatures), "form[modifier]", "modifier.form"),
    "sibling": (of_arcs(SiblingFeatures), "form[sibling]", "sibling.form"),
    "grandparent": (of_arcs(GrandparentFeatures), "form[head-1]", "head-1.form"),
    "word": (of_spans("word"), "form[+1]", "word+1.form"),
    "span": (of_spans("span"), "form[last]", "last.form"),
    "split": (of_spans("split"), "form[split+1]", "split+1.form"),
}


def values(names: list[str]) -> list[str]:
    return sorted(name.rpartition("=")[2] for name in names)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_function_works_for_every_kind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, "backwards", lambda string, _: string[::-1] if string != "the" else None)
    features, *spellings = KINDS[kind]
    for spelling in spellings:
        plain, found = features(spelling), features(f"backwards({spelling})")
        inside = [name for name in plain if not name.endswith(("<root>", "<outside>", "=_B", "=the"))]
        reserved = [
            name for name in found if name.endswith("=_B")
        ]  # segments: outside, functions have a value, too
        assert values([name for name in found if name not in reserved]) == sorted(
            value[::-1] for value in values(inside)
        )
        assert found and all(name.startswith("backwards(") for name in found)
        suffixes = features(f"suffix(backwards({spelling}), 1..2)")
        assert {name.partition("=")[0][-2:] for name in suffixes} == {"1)", "2)"}


@pytest.mark.parametrize("kind", KINDS)
def test_both_spellings_are_one_template(kind: str) -> None:
    features, brackets, dots = KINDS[kind]
    assert values(features(brackets)) == values(features(dots))
    kinds = {"token": TOKENS, "segment": SEGMENTS, "arc": ARCS, "sibling": SiblingFeatures.kind}
    kinds |= {"grandparent": GrandparentFeatures.kind, **LANGUAGES}
    (one,), (other,) = parse_line(brackets, kinds[kind]), parse_line(dots, kinds[kind])
    assert one.fields == other.fields
    pairs = parse_line(f"{brackets}|lower({dots})", kinds[kind]) + parse_line(
        f"{brackets} + lower({dots})", kinds[kind]
    )
    assert pairs[0].fields == pairs[1].fields
    assert pairs[0].attribute(["A", "b"]).endswith("=A|b") and " & " in pairs[1].attribute(["A", "b"])


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_go_through_the_one_parser_and_the_one_engine(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    parse, learn = lines._fields, engine.Features._learn

    def parsing(text: str, of: templates.Kind) -> list[templates.Field]:
        seen.append(of.name)
        return parse(text, of)

    def learning(self: Any, keys: np.ndarray) -> None:
        seen.append(f"{self.kind.name} keys")
        learn(self, keys)

    monkeypatch.setattr(lines, "_fields", parsing)
    monkeypatch.setattr(engine.Features, "_learn", learning)
    features, spelling, _ = KINDS[kind]
    features(spelling)
    assert kind in seen and f"{kind} keys" in seen


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_are_one_line_that_says_what_and_where(kind: str) -> None:
    features, spelling, _ = KINDS[kind]
    for wrong, message in (
        ("shout({})", "unknown function 'shout'"),
        ("suffix({})", "suffix needs a number"),
        ("suffix({}, 0)", "must be at least 1"),
        ("lower({}, 2)", "lower takes no number"),
        ("{}|nothing()", "unknown function 'nothing'"),
        ("{}|?!", "cannot read '?!'; a field looks like"),
    ):
        with pytest.raises(InputError) as caught:
            features(wrong.format(spelling))
        text = str(caught.value)
        assert message in text and "\n" not in text and "template" in text.partition(message)[0]


def test_spans_have_all_and_any_of_segments() -> None:
    assert values(of_spans("span")("all(lower(form)) + length"))[0] == "1"
    names = of_spans("span")("all(lower(form))")
    assert set(values(names)) == {"the", "the dog", "dog barks", "the dog barks"}
    assert set(values(of_spans("span")("any(tag)"))) == set(TAGS)
    rows = places((0, 0, 0), (0, 1, 0), (1, 2, 1), (0, 2, 1))
    features = SpanFeatures("span", ["all(form)|shape", "any(tag)"]).fit(SENTENCES, rows)
    again = SpanFeatures.from_state(features.state())
    assert again.names() == features.names() and len(set(features.names())) == len(features.names())
    found, expected = again.transform(SENTENCES, rows), features.transform(SENTENCES, rows)
    assert found.ids.tolist() == expected.ids.tolist() and len(found.ids) > len(rows.first)


def test_templates_without_any_value_keep_the_others_apart() -> None:
    template = parse_template(
        "is_digit(word[0])\nbegin\nword[0]\nis_upper(word[0])|pos[0]\npos[0]\nis_digit(pos[0])\n"
    )
    extractor = AttributeExtractor(template)
    rows = extractor.fit_transform([WORDS, TAGS], np.array([0, 3]))
    again = AttributeExtractor.from_state(extractor.state())
    expected = {"begin", *(f"word[0]={word}" for word in WORDS), *(f"pos[0]={tag}" for tag in TAGS)}
    assert again.names() == extractor.names() and set(again.names()) == expected
    assert again.transform([WORDS, TAGS], np.array([0, 3])).ids.tolist() == rows.ids.tolist()


def test_direct_keys_and_searched_keys_of_one_row() -> None:
    extractor = AttributeExtractor(parse_template("boundary: symbol\nbias\nword[0]|word[1]"))
    learnt = extractor.fit_transform([["a"], ["a"]], np.array([0, 1]))
    assert 0 < len(extractor._table.direct) <= extractor._table.keys.max()  # the second key is searched
    found = extractor.transform([["a"], ["a"]], np.array([0, 1]))
    assert found.ids.tolist() == learnt.ids.tolist() == [0, 1]
