"""Scores of constituents, against cases counted by hand by evalb's rules."""

from __future__ import annotations

import pytest

from partwise.data import Tree
from partwise.errors import InputError
from partwise.scoring.brackets import bracket_scores

SUBJECT, PLACE = "(NP (DT The) (NN dog))", "(PP (IN in) (NP (DT the) (NN park)))"
GOLD = f"(TOP (S {SUBJECT} (VP (VBD saw) (NP (NP (DT a) (NN man)) {PLACE})) (. .)))"


def scores(gold: str, guess: str, **options: int):  # type: ignore[no-untyped-def]
    return bracket_scores([Tree.of(gold)], [Tree.of(guess)], **options)


def test_the_same_tree_is_all_right() -> None:
    found = scores(GOLD, GOLD)
    assert (found.n_true, found.n_correct, found.n_words, found.n_skipped) == (7, 7, 8, 0)
    assert (
        found.f1 == found.exact_match == found.tag_accuracy == found.no_crossing == 1.0
        and found.crossing == 0
    )


def test_another_attachment_is_counted_as_by_hand() -> None:
    # The PP under the VP: brackets S NP VP NP PP NP, all six also in the truth, which has the NP 3-8 besides.
    guess = f"(TOP (S {SUBJECT} (VP (VBD saw) (NP (DT a) (NN man)) {PLACE}) (. .)))"
    found = scores(GOLD, guess)
    assert (found.n_true, found.n_predicted, found.n_correct, found.n_crossing) == (7, 6, 6, 0)
    assert found.precision == 1.0 and found.recall == 6 / 7 and found.f1 == 12 / 13 and found.exact_match == 0
    assert found.per_label["NP"].n_true == 4 and found.per_label["NP"].n_predicted == 3


def test_crossing_brackets_count_once_however_many_they_cross() -> None:
    # [dog saw] crosses NP 0-2 and VP 2-8; [man in] crosses NP 3-5 and PP 5-8: two crossing brackets.
    guess = (
        "(TOP (S (DT The) (NP (NN dog) (VBD saw)) (DT a) (X (NN man) (IN in)) (NP (DT the) (NN park)) (. .)))"
    )
    found = scores(GOLD, guess)
    assert (found.n_crossing, found.no_crossing, found.two_or_less_crossing) == (2, 0.0, 1.0)
    assert found.n_correct == 2  # S, and the last NP
    assert scores("(S (A a) (X (B b) (C c)))", "(S (Y (A a) (B b)) (C c))").n_crossing == 1
    assert scores("(S (Y (A a) (B b)) (C c))", "(S (A a) (X (B b) (C c)))").n_crossing == 1


def test_punctuation_traces_top_and_functions_do_not_count() -> None:
    gold = "( (S (`` ``) (NP-SBJ-1 (NN a)) (PRN (, ,)) (VP (VBZ b) (NP (-NONE- *))) (: --)))"
    guess = "(TOP (S (NP (`` ``) (NN a) (, ,)) (VP (VBZ b) (: --))))"
    found = scores(gold, guess)
    assert (found.n_true, found.n_predicted, found.n_correct, found.n_words) == (3, 3, 3, 2)
    assert found.exact_match == 1.0


def test_particles_and_adverbs_are_the_same_and_chains_are_matched_one_by_one() -> None:
    found = scores("(S (ADVP (RB a)) (NP (NP (NN b))))", "(S (PRT (RP a)) (NP (NN b)))")
    assert (found.n_true, found.n_predicted, found.n_correct) == (4, 3, 3)
    assert found.tag_accuracy == 0.5


def test_the_true_tags_decide_what_punctuation_is() -> None:
    found = scores("(S (NP (NN a) (NN b)) (. .))", "(S (NP (NN a) (, b)) (NN .))")
    assert (found.n_correct, found.n_words, found.n_correct_tags, found.n_skipped) == (2, 2, 1, 0)


def test_other_words_are_skipped_and_long_sentences_left_out() -> None:
    assert scores("(S (NN a))", "(S (NN b))").n_skipped == 1
    assert scores("(S (NN a) (NN b))", "(S (NN a) (NN b))", max_length=1).n_sentences == 0
    assert scores("(S (NN a) (NN b))", "(S (NN a) (NN b))", max_length=2).f1 == 1.0
    with pytest.raises(InputError, match="1 predicted trees for 0"):
        bracket_scores([], [Tree.of("(S (NN a))")])
    assert bracket_scores([], []).as_dict()["f1"] == 0.0
