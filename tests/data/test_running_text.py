"""Running text is split as the training data were, and every token knows its place."""

from __future__ import annotations

import gzip
import json
import re
from itertools import pairwise

import numpy as np
import pytest
from data_paths import SHARED, needs_shared

from partwise.data.running_text import Splitter


def texts(splitter, text):
    return [[token.text for token in sentence] for sentence in splitter.sentences(text)]


def test_usual_text():
    text = 'He said: "Go!" They left... (Mr. Weber too.) At 3.5, "ok".\nA new line\n\n'
    assert texts(Splitter(), text) == [
        ["He", "said", ":", '"', "Go", "!", '"'],
        ["They", "left", "..."],
        ["(", "Mr.", "Weber", "too", ".", ")"],
        ["At", "3.5", ",", '"', "ok", '"', "."],
        ["A", "new", "line"],
    ]


def test_places_are_right_for_any_text():
    random = np.random.default_rng(0)
    letters = list("ab.,!?\"'()-$ \n\tÄß…“”🎉\u0301\u00a0")
    for _ in range(300):
        text = "".join(random.choice(letters, size=random.integers(0, 40)))
        for splitter in (Splitter(), Splitter(".,-$", "-$", frozenset({"a.", "b"}))):
            tokens = [token for sentence in splitter.sentences(text) for token in sentence]
            assert all(text[token.start : token.end] == token.text for token in tokens)
            assert "".join(token.text for token in tokens) == "".join(text.split())
            assert all(one.end <= other.start for one, other in pairwise(tokens))


def test_learned_from_tokens():
    separate = Splitter.learned(["I", ",", "you", ".", ".", "Inc.", "5", "%", "a-b"] * 5)
    assert [token.text for token in separate.tokens("we, Inc. 7% a-b.")] == [
        "we",
        ",",
        "Inc.",
        "7",
        "%",
        "a-b",
        ".",
    ]
    attached = Splitter.learned(["I,", "you.", "(he)"] * 5)
    assert [token.text for token in attached.tokens("we, (they) left.")] == ["we,", "(they)", "left."]
    dashes = Splitter.learned(["a", "-", "b"] * 5)
    assert [token.text for token in dashes.tokens("x-y")] == ["x", "-", "y"]
    assert Splitter.of(separate.as_dict()) == separate


@pytest.mark.parametrize(
    "stored", [None, 3, {}, {"edges": 1, "inside": ""}, {"edges": ".", "inside": "", "kept": 3}]
)
def test_damaged_records_are_the_usual_splitter_or_read_as_far_as_possible(stored):
    assert Splitter.of(stored).tokens("a b.")[0].text == "a"


@needs_shared
@pytest.mark.parametrize(("name", "share"), [("conll2000", 0.95), ("conll2002-es", 0.9)])
def test_real_sentences_come_back(name, share):
    """Of sentences whose spaces before and after punctuation were dropped, so many have the tokens that they had."""
    raw = gzip.decompress((SHARED / name / "train.txt.gz").read_bytes()).decode().strip().split("\n\n")
    sentences = [[line.split(" ")[0] for line in block.split("\n")] for block in raw[:4000]]
    splitter = Splitter.learned([word for sentence in sentences[:2000] for word in sentence])
    right = 0
    for sentence in sentences[2000:]:
        text = re.sub(r"([(]) ", r"\1", re.sub(r" ([.,;:!?)%])", r"\1", " ".join(sentence)))
        right += [token.text for token in splitter.tokens(text)] == sentence
    assert right > share * 2000


def test_text_on_the_command_line(tmp_path, capsys):
    from partwise.cli import main

    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(list(map(str, arguments)))
        return stopped.value.code, capsys.readouterr()

    rows = [
        ("Ines", "B-PER"),
        ("left", "O"),
        ("Madrid", "B-LOC"),
        (",", "O"),
        ("then", "O"),
        ("slept", "O"),
        (".", "O"),
    ]
    (tmp_path / "train.txt").write_text("\n".join("".join(f"{a} {b}\n" for a, b in rows) for _ in range(6)))
    assert run("train", "sequence", tmp_path / "train.txt", "-m", tmp_path / "m", "-q", "--l2", 0.1)[0] == 0
    (tmp_path / "in.txt").write_text("He slept. Ines left Madrid, then slept.")
    code, out = run("predict", tmp_path / "m", tmp_path / "in.txt", "--text", "--entities")
    _, second = map(json.loads, out.out.splitlines())
    assert code == 0 and second["text"] == "Ines left Madrid, then slept." and second["start"] == 10
    assert [each["text"] for each in second["entities"]] == ["Ines", "Madrid"]
    assert [second["text"][a:b] for a, b in second["offsets"]] == second["tokens"]
    (tmp_path / "tags.txt").write_text("a D X\nb N Y\n\n" * 3)
    assert run("train", "sequence", tmp_path / "tags.txt", "-m", tmp_path / "t", "-q")[0] == 0
    code, out = run("predict", tmp_path / "t", tmp_path / "in.txt", "--text")
    assert code == 2 and "needs more than words" in out.err
