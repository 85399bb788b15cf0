"""Made sentences with names: valid labels, new names for a model, and the docstring's example."""

from __future__ import annotations

import doctest

import pytest

from partwise import InputError
from partwise.data import made_names, make_names
from partwise.metrics import chunk_scores


def test_labels_mark_names_as_iob2() -> None:
    X, y = make_names(300, random_state=3)
    assert [len(words) for words in X] == [len(labels) for labels in y]
    assert {label for labels in y for label in labels} == {
        "O",
        *(f"{b}-{t}" for b in "BI" for t in ("PER", "ORG")),
    } | {"B-LOC"}
    assert chunk_scores(y, y).f1 == 1.0


def test_a_share_of_the_names_leaves_the_others_unseen() -> None:
    def names(share: float) -> set[str]:
        X, y = make_names(400, share=share)
        return {
            w
            for words, labels in zip(X, y, strict=True)
            for w, l in zip(words, labels, strict=True)
            if l != "O"
        }

    assert names(0.5) < names(1.0)
    assert make_names(5) == make_names(5) != make_names(5, random_state=1)


@pytest.mark.parametrize("settings", [{"n_sentences": 0}, {"share": 0.0}, {"share": 1.5}])
def test_bad_settings_raise(settings: dict) -> None:
    with pytest.raises(InputError, match="n_sentences="):
        make_names(**settings)


def test_the_example_is_true() -> None:
    assert doctest.testmod(made_names).failed == 0
