"""Constituent trees: files read and written exactly, what is stripped, binary forms and back, grammars."""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.core.word_classes import word_class
from partwise.data import (
    PCFG,
    BinaryForm,
    Span,
    Tree,
    TreebankGrammar,
    parse_export,
    parse_trees,
    read_trees,
    write_export,
    write_trees,
)
from partwise.data.brackets import escaped
from partwise.data.head_rules import head_child
from partwise.data.treebank import plain_label, rooted, without_cycles
from partwise.errors import InputError

TEXT = "( (S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBZ barks) (NP (-NONE- *T*-1)) (PP (IN at) (NP (PRP it)))) (. .)))\n"
FORMS = [
    BinaryForm(direction, horizontal, vertical, unary)
    for direction in ("left", "right", "head")
    for horizontal, vertical in ((0, 1), (1, 2), (None, 3))
    for unary in ("collapse", "one", "keep")
]


def trees() -> st.SearchStrategy[Tree]:
    names = st.sampled_from(["S", "NP", "VP", "PP-LOC", "DT", "NN"])
    tags = st.builds(Tree, names, st.sampled_from(["dog", "barks", "a", "-LRB-"]))
    return st.recursive(tags, lambda below: st.builds(Tree, names, st.lists(below, min_size=1, max_size=5)))


def written(found: Any, format: str) -> str:
    out = io.StringIO()
    write_trees(out, found, format)
    return out.getvalue()


def test_a_tree_of_brackets_tuples_and_pickles_is_the_same() -> None:
    tree = Tree.of(TEXT)
    assert f"{tree}\n" == TEXT
    assert tree == Tree.of(tree.nested()) == pickle.loads(pickle.dumps(tree))
    assert tree != Tree.of(TEXT.replace("dog", "cat")) and tree != "S"
    assert hash(tree) == hash(Tree.of(TEXT)) and "barks" in repr(tree)
    assert tree.words() == ["The", "dog", "barks", "*T*-1", "at", "it", "."]
    assert tree.tagged_words()[1] == ("dog", "NN")
    assert tree.spans()[:4] == [Span(0, 7, ""), Span(0, 7, "S"), Span(0, 2, "NP-SBJ-1"), Span(2, 6, "VP")]


@settings(deadline=None)
@given(trees())
def test_what_is_written_reads_back(tree: Tree) -> None:
    assert parse_trees(written([tree], "brackets")).trees == [tree]
    assert Tree.of(tree.nested()) == tree
    inner = parse_trees(written([tree], "export")).trees[0]
    assert inner == Tree("", [tree])
    for form in FORMS:
        binary = form.apply(tree)
        assert all(len(node.children) <= 2 for node in binary.nodes())
        alone = [node.children[0] for node in binary.nodes() if len(node.children) == 1]
        assert form.unary == "keep" or all(len(node.children) != 1 for node in alone)
        assert form.unary != "collapse" or not alone
        assert form.restore(binary) == tree


def test_trees_may_be_deeper_than_the_stack() -> None:
    depth = 20_000
    tree = Tree("NN", "x")
    for _ in range(depth):
        tree = Tree("NP", [tree, Tree(",", ",")])
    again = Tree.of(str(tree))
    assert again == tree and len(again.spans()) == depth
    assert Tree.of(tree.nested()) == tree == pickle.loads(pickle.dumps(tree))
    form = BinaryForm()
    assert form.restore(form.apply(tree)) == tree


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("(S (NN a))\n(S (NN b)))\n", 2, "none opened"),
        ("(S (NN a))\n(S\n (NN b)\n(S (NN c))\n", 2, "never closed"),
        ("(S (NN a))\n\n(S (NP ) (NN b))", 3, "'NP' has no words"),
        ("(S (NN a) ())", 1, "empty bracket"),
        ("(S (NN a))\nstray (S (NN b))", 2, "outside"),
        ("(S (NN a b))", 1, "not alone"),
        ("(S\n(NN a (NN b)))", 2, "constituent after the word 'a'"),
        ("\n  \n", None, "no trees"),
        ("", None, "empty"),
    ],
)
def test_broken_brackets_are_named_by_line(text: str, line: int | None, words: str) -> None:
    with pytest.raises(InputError) as error:
        parse_trees(text, "bank.mrg")
    assert words in str(error.value) and error.value.line == line
    assert str(error.value).startswith("bank.mrg:")


@pytest.mark.parametrize("value", [("S",), ("S", ("NN", 3)), 7, ["S", "a", "b"], "(A (B c)) (D (E f))"])
def test_what_is_no_tree_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"y\[3\]"):
        Tree.of(value, "y[3]")


def test_words_that_brackets_cannot_hold_are_refused() -> None:
    for tree in (Tree("NN", "("), Tree("N N", "a"), Tree("NN", ""), Tree("", "a")):
        with pytest.raises(InputError, match="cannot be written"):
            written([tree], "brackets")
    assert escaped("(a b)") == "-LRB-a_b-RRB-" and escaped("c") == "c"
    for tree in (Tree("NN", "#500"), Tree("NN", "a%%"), Tree("NN", "a b"), Tree("S", [Tree("", "x")])):
        with pytest.raises(InputError, match="cannot be written"):
            written([tree], "export")


def test_traces_functions_and_cycles_are_stripped() -> None:
    bank = parse_trees(TEXT, functions=False, traces=False)
    shown = "( (S (NP (DT The) (NN dog)) (VP (VBZ barks) (PP (IN at) (NP (PRP it)))) (. .)))"
    assert str(bank.trees[0]) == shown
    assert list(map(plain_label, ("NP-SBJ", "NP=2", "-NONE-", "-LRB-", "", "X"))) == [
        "NP", "NP", "-NONE-", "-LRB-", "", "X",
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"b:2: nothing but traces"):
        parse_trees("(S (NN a))\n(S (-NONE- *))", "b", traces=False)
    assert str(without_cycles(Tree.of("(S (NP (NP (S (NP (NN a))))))"))) == "(S (NP (NN a)))"
    assert str(rooted(Tree.of(shown)))[:9] == "(TOP (S ("
    assert (
        str(rooted(Tree.of("(S (NN a))"))) == "(TOP (S (NN a)))" == str(rooted(Tree.of("(TOP (S (NN a)))")))
    )


EXPORT = """#FORMAT 4
%% made by hand
#BOT ORIGIN
1\tnowhere
#EOT ORIGIN
#BOS 7 1 0 0
was\t\t\twas\t\t\tPWS\tAcc\t\tOA\t501
hat\t\t\thaben\t\t\tVAFIN\t3.Sg.Pres.Ind\tHD\t502
sie\t\t\tsie\t\t\tPPER\tNom\t\tSB\t502\tSB\t501
gesehenundverstanden\tsehen\t\t\tVVPP\t--\t\tHD\t501\t%% long
?\t\t\t--\t\t\t$.\t--\t\t--\t0
#500\t\t\t--\t\t\tNP\t--\t\tOC\t501
#501\t\t\t--\t\t\tVP\t--\t\tOC\t502
#502\t\t\t--\t\t\tS\t--\t\t--\t0
#EOS 7
""".replace("501\nhat", "500\nhat")


def test_export_files_with_crossing_branches_read_and_write_exactly() -> None:
    bank = parse_export(EXPORT)
    out = io.StringIO()
    write_export(out, bank)
    assert out.getvalue() == EXPORT
    sentence = bank.sentences[0]
    assert not sentence.is_continuous() and sentence.words[2].secondary == [("SB", 501)]
    assert sentence.words[3].comment == "long" and sentence.words[1].lemma == "haben"
    expected = "( (S (NP (PWS was)) (VAFIN hat) (PPER sie) (VP (VVPP gesehenundverstanden))) ($. ?))"
    assert str(parse_trees(EXPORT).trees[0]) == expected
    with pytest.raises(InputError, match=r"x:6: sentence 7: constituent #501 \(VP\) is interrupted"):
        parse_trees(EXPORT, "x", crossing="error")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("\t502\tSB\t501", "\t777", 9, "parent 777"),
        ("\t502\tSB\t501", "\t12", 9, "neither 0"),
        ("\t502\tSB\t501", "\t502\tSB", 9, "7 columns"),
        ("#501\t\t\t--", "#509\t\t\t--", 13, "#501 is due"),
        ("#EOS 7", "#EOS 8", 15, "ends as 8"),
        ("#EOS 7\n", "", 15, "has no end before"),
        ("#EOS 7\n", "#BOS 8\n", 15, "has no end before"),
        ("\tOC\t502", "\tOC\t500", 12, "above itself"),
        ("\tOA\t500", "\tOA\t501", 12, "no children"),
        ("#FORMAT 4", "#FORMAT 5", 1, "versions 3 and 4"),
        ("#EOS 7\n", "#EOS 7\nstray\n", 16, "outside"),
    ],
)
def test_broken_export_files_are_named_by_line(old: str, new: str, line: int, words: str) -> None:
    assert old in EXPORT
    with pytest.raises(InputError) as error:
        parse_trees(EXPORT.replace(old, new), "bank")
    assert words in str(error.value) and error.value.line == line


def test_binary_forms_say_what_they_remember() -> None:
    tree = Tree.of("(S (NP (DT a) (JJ b) (NN c) (PP (IN d) (NP (NN e)))) (VP (VBZ f)))")

    def noun_phrase(**options: Any) -> str:
        return str(BinaryForm(**options).apply(tree).children[0])

    rest = "(PP (IN d) (NP+NN e))"
    assert noun_phrase() == f"(NP (DT a) (@NP (JJ b) (@NP (NN c) {rest})))"
    assert noun_phrase(horizontal=1) == f"(NP (DT a) (@NP[<DT] (JJ b) (@NP[<JJ] (NN c) {rest})))"
    assert noun_phrase(direction="left", horizontal=None) == (
        f"(NP (@NP[>PP] (@NP[>PP,>NN] (DT a) (JJ b)) (NN c)) {rest})"
    )
    assert noun_phrase(direction="head", horizontal=None) == (
        f"(NP (@NP[>PP] (DT a) (@NP[>PP,<DT] (JJ b) (NN c))) {rest})"
    )
    assert noun_phrase(vertical=2).startswith("(NP^S (DT a) (@NP^S (JJ b)")
    assert noun_phrase(vertical=2).endswith("(PP^NP (IN d) (NP^PP+NN e)))))")
    assert "(VP (VBZ f))" in str(BinaryForm(unary="keep").apply(tree))
    assert head_child("VP", ["MD", "RB", "VP"]) == 0 and head_child("NP-SBJ", ["DT", "NN", "PP"]) == 1
    for bad in ({"direction": "up"}, {"horizontal": -1}, {"vertical": 0}, {"unary": "x"}, {"vertical": True}):
        with pytest.raises(InputError):
            BinaryForm(**bad)
    for label in ("@NP", "NP^S", "NP+NN"):
        with pytest.raises(InputError, match="binary forms"):
            BinaryForm().apply(Tree(label, "a"))


def test_a_grammar_counts_rules_and_words() -> None:
    form = BinaryForm(unary="keep")
    texts = [
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
        "(S (NP (NN dog)) (VP (VBZ sees) (NP (DT the) (NN cat))))",
    ]
    grammar = TreebankGrammar.read([form.apply(Tree.of(text)) for text in texts])
    assert grammar.symbols[0] == "S" and grammar.root_counts.tolist() == [2, 0, 0, 0, 0, 0]

    def count(*names: str) -> int:
        rule = [grammar.symbols.index(name) for name in names]
        table, counts = (
            (grammar.rules, grammar.rule_counts)
            if len(rule) == 3
            else (grammar.unary_rules, grammar.unary_counts)
        )
        return int(counts[(table == rule).all(axis=1)].sum())

    assert (count("NP", "DT", "NN"), count("NP", "NN"), count("S", "NP", "VP"), count("VP", "VBZ")) == (
        2,
        1,
        2,
        1,
    )
    pcfg = PCFG(grammar)
    noun_phrases = grammar.rules[:, 0] == grammar.symbols.index("NP")
    assert np.allclose(np.exp(pcfg.rule[noun_phrases]), 2 / 3)
    words = pcfg.word_scores(["dog", "barked", "Dog"])
    noun = grammar.symbols.index("NN")
    assert math.isclose(words[0, noun], math.log(2 / 3)) and np.isneginf(words[0, grammar.symbols.index("S")])
    assert np.isfinite(words[1]).any() and np.isfinite(words[2]).any()
    tagged = pcfg.word_scores(["x", "y"], ["NN", "never"])
    assert np.flatnonzero(np.isfinite(tagged[0])).tolist() == [noun] and np.isfinite(tagged[1]).sum() == 3
    with pytest.raises(InputError, match="binarise first"):
        TreebankGrammar.read([Tree.of("(S (A a) (B b) (C c))")])


def test_unknown_words_have_classes() -> None:
    found = [
        word_class(word) for word in ("1,234.5", "Vinken", "NATO", "running", "mid-1980s", "at", "A", "iPod")
    ]
    assert found == [
        "number", "capital-ken", "capitals-o", "lower-ing", "lower-digit-hyphen",
        "lower", "letter", "other-d",
    ]  # fmt: skip
    assert word_class("Vinken", is_first=True) == "first-ken"


@needs_shared
def test_every_tree_of_the_penn_sample_comes_back() -> None:
    texts = [SHARED / "ptb-sample" / name for name in ("dev.mrg", "test.mrg")]
    for path in texts:
        bank = read_trees(path)
        text = path.read_text()
        assert written(bank.trees, "brackets") == text
        exported = written(bank.trees, "export")
        assert (
            parse_trees(exported).trees == bank.trees
            and written(parse_trees(exported).trees, "export") == exported
        )
        plain = read_trees(path, functions=False, traces=False)
        for form in (BinaryForm(), BinaryForm("head", 1, 2), BinaryForm("left", None, 1, "keep")):
            for found in (bank, plain):
                assert [form.restore(form.apply(tree)) for tree in found.trees] == found.trees


@needs_shared
def test_every_tree_of_the_large_penn_sample_comes_back() -> None:
    bank = read_trees(SHARED / "ptb-sample" / "train.mrg.gz")
    form = BinaryForm("head", 2, 2)
    assert len(bank.trees) == 3396 and bank.lines == list(range(1, 3397))
    assert [form.restore(form.apply(tree)) for tree in bank.trees] == bank.trees
