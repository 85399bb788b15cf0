"""Data that `train` refuses before it trains, and labels that only evaluation data have."""

from __future__ import annotations

import pytest
from commands import refused, run  # noqa: F401

from partwise import Classifier, InputError, SequenceLabeler
from partwise.features.vocabulary import LONGEST_STRING
from partwise.storage import model_file

LONG = "x" * (LONGEST_STRING + 1)
TREE = f"1\t{LONG}\t_\tX\tX\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("sequence", f"a D\n{LONG} N\n"),
        ("sequence", f"D\tw={LONG}\n"),
        ("sequence", f"a {LONG}\n"),
        ("segments", f"a B-NP\n{LONG} I-NP\n"),
        ("dependency", TREE),
        ("dependency", TREE.replace("root", LONG).replace(LONG, "a", 1)),
        ("constituency", f"(S (N {LONG}))\n"),
    ],
)
def test_a_word_without_end_is_refused_before_training(run, tmp_path, task, text):  # noqa: F811
    (tmp_path / "train.txt").write_text(text)
    refused(
        run("train", task, "train.txt", "-m", "m.pw", "-q"), "characters; attributes and labels have 100,000"
    )
    assert not (tmp_path / "m.pw").exists()


def test_attributes_without_end_are_refused_in_python():
    with pytest.raises(InputError, match="characters; attributes and labels have"):
        Classifier().fit([{LONG: 1.0}, {"a": 1.0}], ["x", "y"])
    with pytest.raises(InputError, match="characters; attributes and labels have"):
        SequenceLabeler().fit([[[LONG], ["a"]]], [["x", "y"]])


def test_names_that_no_file_holds_are_refused_before_training(run, tmp_path, monkeypatch):  # noqa: F811
    (tmp_path / "train.txt").write_text("".join(f"word{k} {'DN'[k % 2]}\n\n" for k in range(50)))
    monkeypatch.setattr(model_file, "_LARGEST_JSON", 1000)
    refused(run("train", "sequence", "train.txt", "-m", "m.pw", "-q"), "the names of attributes take")
    refused(
        run("path", "sequence", "train.txt", "-m", "m.pw", "-q", "--folds", "2"),
        "the names of attributes take",
    )
    assert not (tmp_path / "m.pw").exists()
