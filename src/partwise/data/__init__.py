"""File formats of sequences, treebanks and graphs.

`read` reads sequences in any format. `read_text` and `open_binary` open files safely: they unpack gzip, decode UTF-8
and name the line of an error. There is one module per format; `conll.py` is the simplest to read first.
"""

from __future__ import annotations

import gzip
import importlib
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from partwise.data.encodings import reading, recoded
from partwise.data.line_ends import with_newlines
from partwise.errors import InputError, MissingFileError

if TYPE_CHECKING:
    from partwise.data.binary_form import BinaryForm
    from partwise.data.conll import (
        Columns,
        StreamBatch,
        parse_conll,
        read_conll,
        stream_sequences,
        write_predictions,
    )
    from partwise.data.constituents import Span, Tree
    from partwise.data.crfsuite_format import AttributeSequences, parse_crfsuite, read_crfsuite
    from partwise.data.dependency import (
        DependencyCorpus,
        corpus_from_sentences,
        parse_dependencies,
        read_dependencies,
        stream_dependencies,
    )
    from partwise.data.dependency_checks import ProjectiveCount, is_projective, keep_projective
    from partwise.data.dependency_writer import write_dependencies
    from partwise.data.export_format import ExportTreebank, parse_export, write_export
    from partwise.data.graph_jsonl import parse_graphs, read_graphs, stream_graphs
    from partwise.data.graphs import GraphExample, GraphFactor, Graphs, grid_graph
    from partwise.data.jsonl import JsonSequences, parse_jsonl, read_jsonl
    from partwise.data.made_names import make_names
    from partwise.data.pcfg import PCFG
    from partwise.data.tagged import parse_tagged, read_tagged
    from partwise.data.treebank import Treebank, parse_trees, read_trees, write_trees
    from partwise.data.treebank_grammar import TreebankGrammar

__all__ = [
    "PCFG",
    "AttributeSequences",
    "BinaryForm",
    "Columns",
    "DependencyCorpus",
    "ExportTreebank",
    "GraphExample",
    "GraphFactor",
    "Graphs",
    "JsonSequences",
    "ProjectiveCount",
    "Span",
    "StreamBatch",
    "Tree",
    "Treebank",
    "TreebankGrammar",
    "corpus_from_sentences",
    "detect_format",
    "grid_graph",
    "is_projective",
    "keep_projective",
    "make_names",
    "open_binary",
    "open_text",
    "parse_conll",
    "parse_crfsuite",
    "parse_dependencies",
    "parse_export",
    "parse_graphs",
    "parse_jsonl",
    "parse_tagged",
    "parse_trees",
    "read",
    "read_conll",
    "read_crfsuite",
    "read_dependencies",
    "read_graphs",
    "read_jsonl",
    "read_tagged",
    "read_text",
    "read_trees",
    "stream_dependencies",
    "stream_graphs",
    "stream_sequences",
    "write_dependencies",
    "write_export",
    "write_predictions",
    "write_trees",
]

# The readers import the helpers below from here, so their names are looked up on first use.
_MODULES = {
    "binary_form": ("BinaryForm",),
    "conll": ("Columns", "StreamBatch", "parse_conll", "read_conll", "stream_sequences", "write_predictions"),
    "constituents": ("Span", "Tree"),
    "crfsuite_format": ("AttributeSequences", "parse_crfsuite", "read_crfsuite"),
    "dependency": (
        "DependencyCorpus",
        "corpus_from_sentences",
        "parse_dependencies",
        "read_dependencies",
        "stream_dependencies",
    ),
    "dependency_checks": ("ProjectiveCount", "is_projective", "keep_projective"),
    "dependency_writer": ("write_dependencies",),
    "graph_jsonl": ("parse_graphs", "read_graphs", "stream_graphs"),
    "graphs": ("GraphExample", "GraphFactor", "Graphs", "grid_graph"),
    "export_format": ("ExportTreebank", "parse_export", "write_export"),
    "jsonl": ("JsonSequences", "parse_jsonl", "read_jsonl"),
    "made_names": ("make_names",),
    "pcfg": ("PCFG",),
    "tagged": ("parse_tagged", "read_tagged"),
    "treebank": ("Treebank", "parse_trees", "read_trees", "write_trees"),
    "treebank_grammar": ("TreebankGrammar",),
}
_MODULE_OF_NAME = {name: module for module, names in _MODULES.items() for name in names}

_PARSERS = {
    "conll": ("conll", "parse_conll"),
    "tagged": ("tagged", "parse_tagged"),
    "jsonl": ("jsonl", "parse_jsonl"),
    "crfsuite": ("crfsuite_format", "parse_crfsuite"),
}
FORMATS = tuple(_PARSERS)
_CONLL_SETTINGS = {"separator": None, "label_column": -1, "comment": None}  # the defaults of `read`
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = "\ufeff"
_LINES_LOOKED_AT = 50
_LINE = re.compile(r"[^\n]+")
_JSON_OBJECT = re.compile(r"\s*\{\s*[\"}]")
_TAGGED_WORD = re.compile(r"\S+/[^\s/]+")


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def read(
    path: str | os.PathLike[str],
    format: str = "auto",
    *,
    separator: str | None = None,
    label_column: int | None = -1,
    comment: str | None = None,
    encoding: str | None = None,
) -> Columns | JsonSequences | AttributeSequences:
    r"""Read a file of sequences in any supported format.

    Parameters
    ----------
    path : str or path
        The file, plain or gzipped; "-" is standard input.
    format : {"auto", "conll", "tagged", "jsonl", "crfsuite"}
        "auto" looks at the first 50 lines that are not blank, never at the file's name:

        - the first opens a JSON object (``{"`` or ``{}``): "jsonl";
        - in all of them every field is ``word/TAG``: "tagged";
        - all have tabs and an ``=`` or ``:`` in the field after the first tab, or one starts
          with ``@weight:``: "crfsuite";
        - anything else, or when one of the options below is given: "conll".
    separator, label_column, comment
        See `read_conll`. Other formats do not take them.
    encoding : str or None
        Of the text, such as "latin-1"; None is UTF-8.

    Returns
    -------
    Columns
        For "conll" and "tagged".
    JsonSequences
        For "jsonl".
    AttributeSequences
        For "crfsuite".
    """
    if format not in ("auto", *FORMATS):
        raise InputError(f"format={format!r} is not one of auto, {', '.join(FORMATS)}")
    settings = {"separator": separator, "label_column": label_column, "comment": comment}
    are_columns = settings != _CONLL_SETTINGS
    if are_columns and format not in ("auto", "conll"):
        raise InputError(f"separator, label_column and comment belong to format='conll', not {format!r}")
    with reading(encoding):
        text = read_text(path)
    if format == "auto":
        format = "conll" if are_columns else detect_format(text)
    return parse(text, format, path=path, **(settings if format == "conll" else {}))


def parse(
    text: str, format: str, *, path: object = None, **settings: Any
) -> Columns | JsonSequences | AttributeSequences:
    """Like `read`, from a string of a known format; `path` is only named in errors."""
    module, function = _PARSERS[format]
    return getattr(importlib.import_module(f"{__name__}.{module}"), function)(text, path=path, **settings)


def detect_format(text: str) -> str:
    """Name the format of a text by the rules that `read` documents."""
    with_text = (match.group() for match in _LINE.finditer(text) if match.group().strip())
    lines = list(islice(with_text, _LINES_LOOKED_AT))
    if lines and _JSON_OBJECT.match(lines[0]):
        return "jsonl"
    if lines and all(_TAGGED_WORD.fullmatch(field) for line in lines for field in line.split()):
        return "tagged"
    if any(line.startswith("@weight:") for line in lines):
        return "crfsuite"
    second_fields = [line.split("\t", 2)[1] if "\t" in line else "" for line in lines]
    if second_fields and all("=" in field or ":" in field for field in second_fields):
        return "crfsuite"
    return "conll"


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a whole UTF-8 file. Gzip is unpacked, a byte order mark dropped, and CRLF turned into LF.

    Parameters
    ----------
    path : str or path
        The file; "-" is standard input. Gzip is recognised by its first two bytes.

    Returns
    -------
    str
    """
    with open_binary(path) as handle, readable(path):
        data = handle.read()
    return unix_newlines(decode(data, path).removeprefix(_BYTE_ORDER_MARK))


def open_text(path: str | os.PathLike[str]) -> io.StringIO:
    """`read_text` as a file object, for readers that go line by line.

    The whole file is decoded first, so that a bad byte is reported before any work is done.
    """
    return io.StringIO(read_text(path))


@contextmanager
def open_binary(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file, or standard input for "-", for reading bytes; gzip is unpacked, CR alone turned into LF.

    Standard input stays open at the end of the ``with`` block; a file is closed.
    """
    handle: Any
    with ExitStack() as opened:
        with readable(path):
            if os.fspath(path) == "-":
                if sys.stdin is None:
                    raise InputError("standard input is closed")
                handle = getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode())
                handle = handle if hasattr(handle, "peek") else io.BufferedReader(io.BytesIO(handle.read()))
            else:
                handle = opened.enter_context(open(path, "rb"))
            if handle.peek(2)[:2] == _GZIP_MAGIC:
                handle = opened.enter_context(gzip.GzipFile(fileobj=handle))
            handle = with_newlines(recoded(handle, path))
        yield handle


@contextmanager
def readable(path: object) -> Iterator[None]:
    """Turn errors of the file system into an `InputError` that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError("no such file", path) from None
    except IsADirectoryError:
        raise InputError("this is a directory; a file is needed", path) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"damaged or truncated gzip file ({error})", path) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read ({getattr(error, 'strerror', None) or error})", path) from None


def decode(data: bytes, path: object, first_line: int = 1) -> str:
    """Decode UTF-8 text, naming the line of the first byte that cannot be."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        byte = f"byte 0x{data[error.start]:02x} is not UTF-8"
        message = f"{byte}; name the encoding (--encoding latin-1), or convert the file (iconv -t utf-8)"
        raise InputError(message, path, line) from None
    nul = text.find("\0")
    if nul >= 0:
        raise InputError("NUL byte: not a text file", path, first_line + text.count("\n", 0, nul))
    return text


def unix_newlines(text: str) -> str:
    """Replace CRLF, also after stray extra CRs, by LF; line numbers stay as they are."""
    while "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return text


def shortened(field: str) -> str:
    """A field of a file as errors quote it."""
    return repr(field if len(field) <= 40 else field[:40] + "…")
