"""Templates: both syntaxes parse to the expected combinations, and bad lines are named."""

from __future__ import annotations

import pytest

from partwise.errors import InputError
from partwise.features.functions import FUNCTIONS
from partwise.features.templates import (
    PRESETS,
    Field,
    load_template,
    looks_like_crfpp,
    parse_crfpp,
    parse_template,
)

CRFPP_EXAMPLE = """\
# Unigram
U00:%x[-2,0]
U01:%x[0,0]
U05:%x[-1,0]/%x[0,0]

U10:before %x[1,1] after
U99

# Bigram
B
B01:%x[0,1]
"""


def written(combinations):
    return ["|".join(field.text() for field in c.fields) or c.pieces[0] for c in combinations]


def test_lines_expand_in_order():
    template = parse_template(
        """
        # a comment
        word[-1..1]        # ranges expand
        word[-1] | pos[+0]
        suffix( lower(word[0]), 1..2 )|0[0]
        bias
        word[0]            # twice is once
        edge: pos[-1]|pos[0]
        """
    )
    assert written(template.nodes) == [
        *("word[-1]", "word[0]", "word[1]", "word[-1]|pos[0]"),
        *("suffix(lower(word[0]),1)|0[0]", "suffix(lower(word[0]),2)|0[0]", "bias"),
    ]
    assert written(template.edges) == ["pos[-1]|pos[0]"]
    assert template.tied_transitions and template.boundary == "skip"
    assert template.nodes[3].attribute(["the", "DT"]) == "word[-1]|pos[0]=the|DT"


def test_chunking_preset_is_the_usual_one():
    nodes = written(load_template("chunking").bind(2).nodes)
    assert nodes[:5] == [f"0[{k}]" for k in range(-2, 3)]
    assert nodes[-5:] == ["1[-2]|1[-1]|1[0]", "1[-1]|1[0]|1[1]", "1[0]|1[1]|1[2]", "begin", "end"]
    assert len(nodes) == 5 + 2 + 5 + 4 + 3 + 2


def test_presets_and_the_columns_they_need():
    with_pos, without = (len(load_template("ner").bind(n).nodes) for n in (2, 1))
    assert with_pos == without + 8
    load_template("pos").bind(1)
    with pytest.raises(
        InputError, match=r"preset chunking:\d+: column 'pos' is not in the data, whose columns are word"
    ):
        load_template("chunking").bind(1)
    assert set(PRESETS) == {"chunking", "ner", "pos"}


def test_columns_by_name_number_and_default():
    assert parse_template("lemma[0]", ["form", "lemma"]).bind(2).nodes[0].fields == (Field(1, 0),)
    assert parse_template("columns: a b\nb[0]", ["b", "a"]).bind(2).nodes[0].fields == (Field(1, 0),)
    assert parse_template("col2[0]|2[0]").bind(3).nodes[0].fields == (Field(2, 0), Field(2, 0))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("upper(word[0])", "unknown function 'upper'"),
        ("word[x]", "offset 'x'"),
        ("word[2..-2]", "must ascend"),
        ("word[101]", "within"),
        ("word", "cannot read 'word'"),
        ("word[0]||pos[0]", "cannot read ''"),
        ("suffix(word[0])", "needs a number"),
        ("suffix(word[0], 0)", "at least 1"),
        ("lower(word[0], 3)", "takes no number"),
        ("boundary: maybe", "boundary: skip"),
        ("node: word[0]", "edge: ATTRIBUTE"),
    ],
)
def test_bad_lines_are_named(line, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_template("word[0]\n" + line, path="my.template")
    assert str(caught.value).startswith("my.template:2: ")
    assert "\n" not in str(caught.value)


def test_missing_column_names_its_line():
    with pytest.raises(InputError, match=r"my\.template:2: column 'chunk'"):
        parse_template("word[0]\nword[0]|chunk[0]", path="my.template").bind(2)
    with pytest.raises(InputError, match=r"my\.template:1: column 2 "):
        parse_crfpp("U:%x[0,2]", "my.template").bind(2)


@pytest.mark.parametrize(
    ("name", "argument", "string", "expected"),
    [
        ("lower", 0, "McX", "mcx"),
        ("prefix", 2, "abc", "ab"),
        ("prefix", 4, "abc", None),
        ("suffix", 2, "abc", "bc"),
        ("suffix", 4, "abc", None),
        ("shape", 0, "McDonald-19é", "XxXxxxxx-ddx"),
        ("short_shape", 0, "McDonald-19", "XxXx-d"),
        ("length", 0, "four", "4"),
        ("is_title", 0, "Title", "1"),
        ("is_title", 0, "TITLE", None),
        ("is_upper", 0, "U.S.", "1"),
        ("is_digit", 0, "19.5", None),
        ("has_digit", 0, "a1", "1"),
        ("has_hyphen", 0, "a-b", "1"),
        ("has_hyphen", 0, "ab", None),
    ],
)
def test_functions(name, argument, string, expected):
    assert FUNCTIONS[name](string, argument) == expected
    assert Field(0, 0, ((name, argument),)).value(string) == expected


def test_crfpp_file_by_hand(tmp_path):
    path = tmp_path / "template"
    path.write_text(CRFPP_EXAMPLE)
    template = load_template(path)
    assert [(c.pieces, c.fields, c.line) for c in template.nodes] == [
        (("U00:", ""), (Field(0, -2),), 2),
        (("U01:", ""), (Field(0, 0),), 3),
        (("U05:", "/", ""), (Field(0, -1), Field(0, 0)), 4),
        (("U10:before ", " after"), (Field(1, 1),), 6),
        (("U99",), (), 7),
    ]
    assert [(c.pieces, c.fields) for c in template.edges] == [(("B01:", ""), (Field(1, 0),))]
    assert template.tied_transitions and template.boundary == "symbol" and template.syntax == "crf++"
    assert not parse_crfpp("U:%x[0,0]").tied_transitions


@pytest.mark.parametrize("line", ["X:%x[0,0]", "U:%x[0]", "U:%y[0,0]", "U:%x[a,0]", "U:%x[999,0]", "# only"])
def test_bad_crfpp_lines_are_named(line):
    with pytest.raises(InputError, match=r"^crf\.template:1: "):
        parse_crfpp(line, "crf.template")


def test_files_are_told_apart(tmp_path):
    assert (
        looks_like_crfpp(CRFPP_EXAMPLE) and looks_like_crfpp("B\n") and not looks_like_crfpp(PRESETS["ner"])
    )
    (tmp_path / "ours").write_text("word[0]\n")
    assert load_template(tmp_path / "ours").syntax == "partwise"
    with pytest.raises(InputError, match="presets are chunking, ner, pos"):
        load_template(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        load_template(tmp_path / "binary")
    with pytest.raises(InputError, match="no attributes"):
        parse_template("# nothing\n")
