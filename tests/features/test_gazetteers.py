"""Word lists in templates: matches of several words, in memory, hashed, from disk, in files, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run  # noqa: F401

import partwise
from partwise import SegmentLabeler, SequenceLabeler
from partwise.errors import InputError
from partwise.features.attributes import AttributeExtractor
from partwise.features.engine import intern
from partwise.features.gazetteers import Matcher
from partwise.features.templates import Gazetteer, load_template, parse_template

SENTENCES = [
    ["I", "saw", "New", "York", "City", "Hall"],
    ["new", "york", "Acme", "Corp", "New"],
    ["York"],
    ["ACME", "corp", "New", "York", "Paris"],
]
LABELS = [["O", "O", "B", "I", "I", "O"], ["O", "O", "C", "C", "O"], ["O"], ["C", "C", "B", "I", "B"]]
X = [[[word] for word in sentence] for sentence in SENTENCES]


@pytest.fixture
def template(tmp_path: Path) -> Path:
    (tmp_path / "cities.txt").write_text("New York\nNew York City\nParis\n\n  San   Francisco \n")
    (tmp_path / "firms.txt").write_text("acme corp\nacme\n")
    lines = (
        "gazetteer: city cities.txt",
        "gazetteer: firm firms.txt",
        "city[-1..1]",
        "city[0]|word[0]",
        "firm[0]",
    )
    (tmp_path / "t.txt").write_text("\n".join([*lines, "word[0]"]))
    return tmp_path / "t.txt"


@pytest.mark.parametrize("seed", range(5))
def test_matches_are_the_longest_from_left_to_right(seed: int) -> None:
    random = np.random.default_rng(seed)
    letters = np.array(["a", "b", "B", "c"])
    entries = tuple({" ".join(random.choice(letters, random.integers(1, 4))) for _ in range(6)})
    sentences = [random.choice(letters, random.integers(0, 9)).tolist() for _ in range(30)]
    matcher, expected = Matcher(Gazetteer("x", entries)), []
    ignores_case = all(entry == entry.lower() for entry in entries)
    for sentence in sentences:
        words, own, t = [w.lower() if ignores_case else w for w in sentence], [-1] * len(sentence), 0
        while t < len(words):
            sizes = [n for n in range(1, 4) if " ".join(words[t : t + n]) in entries and t + n <= len(words)]
            longest = max(sizes, default=0)
            own[t : t + longest] = [0, 1, 1][:longest]
            t += max(longest, 1)
        expected += own
    flat = [word for sentence in sentences for word in sentence]
    ptr = np.append(0, np.cumsum([len(each) for each in sentences]))
    assert matcher.marks(intern(flat, 0), ptr).tolist() == expected


def attributes(template: Path) -> list[set[str]]:
    extractor = AttributeExtractor(load_template(template))
    flat, ptr = (
        [word for each in SENTENCES for word in each],
        np.append(0, np.cumsum(list(map(len, SENTENCES)))),
    )
    rows, names = extractor.fit_transform([flat], ptr), None
    names = extractor.names()
    return [{names[k] for k in rows.ids[a:b]} for a, b in zip(rows.row_ptr, rows.row_ptr[1:], strict=False)]


def test_fields_of_word_lists_are_features(template: Path) -> None:
    found = attributes(template)
    assert found[1] == {"city[1]=B", "word[0]=saw"}
    assert found[3] == {"city[-1]=B", "city[0]=I", "city[1]=I", "city[0]|word[0]=I|York", "word[0]=York"}
    assert found[5] == {"city[-1]=I", "word[0]=Hall"}
    assert found[6] == {"word[0]=new"}  # cities have capitals; firms are in lower case, and match all
    assert found[8] == {"firm[0]=B", "word[0]=Acme"} and found[9] == {"firm[0]=I", "word[0]=Corp"}
    assert found[10] == {"word[0]=New"} and found[11] == {"word[0]=York"}  # not across sentences


@pytest.mark.parametrize("settings", [{}, {"hash_size": 4096}])
def test_models_hold_their_lists(template: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    model = SequenceLabeler(template=str(template), l2=0.1, tol=1e-2, **settings).fit(X, LABELS)
    model.save(tmp_path / "m")
    for name in ("cities.txt", "firms.txt"):
        (tmp_path / name).unlink()
    again, new = partwise.load(tmp_path / "m"), [[[w] for w in ("in", "San", "Francisco", "and", "aCME")]]
    assert again.predict(X) == model.predict(X) == LABELS
    np.testing.assert_array_equal(again.predict_marginals(new)[0], model.predict_marginals(new)[0])
    assert again.predict(new)[0][1:3] == ["B", "I"] and again.tagger().tag(new[0]) == again.predict(new)[0]


def test_other_ways_in(template: Path, tmp_path: Path, run: Any, monkeypatch: Any) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    text = "\n\n".join(
        "\n".join(f"{w}\t{t}" for w, t in zip(*each, strict=True))
        for each in zip(SENTENCES, LABELS, strict=True)
    )
    (tmp_path / "train.txt").write_text(text + "\n")
    options = ("--template", template, "--tol", "0.01", "--l2", "0.1", "--quiet", "--json")
    code, out, err = run("train", "sequence", "train.txt", "--model", "a", *options)
    assert code == 0, err
    code, _, err = run("encode", "sequence", "train.txt", "--output", "data", "--template", template)
    assert code == 0, err
    code, again, err = run(
        "train", "sequence", "data", "--model", "b", "--tol", "0.01", "--l2", "0.1", "--quiet", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["objective"] == pytest.approx(json.loads(again)["objective"], rel=0.02)
    segments = SegmentLabeler(template=str(template), l2=0.1, tol=1e-2)
    assert segments.fit(
        X, [[(2, 4, "B")], [(2, 3, "C")], [], [(0, 1, "C"), (2, 3, "B"), (4, 4, "B")]]
    ).converged_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gazetteer: city nothing.txt\ncity[0]", "cannot read the gazetteer city: No such file"),
        ("gazetteer: city\ncity[0]", "has a name and a file"),
        ("gazetteer: two words.txt x\n", "cannot read the gazetteer two"),
        ("gazetteer: city empty.txt\ncity[0]", "has no entries"),
        ("gazetteer: city one.txt\ngazetteer: city one.txt\ncity[0]", "is there twice"),
        ("gazetteer: city one.txt\nlower(city[0])", "gazetteers have no functions"),
        ("gazetteer: word one.txt\nword[0]", "has the name of a column"),
    ],
)
def test_bad_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "one.txt").write_text("Paris\n")
    with pytest.raises(InputError, match=message):
        parse_template(text, path=tmp_path / "t.txt").bind(1)
