"""Attachment scores worked by hand, and against counts made one word at a time."""

import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.data import corpus_from_sentences, parse_dependencies, read_dependencies
from partwise.errors import InputError
from partwise.scoring.attachment import attachment_scores, is_punctuation
from partwise.scoring.universal_attachment import is_universal, universal_scores

GOLD = corpus_from_sentences(
    [["Dogs", "bark", "."], ["No", "!"], ["--"]],
    heads=[[2, 0, 2], [0, 1], [0]],
    relations=[["nsubj", "root", "punct"], ["root", "punct"], ["punct"]],
)


def test_scores_by_hand():
    heads = np.array([2, 0, 1, 2, 0, 0])
    relations = ["nsubj", "root", "punct", "root", "root", "root"]
    scores = attachment_scores(GOLD, heads, relations)
    assert (scores.n_words, scores.n_correct_heads, scores.n_correct, scores.n_correct_relations) == (
        6,
        3,
        2,
        4,
    )
    assert (
        scores.uas == 0.5
        and scores.las == pytest.approx(1 / 3)
        and scores.label_accuracy == pytest.approx(2 / 3)
    )
    assert (scores.n_roots, scores.n_correct_roots) == (3, 2) and scores.root_accuracy == pytest.approx(2 / 3)
    assert (scores.n_sentences, scores.n_complete, scores.n_complete_labelled) == (3, 1, 0)
    assert scores.complete_match == pytest.approx(1 / 3) and scores.labelled_complete_match == 0
    root = scores.per_relation["root"]
    assert (root.n_true, root.n_predicted, root.n_correct) == (2, 4, 1)
    assert "unlabelled attachment         3 / 6         50.00 %" in scores.report()

    without = attachment_scores(GOLD, heads, relations, punctuation=False)
    assert (without.n_words, without.n_correct_heads, without.n_correct) == (3, 2, 2)
    assert (without.n_sentences, without.n_complete, without.n_complete_labelled) == (2, 1, 1)
    assert (without.n_roots, without.n_correct_roots) == (2, 1)
    assert set(without.per_relation) == {"nsubj", "root"}


def test_heads_alone():
    scores = attachment_scores(GOLD, GOLD.heads)
    assert scores.uas == scores.complete_match == scores.root_accuracy == 1
    assert scores.las is scores.label_accuracy is scores.labelled_complete_match is None
    assert "label" not in scores.report().replace("unlabelled", "")
    nothing = attachment_scores(GOLD.subset(np.array([2])), np.array([0]), punctuation=False)
    assert nothing.n_words == 0 and nothing.uas == nothing.complete_match == 0.0


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(InputError, match="2 heads for 6 words"):
        attachment_scores(GOLD, np.zeros(2, int))
    with pytest.raises(InputError, match="1 relations for 6 words"):
        attachment_scores(GOLD, GOLD.heads, ["a"])
    blind = parse_dependencies("1\ta\t_\tN\tN\t_\t_\t_\t_\t_\n", path="f", need_heads=False)
    with pytest.raises(InputError, match="f:1: the truth has words without a head"):
        attachment_scores(blind, np.zeros(1, int))


def test_punctuation_is_what_unicode_calls_so():
    assert all(map(is_punctuation, [".", "...", "«", "—", "。", "_", "%", "¿?", "''"]))
    # Symbols are none, to Perl as to Unicode, not even the opening quotes of the Penn Treebank.
    assert not any(map(is_punctuation, ["``", "$", "+", ".a", "", "1"]))


@st.composite
def sentences(draw):
    forms = draw(
        st.lists(st.lists(st.sampled_from(["a", "b.", ".", "!?", "``"]), min_size=1, max_size=5), max_size=4)
    )
    heads, guesses, relations, guessed = [], [], [], []
    for sentence in forms:
        n = len(sentence)
        heads.append([draw(st.integers(0, word - 1)) for word in range(1, n + 1)])
        guesses.append([draw(st.integers(0, n)) for _ in range(n)])
        relations.append([draw(st.sampled_from("xyz")) for _ in range(n)])
        guessed.append([draw(st.sampled_from("xyz")) for _ in range(n)])
    return forms, heads, guesses, relations, guessed


@settings(deadline=None)
@given(sentences(), st.booleans())
def test_scores_against_counting_word_by_word(drawn, punctuation):
    forms, heads, guesses, relations, guessed = drawn
    gold = corpus_from_sentences(forms, heads=heads, relations=relations)
    flat = [guess for sentence in guesses for guess in sentence]
    names = [name for sentence in guessed for name in sentence]
    scores = attachment_scores(gold, np.array(flat, int), names, punctuation=punctuation)
    counts = dict.fromkeys(("words", "heads", "both", "names", "sentences", "complete", "roots", "found"), 0)
    for words in (list(zip(*columns, strict=True)) for columns in zip(*drawn, strict=True)):
        kept = [
            word
            for word in words
            if punctuation or not all(unicodedata.category(letter).startswith("P") for letter in word[0])
        ]
        counts["words"] += len(kept)
        counts["sentences"] += bool(kept)
        counts["complete"] += bool(kept) and all(head == guess for _, head, guess, _, _ in kept)
        for _, head, guess, name, guessed_name in kept:
            counts["heads"] += head == guess
            counts["names"] += name == guessed_name
            counts["both"] += (head, name) == (guess, guessed_name)
            counts["roots"] += head == 0
            counts["found"] += head == guess == 0
    assert counts == {
        "words": scores.n_words,
        "heads": scores.n_correct_heads,
        "both": scores.n_correct,
        "names": scores.n_correct_relations,
        "sentences": scores.n_sentences,
        "complete": scores.n_complete,
        "roots": scores.n_roots,
        "found": scores.n_correct_roots,
    }
    assert sum(each.n_correct for each in scores.per_relation.values()) == scores.n_correct


# ------------------------------------------------------------------ the universal scorer


def tokens(text, heads=None, relations=None):
    """A corpus of one sentence: "a" is a word, "(ab=a+b)" a token of two words."""
    lines, number = ["# text"], 0
    for token in text.split():
        parts = token.strip("()").partition("=")[2].split("+") if token[0] == "(" else [token]
        if token[0] == "(":
            form = token.strip("()").partition("=")[0]
            lines.append(f"{number + 1}-{number + len(parts)}\t{form}" + "\t_" * 8)
        for part in parts:
            head = heads[number] if heads else int(number > 0)
            relation = relations[number] if relations else "dep" if number else "root"
            number += 1
            lines.append(f"{number}\t{part}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_")
    return parse_dependencies("\n".join(lines) + "\n\n")


@pytest.mark.parametrize(
    ("gold", "predicted", "n_aligned"),
    [
        ("ich bin da", "ich bin da", 3),
        ("icon", "ic on", 0),
        ("icon da", "ic on da", 1),
        ("am tag da", "amt ag da", 1),
        ("(zum=zu+dem) tag", "(zum=zu+dem) tag", 3),
        ("(zum=zu+dem) tag", "zum tag", 1),
        ("(zum=zu+m) tag", "zu m tag", 3),  # parts that spell the token are found in it
        ("(zum=zu+dem) tag", "(zum=in+dem) tag", 2),
        ("(zum=ZU+DEM) tag", "(zum=zu+dem) tag", 3),
        ("(abc=a+b+c) (de=d+e)", "a (bcd=b+c+d) e", 5),  # tokens that overlap make one region
        ("(ab=x+y)", "(ab=y+x)", 1),
        ("(abcd=a+b+a+c)", "(ab=b+a) (cd=c+a)", 3),
        ("ab (cd=c+d)", "a (bcd=b+c+d)", 2),
    ],
)
def test_words_are_aligned(gold, predicted, n_aligned):
    counts = universal_scores(tokens(gold), tokens(predicted)).words
    assert counts.n_correct == n_aligned
    assert counts.n_true == tokens(gold).n_words and counts.n_predicted == tokens(predicted).n_words
    assert counts.f1 == 2 * n_aligned / (counts.n_true + counts.n_predicted)


def test_other_schemes_are_told_from_universal_dependencies():
    assert is_universal(["nsubj", "root", "obl:tmod", "case", "punct"])
    assert not is_universal(
        ["subj", "ROOT", "mod", "nobj", "conj", "expl"]
    )  # the Danish treebank shares two names


def test_universal_scores_by_hand():
    gold = tokens("we go home .", [2, 0, 2, 2], ["nsubj", "root", "obl:tmod", "punct"])
    other = tokens("we go home .", [2, 0, 2, 3], ["nsubj:x", "root", "advmod", "punct"])
    scores = universal_scores(gold, other)
    assert (scores.uas.n_correct, scores.las.n_correct) == (3, 2)  # subtypes do not count
    assert (scores.clas.n_true, scores.clas.n_predicted, scores.clas.n_correct) == (3, 3, 2)
    assert scores.uas.f1 == 0.75 and scores.las.f1 == 0.5 and scores.clas.f1 == pytest.approx(2 / 3)
    assert "UAS             75.00" in scores.report()
    # "hom e": the words before it are right, the heads inside it cannot be.
    cut = tokens("we go hom e .", [2, 0, 2, 3, 2], ["nsubj", "root", "obl", "dep", "punct"])
    scores = universal_scores(gold, cut)
    assert (scores.uas.n_true, scores.uas.n_predicted, scores.uas.n_aligned, scores.uas.n_correct) == (
        4,
        5,
        3,
        3,
    )
    assert scores.uas.precision == 3 / 5 and scores.uas.recall == 3 / 4 and scores.uas.aligned_accuracy == 1
    # A word whose head was cut differently is wrong even at the same position.
    gold = tokens("we came", [2, 0], ["nsubj", "root"])
    cut = tokens("we ca me", [2, 0, 2], ["nsubj", "root", "dep"])
    assert universal_scores(gold, cut).uas.n_correct == 0
    # Functional words do not count for CLAS.
    gold = tokens("at home", [2, 0], ["case", "root"])
    assert universal_scores(gold, replace(gold, relations=["obl", "root"])).clas.n_predicted == 2
    assert universal_scores(gold, gold).clas.n_true == 1


def test_texts_that_differ_are_refused():
    with pytest.raises(InputError, match="'go' in the truth, 'ho' in the prediction"):
        universal_scores(tokens("we go"), tokens("we ho"))
    with pytest.raises(InputError, match="the texts differ: 's' in the truth, '' in"):
        universal_scores(tokens("dogs"), tokens("dog"))
    spaced = "1\t10\u00a0000 x\t_\t_\t_\t_\t0\troot\t_\t_\n"
    plain = "1\t10000x\t_\t_\t_\t_\t0\troot\t_\t_\n"
    assert (
        universal_scores(parse_dependencies(spaced, "conllu"), parse_dependencies(plain, "conllu")).uas.f1
        == 1
    )


@needs_shared
def test_both_scorers_agree_on_a_real_treebank():
    gold = read_dependencies(SHARED / "ud-en-ewt" / "dev.conllu.gz")
    random = np.random.default_rng(0)
    heads = np.where((random.random(gold.n_words) < 0.2) & (gold.heads > 1), 1, gold.heads).astype(np.int32)
    heads[gold.sentence_ptr[:-1]] = gold.heads[gold.sentence_ptr[:-1]]
    relations = [
        name if keep else "dep"
        for name, keep in zip(gold.relations, random.random(gold.n_words) < 0.9, strict=True)
    ]
    plain = attachment_scores(gold, heads, relations)
    aligned = universal_scores(gold, replace(gold, heads=heads, relations=relations))
    assert aligned.words.f1 == 1 and 0.8 < plain.uas < 0.9
    assert aligned.uas.n_correct == plain.n_correct_heads == int((heads == gold.heads).sum())
    same = [a.split(":")[0] == b.split(":")[0] for a, b in zip(relations, gold.relations, strict=True)]
    assert aligned.las.n_correct == int(((heads == gold.heads) & np.array(same)).sum())
