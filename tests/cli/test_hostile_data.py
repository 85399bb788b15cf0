"""Data that `train` refuses before it trains, and labels that only evaluation data have."""

from __future__ import annotations

import numpy as np
import pytest
from commands import refused, run  # noqa: F401

from partwise import Classifier, InputError, SegmentLabeler, SequenceLabeler
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


def named(kinds):
    return ", ".join(sorted(map(repr, kinds)))


OTHER = [f"Z{k:02}" for k in range(12)]
EVALUATED = {
    "sequence": (["a D", "b N"], [f"a {name}" for name in OTHER], "{}\n\n", OTHER),
    "segments": (["a B-X", "b B-Y"], [f"a S-{name}" for name in OTHER], "{}\n\n", OTHER),
    "classify": (["x 1:1", "y 1:2"], [f"{name} 1:1" for name in OTHER], "{}\n", OTHER),
    "multilabel": (["x 1:1", "y,x 1:2"], [f"x,{name} 1:1" for name in OTHER], "{}\n", OTHER),
    "dependency": (["r", "s"], OTHER, "1\ta\t_\tX\tX\t_\t0\t{}\t_\t_\n\n", OTHER),
    "constituency": (["X-SBJ", "Y"], ["X", *OTHER], "(TOP (S ({0} (N a)) (V b)))\n", OTHER),
    "graph": (
        ["x", "y"],
        OTHER,
        '{{"nodes": [{{"features": [1.0], "label": "{}"}}], "edges": []}}\n',
        OTHER,
    ),
}


@pytest.mark.parametrize("task", EVALUATED)
def test_all_labels_that_only_evaluation_data_have_are_named(run, tmp_path, task):  # noqa: F811
    ours, theirs, form, names = EVALUATED[task]
    (tmp_path / "train").write_text("".join(map(form.format, ours * 4)))
    (tmp_path / "dev").write_text("".join(map(form.format, theirs)))
    words = f"labels that were not in training and so count as errors: {named(names)}\n"
    code, _, err = run("train", task, "train", "-m", "m.pw", "-q", "--dev", "dev")
    assert code == 0 and f"partwise: warning: --dev has {words}" in err
    code, _, err = run("evaluate", "m.pw", "dev")
    assert code == 0 and err.endswith(f"partwise: warning: dev has {words}")
    code, _, err = run("evaluate", "m.pw", "train")
    assert code == 0 and "warning" not in err


def test_score_names_all_labels():
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.warns(UserWarning, match=named(OTHER)):
        Classifier().fit(X, ["a", "b"] * 6).score(X, OTHER)
    sequences = [[row] for row in X]
    with pytest.warns(UserWarning, match=named(OTHER)):
        SequenceLabeler().fit(sequences, [["a"], ["b"]] * 6).score(sequences, [[name] for name in OTHER])
    segments = SegmentLabeler().fit(sequences, [[(0, 0, "a")]] * 12)
    with pytest.warns(UserWarning, match=named(OTHER)):
        segments.score(sequences, [[(0, 0, name)] for name in OTHER])
