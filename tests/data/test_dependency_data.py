"""Dependency treebanks: read, refused with the line, written back byte for byte; trees against brute force."""

import gzip
import io
from itertools import combinations, product

import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from effort import lines_executed
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.core.tree_checks import crossing_words, words_in_cycles
from partwise.data import (
    corpus_from_sentences,
    is_projective,
    keep_projective,
    open_binary,
    parse_dependencies,
    read_dependencies,
    stream_dependencies,
    write_dependencies,
)
from partwise.data.dependency_text import detect_dependency_format
from partwise.errors import InputError

UNIVERSAL = (
    "# sent_id = 1\n"
    "# text = I can't go home\n"
    "1\tI\tI\tPRON\tPRP\tCase=Nom|Number=Sing\t4\tnsubj\t4:nsubj\t_\n"
    "2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "2\tca\tcan\tAUX\tMD\tVerbForm=Fin\t4\taux\t4:aux\t_\n"
    "3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t4:advmod\t_\n"
    "4\tgo\tgo\tVERB\tVB\tVerbForm=Inf\t0\troot\t0:root\t_\n"
    "4.1\tto\tto\tADP\tIN\t_\t_\t_\t5:case\tCopyOf=1\n"
    "5\thome\thome\tADV\tRB\t_\t4\tadvmod\t4:advmod\t_\n"
    "\n"
    "1\t#\t#\tSYM\t#\t_\t2\tdep\t_\t_\n"
    "2\t1\t1\tNUM\tCD\t_\t0\troot\t_\t_\n"
    "\n"
)
CONLLX = (
    "1\tLas\tel\td\tda\tgen=f|num=p\t2\t_\t2\t_\n"
    "2\treservas\treserva\tn\tnc\tgen=f|num=p\t3\tSUJ\t3\tSUJ\n"
    "3\tsubieron\tsubir\tv\tvm\tnum=p\t0\tROOT\t0\tROOT\n"
    "\n"
    "1\tNo\tno\tr\trn\t_\t0\tROOT\t0\tROOT\n"
)
DP = "#\t#\t2\n35\tCD\t3\nfell\tVBD\t0\n.\t.\t3\n\nNo\tUH\t0\n"


def written(corpus, *columns):
    handle = io.StringIO(newline="")
    write_dependencies(handle, corpus, *columns)
    return handle.getvalue()


def test_universal_dependencies_are_read():
    corpus = parse_dependencies(UNIVERSAL)
    assert corpus.source.format == "conllu"
    assert corpus.forms == ["I", "ca", "n't", "go", "home", "#", "1"]
    assert corpus.lemmas[1] == "can" and corpus.coarse_tags[1] == "AUX" and corpus.fine_tags[1] == "MD"
    assert corpus.feats[0] == "Case=Nom|Number=Sing"
    assert corpus.heads.tolist() == [4, 4, 4, 0, 4, 2, 0] and corpus.heads.dtype == np.int32
    assert corpus.relations == ["nsubj", "aux", "advmod", "root", "advmod", "dep", "root"]
    assert corpus.sentence_ptr.tolist() == [0, 5, 7] and corpus.sentence_ptr.dtype == np.int64
    assert corpus.multiwords == [(1, 3, "can't")]
    assert corpus.has_heads and corpus.n_sentences == 2 and corpus.lengths.tolist() == [5, 2]
    assert corpus.split(corpus.forms)[1] == ["#", "1"]


def test_conllx_and_dp_are_read():
    corpus = parse_dependencies(CONLLX)
    assert corpus.source.format == "conllx"
    assert corpus.coarse_tags == ["d", "n", "v", "r"] and corpus.fine_tags == ["da", "nc", "vm", "rn"]
    assert corpus.heads.tolist() == [2, 3, 0, 0] and corpus.relations[0] == "_"
    corpus = parse_dependencies(DP)
    assert corpus.source.format == "dp"
    assert corpus.forms == ["#", "35", "fell", ".", "No"] and corpus.relations is None
    assert corpus.fine_tags[1] == "CD" and corpus.coarse_tags == corpus.lemmas == ["_"] * 5
    assert corpus.heads.tolist() == [2, 3, 0, 3, 0]
    assert parse_dependencies("a\tDT\t2\tdet\nb\tNN\t0\troot\n").relations == ["det", "root"]


def without_columns(text, n_kept):
    return "".join("\t".join(line.split("\t")[:n_kept]) + "\n" for line in text.rstrip("\n").split("\n"))


@pytest.mark.parametrize(
    "text",
    [
        UNIVERSAL,
        CONLLX,
        DP,
        UNIVERSAL.replace("\n", "\r\n"),
        "\ufeff" + UNIVERSAL,
        "\n\n" + CONLLX.replace("\n\n", "\n \n\n"),
        CONLLX.rstrip("\n"),
        without_columns(CONLLX, 8),
        "1\tle\u2028mot\t_\tN\tN\t_\t0\tr\t_\t_\n",
        "1\tles\u00a0deux mots\t_\tN\tN\t_\t0\tr\t_\t_\n",
    ],
)
def test_written_back_byte_for_byte(text):
    corpus = parse_dependencies(text)
    assert written(corpus) == text
    assert written(corpus, corpus.heads, corpus.relations) == text


def test_only_heads_and_relations_change():
    corpus = parse_dependencies(UNIVERSAL)
    other = written(corpus, np.array([2, 0, 2, 2, 2, 0, 1]), ["x"] * 7)
    for before, after in zip(UNIVERSAL.split("\n"), other.split("\n"), strict=True):
        if before[:1].isdigit() and before.split("\t")[0].isdigit():
            old, new = before.split("\t"), after.split("\t")
            assert new[7] == "x" and old[:6] + old[8:] == new[:6] + new[8:]
        else:
            assert before == after
    assert parse_dependencies(other).heads.tolist() == [2, 0, 2, 2, 2, 0, 1]
    only_heads = written(parse_dependencies(CONLLX), np.array([0, 1, 1, 0]))
    assert parse_dependencies(only_heads).relations == parse_dependencies(CONLLX).relations
    assert written(parse_dependencies(DP), np.zeros(5, int), ["r"] * 5).startswith("#\t#\t0\n35\tCD\t0\n")


def test_sentences_to_be_parsed_may_have_no_heads():
    blind = without_columns(CONLLX, 6)
    with pytest.raises(InputError, match=r"f:1: word 1 'Las' has no head"):
        parse_dependencies(blind, path="f")
    corpus = parse_dependencies(blind, need_heads=False)
    assert corpus.heads.tolist() == [-1] * 4 and corpus.relations is None and not corpus.has_heads
    assert written(corpus, np.array([2, 3, 0, 0]), ["_", "SUJ", "ROOT", "ROOT"]) == without_columns(CONLLX, 8)
    some = UNIVERSAL.replace("\t4\tnsubj", "\t_\tnsubj")
    assert parse_dependencies(some, need_heads=False).heads.tolist() == [-1, 4, 4, 0, 4, 2, 0]
    assert written(parse_dependencies(some, need_heads=False)) == some


def row(number, head, form="w", width=10):
    fields = [str(number), form, "_", "N", "N", "_", str(head), "r", "_", "_"]
    return "\t".join(fields[:width]) + "\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (row(1, 0) + "\n" + row(1, 2) + row(2, 3) + row(3, 2), 4, "cycle of heads: 2 → 3 → 2"),
        (row(1, 1), 1, "cycle of heads: 1 → 1"),
        (row(1, 0) + row(2, 3), 2, "head 3, but the sentence has 2 words"),
        (row(1, 0) + row(2, "999999999"), 2, "head 999999999"),
        (row(1, 0) + row(2, "9" * 5000), 2, "not a whole number"),
        (row(1, 0) + row(2, "x"), 2, "'x' is not a whole number"),
        (row(1, 0) + row(2, "-1"), 2, "'-1' is not a whole number"),
        (row(1, 0) + row(2, "1.5"), 2, "not a whole number"),
        (row(1, 0) + row(2, "²"), 2, "not a whole number"),
        (row(1, 0) + row(2, "_"), 2, "has no head"),
        (row(1, 0) + row(2, 1, width=9), 2, "9 columns"),
        (row(1, 0) + row(2, 1).rstrip("\n") + "\tx\n", 2, "11 columns"),
        (row(1, 0, width=7), 1, "7 columns"),
        (row(1, 0).replace("\t", " "), 1, "separated by tabs"),
        (row(1, 0) + row(2, 1).replace("\t", " "), 2, "separated by tabs"),
        (row(1, 0) + row(1, 0), 2, "twice"),
        (row(1, 0) + row(3, 0), 2, "word number 3 where 2 is due"),
        (row(2, 0), 1, "word number 2 where 1 is due"),
        (row(1, 0) + row(2, 1) + row(1, 0), 3, "blank line"),
        (row("0", 0), 1, "'0' is not the number"),
        (row("-1", 0), 1, "'-1' is not the number"),
        (row("1²", 0), 1, "is not the number"),
        (row(1, 0, form=""), 1, "FORM is empty"),
        (row(1, 0) + "\n# text\n\n" + row(1, 0), 3, "a sentence without words"),
        (row(1, 0) + "\n# text\n", 3, "a sentence without words"),
        ("# c\n" + row("1-2", "_"), None, "no words"),
        (row(1, 0) + "\n" + row("1-2", "_") + "\n" + row(1, 0), 3, "a sentence without words"),
        ("# c\n" + row("1-3", "_") + row(1, 0) + row(2, 1), 2, "1-3 does not number"),
        ("# c\n" + row(1, 0) + row("1-2", "_") + row(2, 1), 3, "1-2 does not number"),
        ("# c\n" + row("1-2", "_") + row(1, 0) + row("2-3", "_") + row(2, 1) + row(3, 1), 4, "2-3 does not"),
        ("# c\n" + row(1, 0) + row("1.2", "_"), 3, "empty node 1.2 where 1.1 is due"),
        ("# c\n" + row("2.1", "_") + row(1, 0), 2, "empty node 2.1 where 0.1"),
        ("# c\n" + row("1-2", "_", width=9) + row(1, 0) + row(2, 1), 2, "9 columns"),
        ("a\tDT\t2\nb\tNN\n", 2, "2 columns"),
        ("a\tDT\tx\nb\tNN\t0\n", 1, "'x' is not a whole number"),
        ("", None, "empty"),
        ("\n\n", None, "no words"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text, line, words):
    with pytest.raises(InputError, match=f"^f{f':{line}' if line else ''}: ") as caught:
        parse_dependencies(text, path="f")
    assert words in str(caught.value) and caught.value.line == line


def test_two_roots_are_refused_where_one_is_needed():
    text = row(1, 0) + "\n" + row(1, 0) + row(2, 1) + row(3, 0)
    parse_dependencies(text)
    with pytest.raises(InputError, match=r"^f:5: word 3 'w' is a second root \(the first is word 1\)"):
        parse_dependencies(text, path="f", single_root=True)


def test_wrong_options_and_columns_are_refused():
    corpus = parse_dependencies(UNIVERSAL)
    with pytest.raises(InputError, match="not one of auto"):
        parse_dependencies(UNIVERSAL, "tree")
    with pytest.raises(InputError, match="3 heads for 7 words"):
        written(corpus, np.zeros(3, int))
    with pytest.raises(InputError, match="cannot be written"):
        written(corpus, None, ["a\tb"] * 7)
    with pytest.raises(InputError, match="whole numbers"):
        written(corpus, np.zeros(7))
    with pytest.raises(InputError, match="cannot be written"):
        written(corpus_from_sentences([["a\tb"]], heads=[[0]]))
    with pytest.raises(InputError, match="but the sentence has 5 words"):
        written(corpus, np.full(7, 6))
    with pytest.raises(InputError, match="3 values for 7 words"):
        corpus.split([1, 2, 3])


def test_bytes_that_are_not_text(tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(UNIVERSAL.encode() + b"1\t\xff\n")
    with pytest.raises(InputError, match="bad:14: byte 0xff is not UTF-8"):
        read_dependencies(path)
    with pytest.raises(InputError, match="no such file"):
        read_dependencies(tmp_path / "none")


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.sampled_from("12_0\t\n#-. aN\r\u2028\ufeff"), max_size=120), st.booleans())
def test_hostile_text_is_read_or_refused_in_one_line(text, need_heads):
    try:
        corpus = parse_dependencies(text, need_heads=need_heads)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert written(corpus) == text


def test_a_corpus_from_lists():
    corpus = corpus_from_sentences(
        [["I", "go"], ["Go"]],
        fine_tags=[["P", "V"], ["V"]],
        heads=[[2, 0], [0]],
        relations=[["s", "r"], ["r"]],
    )
    text = written(corpus)
    assert (
        text
        == "1\tI\t_\t_\tP\t_\t2\ts\t_\t_\n2\tgo\t_\t_\tV\t_\t0\tr\t_\t_\n\n1\tGo\t_\t_\tV\t_\t0\tr\t_\t_\n\n"
    )
    assert parse_dependencies(text).heads.tolist() == corpus.heads.tolist()
    assert corpus_from_sentences([["a"]]).heads.tolist() == [-1]
    for wrong, words in [
        ({"forms": [["a"], []]}, "sentence 1 has no words"),
        ({"forms": [["a", "b"]], "heads": [[2, 1]]}, "sentence 0: word 1 'a' is in a cycle"),
        ({"forms": [["a", "b"]], "heads": [[0]]}, "sentence 0: heads has 1 values"),
        ({"forms": [["a", "b"]], "heads": [[0, -5]]}, "has head -2"),
        ({"forms": [["a", "b"]], "heads": [[0, 1.5]]}, "whole numbers"),
        ({"forms": [["a", "b"]], "lemmas": ["ab"]}, "lemmas has a string"),
        ({"forms": [["a", 3]]}, "not a string"),
    ]:
        with pytest.raises(InputError, match=words):
            corpus_from_sentences(**wrong)


def test_a_subset():
    corpus = parse_dependencies(UNIVERSAL + CONLLX)
    chosen = corpus.subset(np.array([3, 1]))
    assert chosen.forms == ["No", "#", "1"] and chosen.heads.tolist() == [0, 2, 0]
    assert chosen.sentence_ptr.tolist() == [0, 1, 3] and chosen.relations == ["ROOT", "dep", "root"]
    assert corpus.subset(np.array([False, False, False, True])).forms == ["No"]
    assert corpus.subset(np.zeros(4, bool)).n_words == 0


# ------------------------------------------------------------------ streams


class Trickle(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data, step):
        self.data, self.step = data, step

    def read1(self, _):
        piece, self.data = self.data[: self.step], self.data[self.step :]
        return piece


@pytest.mark.parametrize("step", [1, 7, 100, 10**6])
def test_a_stream_gives_the_same_sentences_and_bytes(step):
    text = UNIVERSAL + UNIVERSAL.replace("\t4\tnsubj", "\t_\tnsubj") + "\n\n" + UNIVERSAL.rstrip("\n")
    batches = list(stream_dependencies(Trickle(text.encode(), step), batch_size=2))
    assert "".join(written(batch) for batch in batches) == text
    assert [form for batch in batches for form in batch.forms] == parse_dependencies(UNIVERSAL).forms * 3
    with pytest.raises(InputError, match="s:14: '1x' is not the number"):
        list(stream_dependencies(Trickle((UNIVERSAL + row("1x", 0)).encode(), step), path="s"))
    blind = without_columns(CONLLX, 6).encode()
    assert sum(batch.n_words for batch in stream_dependencies(Trickle(blind, step))) == 4


# ------------------------------------------------------------------ trees


def all_head_vectors(length):
    return [np.array(heads) for heads in product(range(length + 1), repeat=length)]


def reaches_root(heads, word):
    seen = set()
    while word != 0 and word not in seen:
        seen.add(word)
        word = heads[word - 1]
    return word == 0


def arcs_cross(heads):
    spans = [tuple(sorted((head, word))) for word, head in enumerate(heads, 1)]
    return any(a < c < b < d or c < a < d < b for (a, b), (c, d) in combinations(spans, 2))


def test_cycles_and_crossings_of_all_small_trees():
    trees, cyclic = [], []
    for length in range(1, 6):
        for heads in all_head_vectors(length):
            reach = [reaches_root(heads, word) for word in range(1, length + 1)]
            (trees if all(reach) else cyclic).append(heads)
            assert words_in_cycles(heads, np.array([0, length])).tolist() == [not each for each in reach]
    assert len(trees) == sum((n + 1) ** (n - 1) for n in range(1, 6))  # Cayley
    ptr = np.cumsum([0] + [len(heads) for heads in trees])
    expected = [not arcs_cross(heads) for heads in trees]
    assert is_projective(np.concatenate(trees), ptr).tolist() == expected
    assert [bool(is_projective(heads)[0]) for heads in trees] == expected
    everything = trees + cyclic
    ptr = np.cumsum([0] + [len(heads) for heads in everything])
    assert not words_in_cycles(np.concatenate(everything), ptr)[: sum(map(len, trees))].any()


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40))
def test_crossings_of_random_trees(numbers):
    # A random recursive tree over a random order of the words.
    order = np.random.default_rng(numbers[0]).permutation(len(numbers)) + 1
    heads = np.zeros(len(numbers), int)
    for place, number in enumerate(numbers):
        heads[order[place] - 1] = 0 if place == 0 else order[number % place]
    assert bool(is_projective(heads)[0]) == (not arcs_cross(heads))
    assert crossing_words(heads, np.array([0, len(heads)])).any() == arcs_cross(heads)


def test_a_million_words_in_one_sentence():
    def check(n_words: int) -> None:
        heads = np.arange(n_words)  # a chain as deep as it is long
        assert is_projective(heads)[0] and not words_in_cycles(heads, np.array([0, n_words])).any()
        heads[0] = n_words
        assert words_in_cycles(heads, np.array([0, n_words])).all()

    check(1000)
    assert lines_executed(lambda: check(1_000_000)) < 2 * lines_executed(lambda: check(1000))


def test_non_projective_sentences_are_skipped_and_counted_or_refused():
    crossing = row(1, 0) + row(2, 4) + row(3, 1) + row(4, 1)
    text = row(1, 0) + "\n" + crossing + "\n" + row(1, 2) + row(2, 0)
    corpus = parse_dependencies(text, path="f")
    kept, count = keep_projective(corpus)
    assert kept.heads.tolist() == [0, 2, 0] and kept.sentence_ptr.tolist() == [0, 1, 3]
    assert (count.n_sentences, count.n_words, count.n_skipped, count.n_skipped_words) == (3, 7, 1, 4)
    assert str(count) == "1 of 3 sentences (4 of 7 words) have crossing arcs and are left out"
    with pytest.raises(InputError, match=r"^f:4: word 2 'w' has an arc \(from 4\) that crosses"):
        keep_projective(corpus, "error")
    with pytest.raises(InputError, match="sentence 0: word 2"):
        keep_projective(corpus.subset(np.array([1])), "error")
    same, count = keep_projective(kept)
    assert same is kept and count.n_skipped == count.n_crossing == 0
    with pytest.raises(InputError, match="not 'skip' or 'error'"):
        keep_projective(corpus, "drop")


# ------------------------------------------------------------------ real treebanks

COUNTS = {  # file: format, sentences, words, not projective, with several roots, as the data's own page says
    "ptb-sample/dev.dp": ("dp", 273, 6327, 0, 0),
    "conll2007-es/esp.train.gz": ("conllx", 2949, 75822, 52, 0),
    "conll2007-es/esp.test": ("conllx", 563, 19206, 8, 0),
    "cdt-da/train.conll.gz": ("conllx", 4585, 80395, 1551, 1081),
    "ud-en-ewt/train.conllu.gz": ("conllu", 12544, 204577, 288, 0),
    "ud-en-ewt/test.conllu.gz": ("conllu", 2077, 25094, 26, 0),
    "ud-da-ddt/dev.conllu.gz": ("conllu", 564, 10332, 104, 0),
    "ud-es-ancora/test.conllu.gz": ("conllu", 1721, 53599, 96, 0),
    "ud-es-gsd/test.conllu.gz": ("conllu", 427, 12002, 40, 0),
}


@needs_shared
@pytest.mark.parametrize("name", COUNTS)
def test_real_treebanks(name):
    path = SHARED / name
    corpus = read_dependencies(path)
    roots = np.add.reduceat(corpus.heads == 0, corpus.sentence_ptr[:-1])
    _, count = keep_projective(corpus)
    found = (
        corpus.source.format,
        corpus.n_sentences,
        corpus.n_words,
        count.n_skipped,
        int((roots > 1).sum()),
    )
    assert found == COUNTS[name]
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    assert written(corpus).encode() == data
    assert detect_dependency_format(data.decode()) == COUNTS[name][0]
    with open_binary(path) as handle:
        assert sum(batch.n_words for batch in stream_dependencies(handle)) == corpus.n_words


@needs_shared
def test_reading_takes_a_few_lines_of_python_per_word():
    path = SHARED / "ud-en-ewt" / "dev.conllu.gz"
    n_words = read_dependencies(path).n_words
    assert lines_executed(lambda: read_dependencies(path)) < 8 * n_words
