"""Every reader on good, odd and hostile files; predictions appended to a stream."""

import gzip
import io
import json
import os
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from effort import lines_executed
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.data import (
    detect_format,
    open_binary,
    open_text,
    parse_conll,
    parse_crfsuite,
    parse_jsonl,
    parse_tagged,
    read,
    read_conll,
    read_text,
    stream_sequences,
    write_predictions,
)
from partwise.errors import InputError

SMALL = "the DT B-NP\ncat NN I-NP\n\nsat VBD B-VP\n"


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def check_small(columns):
    assert columns.columns == [["the", "cat", "sat"], ["DT", "NN", "VBD"]]
    assert columns.labels == ["B-NP", "I-NP", "B-VP"]
    assert columns.sequence_ptr.tolist() == [0, 2, 3]
    assert columns.sequence_ptr.dtype == columns.document_ptr.dtype == np.int64
    assert columns.document_ptr.tolist() == [0, 2]


# ------------------------------------------------------------------ opening files


@pytest.mark.parametrize(
    "content",
    [
        SMALL.encode(),
        SMALL.rstrip().encode(),  # no line end at the end of the file
        b"\xef\xbb\xbf" + SMALL.encode(),
        SMALL.replace("\n", "\r\n").encode(),
        SMALL.replace("\n", "\r\n", 2).encode(),
        SMALL.replace("\n", "\r\r\n").encode(),
        SMALL.replace(" ", "\t").encode(),
        SMALL.replace(" ", " \t  ").replace("\n\n", "\n \t\n\n").encode(),
        b"\n\n" + SMALL.encode() + b"\n\n\n",
        gzip.compress(SMALL.encode(), mtime=0),
        gzip.compress(SMALL[:20].encode(), mtime=0) + gzip.compress(SMALL[20:].encode(), mtime=0),
    ],
)
def test_the_same_columns_however_they_are_written(write, content):
    check_small(read_conll(write(content)))
    check_small(read(write(content)))


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"", None, "empty"),
        (b"\n \n\r\n", None, "no tokens"),
        (b"a B\nb\n", 2, "1 column, but line 1 has 2"),
        (b"\na B\nb C D\n", 3, "3 columns, but line 2 has 2"),
        (b"# x = 1\na B\n", 2, "comment='#'"),
        (b"a\nb\n", 1, "no label column"),
        ("a B\ncafé B\n".encode("latin-1"), 2, "0xe9 is not UTF-8"),
        (b"a B\n\nb\x00 C\n", 3, "NUL byte"),
        (gzip.compress(SMALL.encode() * 1000, mtime=0)[:-30], None, "gzip"),
        (b"\x1f\x8b\x08rubbish, not gzip", None, "gzip"),
        (SMALL.encode("utf-16"), 1, "not UTF-8"),
    ],
)
def test_bad_column_files_name_file_and_line(write, content, line, words):
    path = write(content)
    with pytest.raises(InputError, match=words) as caught:
        read_conll(path)
    assert caught.value.path == str(path)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "absent")
    with pytest.raises(InputError, match="directory"):
        read(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read("nul\0byte")


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(SMALL.encode()))))
    check_small(read("-"))
    assert not sys.stdin.closed
    monkeypatch.setattr(sys, "stdin", io.StringIO(SMALL))
    assert open_text("-").readlines()[1] == "cat NN I-NP\n"


# ------------------------------------------------------------------ columns


def test_label_column_and_separator():
    assert parse_conll(SMALL, label_column=0).labels == ["the", "cat", "sat"]
    assert parse_conll(SMALL, label_column=-2).columns[1] == ["B-NP", "I-NP", "B-VP"]
    unlabelled = parse_conll(SMALL, label_column=None)
    assert unlabelled.labels is None and len(unlabelled.columns) == 3
    assert parse_conll("a\n\nb\n", label_column=None).columns == [["a", "b"]]
    tabs = parse_conll("New York\t\tB\nx\ty\tO\n\t\t\n\nz\t\tO", separator="\t")
    assert tabs.columns == [["New York", "x", "z"], ["", "y", ""]]
    assert tabs.sequence_ptr.tolist() == [0, 2, 3]
    with pytest.raises(InputError, match="no label column 3: this row has 3 columns"):
        parse_conll(SMALL, label_column=3)
    with pytest.raises(InputError, match="f:2: 1 column, but line 1 has 2"):
        parse_conll("a\tB\nb B\n", separator="\t", path="f")
    for bad in ({"separator": ""}, {"comment": ""}):
        with pytest.raises(InputError):
            parse_conll(SMALL, **bad)


def test_comments_and_documents():
    text = "-DOCSTART- -X- O\n\n# one\na A\n# two\nb B\n\nc C\n-DOCSTART-\n\nd D\n-DOCSTART-x E\n"
    columns = parse_conll(text, comment="#")
    assert columns.columns == [["a", "b", "c", "d", "-DOCSTART-x"]]
    assert columns.sequence_ptr.tolist() == [0, 2, 3, 5]
    assert columns.document_ptr.tolist() == [0, 2, 3]
    assert parse_conll("# #\na b\n").columns == [["#", "a"]]


def test_unusual_spaces_belong_to_words():
    text = "10\u00a0000 CD\nx\u3000y NN\nform\x0cfeed NN\nline\u2028sep NN\n"
    assert parse_conll(text).columns == [["10\u00a0000", "x\u3000y", "form\x0cfeed", "line\u2028sep"]]


def test_sequences_as_lists():
    columns = parse_conll(SMALL)
    assert columns.column_sequences() == [["the", "cat"], ["sat"]]
    assert columns.label_sequences() == [["B-NP", "I-NP"], ["B-VP"]]
    assert columns.row_sequences() == [[("the", "DT"), ("cat", "NN")], [("sat", "VBD")]]
    assert columns.lengths.tolist() == [2, 1]
    with pytest.raises(InputError, match="without a label column"):
        parse_conll(SMALL, label_column=None).label_sequences()
    with pytest.raises(InputError, match="2 values for 3 tokens"):
        columns.split([1, 2])


def test_very_long_line():
    word = "x" * 5_000_000
    assert parse_conll(f"{word} A\ny B\n").columns == [[word, "y"]]
    with pytest.raises(InputError) as caught:
        parse_conll("y B\n" + "x " * 1_000_000)
    assert len(str(caught.value)) < 200


words = st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1, max_size=5)
tables = st.lists(st.lists(st.tuples(words, words), min_size=1, max_size=4), min_size=1, max_size=4)


@settings(deadline=None)
@given(table=tables, separator=st.sampled_from([" ", "\t", "  "]), end=st.sampled_from(["\n", "\r\n"]))
def test_what_was_written_is_read(table, separator, end):
    text = "".join("".join(separator.join(row) + end for row in seq) + end for seq in table)
    for option in (None, separator):
        columns = parse_conll(text, separator=option)
        labels = [[label for _, label in seq] for seq in table]
        if not any(word == "-DOCSTART-" for seq in table for word, _ in seq):
            assert columns.label_sequences() == labels
            assert columns.column_sequences() == [[word for word, _ in seq] for seq in table]


@needs_shared
def test_real_files_are_read_without_python_per_token():
    path = SHARED / "conll2000" / "train.txt.gz"
    train = read_conll(path)
    assert lines_executed(lambda: read_conll(path)) < train.n_sequences
    assert (train.n_sequences, train.n_tokens, len(set(train.labels))) == (8936, 211727, 22)
    assert int(train.lengths.max()) == 78
    spanish = read(SHARED / "conll2002-es" / "testb.txt")
    assert (spanish.n_sequences, spanish.n_tokens, len(set(spanish.labels))) == (1517, 51533, 9)
    trees = read(SHARED / "ptb-sample" / "dev.dp", separator="\t")
    assert (trees.n_sequences, trees.n_tokens) == (273, 6327)


# ------------------------------------------------------------------ streams


def tag_stream(handle, **options):
    """Append each word's length to its row, as a model would append labels."""
    output = io.StringIO()
    for batch in stream_sequences(handle, **options):
        lengths = [str(len(word)) for word in batch.columns.columns[0]] if batch.columns.n_tokens else []
        write_predictions(output, batch, lengths)
    return output.getvalue()


def test_predictions_leave_the_text_as_it_is():
    text = "\ufeff# head\r\n\r\nab X\r\n# mid\r\nc  Y \r\n\n \t\n-DOCSTART- -X-\n\nd\tZ\n\n# tail\n\n"
    expected = text.replace("ab X", "ab X 2").replace("c  Y ", "c  Y 1").replace("d\tZ", "d\tZ\t1")
    expected = expected.replace("-DOCSTART- -X-", "-DOCSTART- -X- O")
    assert tag_stream(io.BytesIO(text.encode()), comment="#") == expected
    assert tag_stream(io.BytesIO(b"a b"), separator=" ") == "a b 1"
    assert tag_stream(io.BytesIO(b"")) == ""
    assert tag_stream(io.BytesIO(b"\n\n")) == "\n\n"


def test_several_columns_and_wrong_lengths():
    (batch,) = stream_sequences(io.BytesIO(f"{SMALL}\n".encode()), label_column=-1)
    check_small(batch.columns)
    output = io.StringIO()
    write_predictions(output, batch, ["A", "B", "C"], ["1", "2", "3"])
    assert output.getvalue() == "the DT B-NP A 1\ncat NN I-NP B 2\n\nsat VBD B-VP C 3\n\n"
    with pytest.raises(InputError, match="2 predictions for 3 tokens"):
        write_predictions(output, batch, ["A", "B"])


@settings(deadline=None)
@given(
    text=st.text(st.sampled_from("ab \n\r\té\x0c"), max_size=60).map(lambda text: text.replace("\r", "\r\n")),
    size=st.integers(1, 3),
)
def test_streams_hold_what_the_file_holds(text, size):
    def outcome(read_it):
        try:
            return read_it()
        except InputError as error:
            return error.line, str(error).split(":")[-1]

    def whole():
        columns = parse_conll(text, label_column=None, path="f")
        return [row for row in columns.row_sequences() if row]

    def streamed():
        batches = list(stream_sequences(io.BytesIO(text.encode()), path="f", batch_size=size))
        assert "".join(line for batch in batches for line in batch.lines) == text
        assert all(batch.columns.n_sequences <= size for batch in batches)
        return [row for batch in batches if batch.columns.n_tokens for row in batch.columns.row_sequences()]

    if text.strip(" \t\r\n"):
        assert outcome(streamed) == outcome(whole)
    else:
        assert streamed() == []


def test_stream_errors_name_the_line():
    for content, line in [(b"a B\n\nc D\n\ne\n", 5), (b"a B\n\n\n\xff D\n", 4), (b"a B\n\n\0 D", 3)]:
        with pytest.raises(InputError) as caught:
            list(stream_sequences(io.BytesIO(content), batch_size=1, path="in"))
        assert (caught.value.line, caught.value.path) == (line, "in")


def test_truncated_gzip_stream(write):
    path = write(gzip.compress(os.urandom(2000).hex().encode())[:-200])
    with open_binary(path) as handle, pytest.raises(InputError, match="gzip"):
        list(stream_sequences(handle, path=path))


def test_interactive_pipe_answers_before_the_end():
    read_end, write_end = os.pipe()
    answers = []
    first_answer = threading.Event()

    def answer():
        with os.fdopen(read_end, "rb") as handle:
            for batch in stream_sequences(handle):
                answers.append(batch.columns.columns[0])
                first_answer.set()

    reader = threading.Thread(target=answer)
    reader.start()
    try:
        os.write(write_end, b"a B\n\nc")
        assert first_answer.wait(10)
        assert answers == [["a"]]
        os.write(write_end, b"d B\n")
    finally:
        os.close(write_end)
        reader.join(10)
    assert answers == [["a"], ["cd"]]


# ------------------------------------------------------------------ tagged text


def test_tagged_text():
    columns = parse_tagged("The/DT 1\\/2/CD http://x/NN\r\n\nand\\/or/CC //SYM")
    assert columns.columns == [["The", "1/2", "http:/" + "/x", "and/or", "/"]]
    assert columns.labels == ["DT", "CD", "NN", "CC", "SYM"]
    assert columns.sequence_ptr.tolist() == [0, 3, 5]
    assert columns.document_ptr.tolist() == [0, 2]


@pytest.mark.parametrize("field", ["word", "/TAG", "word/", "and\\/or"])
def test_bad_tagged_text(field):
    with pytest.raises(InputError, match=r"f:3: .* is not word/TAG"):
        parse_tagged(f"a/B\n\n{field} c/D\n", path="f")
    with pytest.raises(InputError, match="empty"):
        parse_tagged("")


# ------------------------------------------------------------------ JSON lines


def test_json_lines():
    tokens = parse_jsonl('{"tokens": ["a", "b"], "labels": ["X", null], "id": 7}\n\n{"tokens": ["c"]}\r\n')
    assert tokens.inputs == [["a", "b"], ["c"]]
    assert tokens.labels == [["X", None], [None]]
    record = {"features": [{"w": "a", "n": 1.5, "cap": True}, ["w=b", "short"]]}
    features = parse_jsonl(json.dumps(record))
    assert features.inputs == [record["features"]]
    assert features.labels is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[1]", "object is needed, not a list"),
        ("{", "not valid JSON"),
        ("{}", "either"),
        ('{"tokens": ["a"], "features": [["a"]]}', "either"),
        ('{"tokens": []}', "at least one"),
        ('{"tokens": ["a", 3]}', "must be a string, not a number"),
        ('{"tokens": ["a"], "labels": ["X", "Y"]}', "list of 1 entries.*not 2 entries"),
        ('{"tokens": ["a"], "labels": [1]}', "a string, null, a list of strings or an object, not a number"),
        ('{"tokens": ["a"], "labels": "X"}', "not a string"),
        ('{"features": ["a"]}', "object or a list of strings"),
        ('{"features": [[1]]}', "object or a list of strings"),
        ('{"features": [{"a": null}]}', "finite number"),
        ('{"features": [{"a": NaN}]}', "NaN is not"),
        ('{"features": [{"a": 1e999}]}', "finite number"),
        ('{"features": [{"a": 1' + "0" * 400 + "}]}", "finite number"),
        ('{"features": [{"a": ' + "9" * 5000 + "}]}", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_json_lines(line, words):
    with pytest.raises(InputError, match=words) as caught:
        parse_jsonl('{"tokens": ["fine"]}\n' + line, path="f")
    assert caught.value.line == 2
    assert str(caught.value).startswith("f:2: ")


# ------------------------------------------------------------------ CRFsuite's format


def test_crfsuite_items():
    text = "@weight:2.5\nB\tw=a\tsize:0.5\n\\:\tw=\\:\t\tw=\\\\:3\tw=\\x\te:\n\nO\n\n\nO\tw=a\tw=a:2\r\n"
    data = parse_crfsuite(text)
    assert data.labels == ["B", ":", "O", "O"]
    assert data.attributes == ["w=a", "size", "w=:", "w=\\", "w=\\x", "e", "w=a", "w=a"]
    assert data.values.tolist() == [1, 0.5, 1, 3, 1, 1, 1, 2]
    assert data.item_ptr.tolist() == [0, 2, 6, 6, 8]
    assert data.sequence_ptr.tolist() == [0, 2, 3, 4]
    assert data.sequence_weights.tolist() == [2.5, 1, 1]
    assert data.feature_sequences()[2] == [{"w=a": 3.0}]
    assert data.label_sequences() == [["B", ":"], ["O"], ["O"]]
    assert parse_crfsuite("@weight:3\tO\ta\n").sequence_weights.tolist() == [3]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("O\ta:b", "'b' is not a finite number"),
        ("O\ta:nan", "not a finite number"),
        ("O\ta:1:2", "more than one ':'"),
        ("O\t:1", "has no name"),
        (":\ta", "label ':' has a value"),
        ("@size:3", "unknown declaration '@size'"),
        ("@weight:x", "not a finite number"),
        ("@weight:-1", "negative"),
    ],
)
def test_bad_crfsuite_items(line, words):
    with pytest.raises(InputError, match=words) as caught:
        parse_crfsuite(f"O\ta\n\n{line}\n", path="f")
    assert (caught.value.path, caught.value.line) == ("f", 3)


# ------------------------------------------------------------------ the front door


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SMALL, "conll"),
        (SMALL.replace(" ", "\t"), "conll"),
        ("1/2 CD B-NP\n", "conll"),
        ("\n\n", "conll"),
        ('\n {"tokens": ["a"]}\n', "jsonl"),
        ("{ ( O\na b O\n", "conll"),
        ("The/DT cat/NN\nsat/VBD\n", "tagged"),
        ("B\tw=a\tpos=b\nO\tw=b\n", "crfsuite"),
        ("B\tbias:1\n\nO\tbias:1\n", "crfsuite"),
        ("@weight:2\nB\tx\n", "crfsuite"),
        ("a\tb=c\tO\nd\te\tO\n", "conll"),
    ],
)
def test_formats_are_told_apart(text, expected):
    assert detect_format(text) == expected


def test_read_returns_what_the_format_holds(write):
    assert read(write("a/X b/Y\n")).labels == ["X", "Y"]
    assert read(write('{"tokens": ["a"]}\n', "x.conll")).inputs == [["a"]]
    assert read(write("B\tw=a\n")).attributes == ["w=a"]
    assert read(write("a/X b/Y\n"), "conll").columns == [["a/X"]]
    assert read(write("a/X b/Y\n"), label_column=0).labels == ["a/X"]
    with pytest.raises(InputError, match="not one of auto"):
        read(write(SMALL), "xml")
    with pytest.raises(InputError, match="belong to format='conll'"):
        read(write(SMALL), "jsonl", comment="#")


@settings(deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(data)
    for name in ("auto", "conll", "tagged", "jsonl", "crfsuite"):
        try:
            read(path, name)
        except InputError as error:
            assert "\n" not in str(error)
    with suppress(InputError):
        assert "\0" not in read_text(path)


def test_telling_formats_apart_takes_linear_time():
    # A search that begins anew at every space would take days.
    assert detect_format(" " * 30_000_000 + "\nthe DT\n") == "conll"
