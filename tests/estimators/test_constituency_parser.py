"""`ConstituencyParser`: what it learns, what it answers, what it refuses, what it keeps in a file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from toy_treebanks import TREES

import partwise
from partwise import ConstituencyParser
from partwise.data import Tree
from partwise.errors import InputError
from partwise.scoring.brackets import bracket_scores
from partwise.solvers.memory import memory_estimate
from partwise.tasks.constituents.baseline import PCFGParser

WORDS = [Tree.of(tree).words() for tree in TREES]
NEW = ["a", "dog", "of", "homes", "sees", "a", "cat", "."]
SHARP: dict[str, Any] = {"l2": 0.1, "tol": 1e-3}


@pytest.fixture(scope="module")
def parser() -> ConstituencyParser:
    return ConstituencyParser().fit(WORDS, TREES)


@pytest.fixture(scope="module")
def tagged() -> ConstituencyParser:
    return ConstituencyParser().fit(None, TREES)


def test_trees_are_learnt_and_new_sentences_parsed(parser: ConstituencyParser) -> None:
    assert [str(tree) for tree in parser.predict(WORDS)] == TREES
    assert parser.converged_ and parser.duality_gap_ <= parser.tol
    assert parser.score(WORDS, TREES) == parser.score(None, TREES) == 1.0
    assert str(parser.predict([NEW])[0]) == (
        "( (S (NP (NP (DT a) (NN dog)) (PP (IN of) (NP (NNS homes)))) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .)))"
    )
    assert parser.labels_ == ["ADVP", "NP", "PP", "S", "VP"] and not parser.has_tags_
    assert parser.predict([]) == [] and parser.predict_marginals([]) == []


def test_all_that_users_may_write_is_the_same_problem() -> None:
    trees = [Tree.of(tree) for tree in TREES[:3]]
    pairs = [tree.tagged_words() for tree in trees]
    given = [(None, trees), (pairs, TREES[:3]), (trees, [tree.nested() for tree in trees])]
    fitted = [ConstituencyParser(tol=0.1).fit(X, y) for X, y in given]
    assert len({each.objective_ for each in fitted}) == 1 and all(each.fixed_tags_ for each in fitted)
    traces = [
        tree.replace("(. .)", "(NP-TMP (-NONE- *)) (. .)").replace("(NP ", "(NP-SBJ-1 ", 1)
        for tree in TREES[:3]
    ]
    stripped = ConstituencyParser(tol=0.1).fit(None, traces)
    assert stripped.objective_ == fitted[0].objective_ and stripped.labels_ == fitted[0].labels_
    assert "NP-SBJ-1" in ConstituencyParser(tol=0.1, functions=True).fit(None, traces).labels_
    bare = [tree[2:-1] for tree in TREES[:3]]
    assert [str(tree) for tree in ConstituencyParser().fit(WORDS[:3], bare).predict(WORDS[:3])] == bare


@pytest.mark.parametrize(
    "settings",
    [
        {"direction": "head", "horizontal": 1},
        {"vertical": 2, "horizontal": None, "direction": "left"},
        {"split_templates": "default"},
        {
            "word_templates": ["word.form"],
            "span_templates": ["first.form + last.form", "length"],
            "min_count": 2,
        },
        {"loss": "hinge", "cost": "rules", "tol": 0.05},
        {"loss": "hinge", "cost": "rules_bound", "tol": 0.05},
        {"rule_templates": ["rule + split.form", "parent + right + length", "left + shape"], "tol": 0.01},
        {"rule_templates": "default", "rule_threshold": 1e-4, "split_templates": "default", "tol": 0.01},
        {"loss": "softmax_margin", "tol": 0.01},
    ],
)
def test_settings_learn_the_trees_too(settings: dict[str, Any]) -> None:
    parser = ConstituencyParser(**(SHARP | settings)).fit(WORDS, TREES)
    assert [str(tree) for tree in parser.predict(WORDS)] == TREES and parser.converged_


@pytest.mark.parametrize("sentence", [["it", "sees", "home"], ["home"]])
def test_probabilities_of_all_trees_add_up(parser: ConstituencyParser, sentence: list[str]) -> None:
    [found] = parser.predict_kbest([sentence], k=2000)
    assert found[0][0] == parser.predict([sentence])[0]
    assert math.isclose(sum(p for _, p in found), 1.0, abs_tol=1e-9)
    expected: dict[Any, float] = {}
    for tree, p in found:
        for span in set(tree.spans()):
            expected[span] = expected.get(span, 0.0) + p
    [marginals] = parser.predict_marginals([sentence])
    assert marginals.keys() == {span for span, p in expected.items() if p >= 1e-4 and span.label}
    assert all(math.isclose(p, expected[span], abs_tol=1e-9) for span, p in marginals.items())


def test_given_tags_are_kept_and_what_the_grammar_has_no_tree_of_is_counted(
    parser: ConstituencyParser, tagged: ConstituencyParser
) -> None:
    sentence = [("dog", "PRP"), ("runs", "VBZ"), (".", ".")]
    assert str(tagged.predict([sentence])[0]) == "( (S (NP (PRP dog)) (VP (VBZ runs)) (. .)))"
    outside = [("a", "."), ("b", "."), ("c", "DT")]
    parsed = tagged.parse([sentence, outside, [("it", "NEW"), ("barks", "VBZ"), (".", ".")]])
    assert parsed.fallback.tolist() == [False, True, False]
    assert parsed.trees[1].tagged_words() == outside and parsed.trees[2].tagged_words()[0] == ("it", "NEW")
    alone = tagged.parse([[("dog", ".")]])
    assert alone.fallback.all() and alone.trees[0].tagged_words() == [("dog", ".")]
    assert tagged.predict_kbest([outside]) == [[]] and tagged.predict_marginals([outside]) == [{}]
    single = ConstituencyParser(tol=0.1).fit(WORDS[:3], TREES[:3]).parse([["dog"], WORDS[0], ["it", "barks"]])
    assert single.fallback.tolist() == [True, False, True]
    assert str(single.trees[2]) == "( (S (DT it) (VBZ barks)))"
    assert not parser.parse([["home"]]).fallback.any()


def test_explanations_add_up_to_scores() -> None:
    parser = ConstituencyParser("hinge", tol=0.05).fit(WORDS, TREES)
    [[(best, score), (second, other), *_]] = parser.predict_kbest([NEW], k=3)
    whole, difference = parser.explain(NEW), parser.explain(NEW, against="runner-up")
    assert whole.tree == best and math.isclose(whole.score, score, abs_tol=1e-5)
    assert difference.against == second and math.isclose(difference.score, score - other, abs_tol=1e-5)
    assert any(term.feature == "(rule)" for term in whole.terms) and "→" in str(difference)
    assert len(difference.terms) < len(whole.terms) and whole.as_dict()["tree"] == str(best)
    names = [name for name, _, _ in parser.top_features(500)]
    assert "(rule)" in names and any(name.startswith("first") for name in names)
    assert all(label == "NP" or label.startswith("NP →") for _, label, _ in parser.top_features(5, "NP"))
    with pytest.raises(InputError, match="not in training"):
        parser.explain(["home"], "(PP (NN home))")
    with pytest.raises(InputError, match="words of y"):
        parser.explain(["home"], TREES[0])


def test_a_file_brings_back_the_same_parser(tmp_path: Any, tagged: ConstituencyParser) -> None:
    for parser, X in (
        (tagged, TREES),
        (ConstituencyParser("hinge", tol=0.1, split_templates="default"), None),
        (ConstituencyParser("hinge", tol=0.1, cost="rules", rule_threshold=1e-3), None),
        (ConstituencyParser(tol=0.1, rule_templates="default", rule_threshold=1e-3), None),
    ):
        fitted = parser if X else parser.fit(WORDS, TREES)
        inputs = [Tree.of(tree) for tree in TREES]
        fitted.save(tmp_path / "m")
        again = partwise.load(tmp_path / "m")
        assert again.predict(inputs) == fitted.predict(inputs) and np.array_equal(again.coef_, fitted.coef_)
        assert again.get_params() == fitted.get_params() and again.explain(inputs[0]).score == pytest.approx(
            fitted.explain(inputs[0]).score
        )


def test_memory_is_estimated_before_training(capsys: Any) -> None:
    parser = ConstituencyParser(verbose=1, tol=0.1).fit(WORDS, TREES)
    assert "memory: about" in capsys.readouterr().out.split("pass")[0]
    problem, _ = parser._problem_for(WORDS, TREES)
    single, double = memory_estimate(problem, "eg", 1e-2), memory_estimate(problem, "eg", 1e-9)
    assert single.parts == 8 * problem.n_parts and double.parts == 2 * single.parts
    assert memory_estimate(problem, "lbfgs").parts == 0 and "GB" in str(single._replace(parts=3 * 10**9))


def test_the_parser_is_better_than_the_grammar_alone(parser: ConstituencyParser) -> None:
    baseline = PCFGParser().fit(WORDS, TREES)
    parsed = baseline.parse([*WORDS, ["home"], [".", "."]])
    assert parsed.fallback.tolist() == [False] * len(WORDS) + [False, True]
    assert bracket_scores([Tree.of(tree) for tree in TREES], parsed.trees[:-2]).f1 > 0.8
    assert PCFGParser("head", 1, 2).fit(None, TREES).parse([Tree.of(TREES[0])]).trees[0] == Tree.of(TREES[0])


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([["a"]], ["(S (NN a)", "(S (NN b))"], "never closed"),
        ([["a"]], ["(S (NN b))"], r"words of y\[0\]"),
        ([["a"]], ["(S (NN a))", "(S (NN a))"], "2 trees, but X has 1"),
        ([["a"], []], ["(S (NN a))", "(S (NN a))"], r"X\[1\] has no words"),
        ([["a", ("b", "B")]], ["(S (NN a) (B b))"], "some words have tags"),
        ([["a", 3]], ["(S (NN a) (B b))"], r"X\[0\]\[1\] is 3"),
        ("a", ["(S (NN a))"], "X is str"),
        ([["a"]], "(S (NN a))", "y is str"),
        ([], [], "no sentences"),
        (None, ["(S (-NONE- a))"], "nothing but traces"),
        (None, ["(S (@X a))"], "binary forms"),
    ],
)
def test_bad_data_is_refused(X: Any, y: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ConstituencyParser().fit(X, y)


@pytest.mark.parametrize(
    "settings",
    [
        {"direction": "up"}, {"horizontal": -1}, {"vertical": 0}, {"cost": "hamming"}, {"span_templates": ["x"]},
        {"split_templates": "x"}, {"rule_templates": ["split.x"]}, {"rule_threshold": 1.0},
        {"rule_threshold": "none"}, {"cost": {"rule": "hamming"}},
        {"word_templates": None}, {"loss": "x"}, {"l2": 0}, {"min_count": 0},
    ],
)  # fmt: skip
def test_bad_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        ConstituencyParser(**settings).fit(WORDS, TREES)


def test_questions_that_have_no_answer_are_refused(tagged: ConstituencyParser) -> None:
    with pytest.raises(InputError, match="tagged words"):
        tagged.predict(WORDS)
    with pytest.raises(InputError, match="beta = inf"):
        ConstituencyParser("hinge", tol=0.1).fit(WORDS, TREES).predict_marginals(WORDS)
    with pytest.raises(ValueError, match="not fitted"):
        ConstituencyParser().predict(WORDS)
    with pytest.raises(InputError, match="zero for all"):
        ConstituencyParser().fit(WORDS, TREES, np.zeros(len(WORDS)))


# -- anchored rules -----------------------------------------------------------------------------------


def test_costs_of_rules_are_those_of_the_paper() -> None:
    """`cost="rules"` costs one for each wrong anchored rule, and the bound is above it; without γ both are no cost."""
    settings: dict[str, Any] = {"loss": "hinge", "l2": 1.0, "tol": 1e-3, "solver": "bcfw"}
    costs = ("rules", {"anchored": "hamming"}, "rules_bound")
    rules, named, bound = (ConstituencyParser(cost=cost, **settings).fit(WORDS, TREES) for cost in costs)
    assert math.isclose(rules.objective_, named.objective_, rel_tol=2e-3)
    assert rules.objective_ < 0.9 * bound.objective_
    log = [ConstituencyParser(cost=cost, tol=1e-3).fit(WORDS, TREES) for cost in ("rules", "constituents")]
    assert log[0].objective_ == log[1].objective_
    assert not any(each._model.structure.anchored for each in log)


def test_features_of_rules_at_places_are_explained() -> None:
    parser = ConstituencyParser(rule_templates=["rule + split+1.form"], l2=0.1, tol=1e-3).fit(WORDS, TREES)
    sentence = WORDS[0]
    found = parser.explain(sentence)
    assert math.isclose(sum(term.contribution for term in found.terms), found.score, rel_tol=1e-9)
    own = [
        term for term in found.terms if term.feature.startswith("rule=") and "split+1.form=" in term.feature
    ]
    assert own and all(term.end <= len(sentence) for term in own)
    assert any(feature.startswith("rule=") for feature, _, _ in parser.top_features(1000))
    [marginals] = parser.predict_marginals([sentence])
    expected: dict[Any, float] = {}
    for tree, p in parser.predict_kbest([sentence], k=2000)[0]:
        for span in set(tree.spans()):
            expected[span] = expected.get(span, 0.0) + p
    assert all(math.isclose(p, expected[span], abs_tol=1e-8) for span, p in marginals.items())


def test_pruned_rules_leave_a_tree_of_every_sentence_that_has_one() -> None:
    every = ConstituencyParser(rule_templates="default", rule_threshold=None, tol=0.01).fit(None, TREES)
    few = ConstituencyParser(rule_templates="default", rule_threshold=0.5, tol=0.01).fit(None, TREES)
    assert every._pruner is None and few._pruner is not None
    sentences = [("dog", "PRP"), ("runs", "VBZ"), (".", ".")], [("a", "."), ("b", "."), ("c", "DT")]
    for parser in (every, few):
        parsed = parser.parse(sentences)
        assert parsed.fallback.tolist() == [False, True]
        assert [tag for _, tag in parsed.trees[0].tagged_words()] == ["PRP", "VBZ", "."]
        assert [str(tree) for tree in parser.predict([Tree.of(tree) for tree in TREES])] == TREES
    assert parser.predict_kbest([sentences[1]]) == [[]]
    assert isinstance(ConstituencyParser(rule_templates="default").fit(None, TREES)._pruner, type(None))
