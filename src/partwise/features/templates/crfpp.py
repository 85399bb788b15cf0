"""CRF++'s spelling of templates of tokens."""

from __future__ import annotations

import re

from partwise.errors import InputError
from partwise.features.templates.fields import Combination, Field, Template
from partwise.features.templates.lines import FURTHEST_OFFSET, check_size, integer

_MACRO = re.compile(r"%x\[\s*([-+]?\d+)\s*,\s*(\d+)\s*\]")


def looks_like_crfpp(text: str) -> bool:
    """Whether the first line that is no comment has CRF++'s syntax."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return "%" in first or re.fullmatch(r"[UB]\d*:?", first) is not None


def parse_crfpp(text: str, path: object = None) -> Template:
    """Read a CRF++ template.

    ``U`` lines make attributes of a token, ``B`` lines attributes of the pair of labels at the previous and this
    token. A ``B`` line without macros is the tied transition. ``%x[row,column]`` anywhere in a line stands for a string
    of the data. Attributes with equal text are the same attribute even if they come from different lines, so lines
    without an identifier make a bag of words.

    Parameters
    ----------
    text : str
    path : path-like or None
        Where the text comes from, for messages.

    Returns
    -------
    Template
        With boundary symbols, columns by number, and tied transitions if there is a plain ``B``.
    """
    check_size(text, path)
    found: list[Combination] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if line and not line.startswith("#"):
            try:
                found.append(_crfpp_line(line, number))
            except InputError as error:
                raise InputError(str(error), path or "template", number) from None
    if not found:
        raise InputError(
            "the template has no attributes; write for example U00:%x[0,0]", path or "template", 1
        )
    nodes = tuple(each for each in found if each.pieces[0].startswith("U"))
    others = [each for each in found if not each.pieces[0].startswith("U")]
    edges, where = tuple(each for each in others if each.fields), None if path is None else str(path)
    return Template(nodes, edges, len(edges) < len(others), "symbol", (), text, "crf++", where)


def _crfpp_line(line: str, number: int) -> Combination:
    if line[0] not in "UB":
        raise InputError(f"cannot read {line!r:.60}; a CRF++ line starts with U or B, a comment with #")
    literal_and_macro = _MACRO.split(line)
    pieces = tuple(literal_and_macro[::3])
    if any("%" in piece for piece in pieces):
        raise InputError(f"cannot read {line!r:.60}; a macro looks like %x[-1,0]")
    rows = [integer(row) for row in literal_and_macro[1::3]]
    if any(abs(row) > FURTHEST_OFFSET for row in rows):
        raise InputError(f"a row in {line!r:.60} is not within ±{FURTHEST_OFFSET}")
    columns = [integer(column) for column in literal_and_macro[2::3]]
    fields = tuple(Field(column, row) for column, row in zip(columns, rows, strict=True))
    return Combination(pieces, fields, "all", number)
