"""Files of templates of tokens, by the name of a preset or by their path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from partwise.errors import InputError
from partwise.features import presets
from partwise.features.templates.crfpp import looks_like_crfpp, parse_crfpp
from partwise.features.templates.fields import TOKENS, Combination, Template
from partwise.features.templates.gazetteers import Gazetteer, read_gazetteer
from partwise.features.templates.lines import numbered_lines, parse_line, refuse_too_many

PRESETS: dict[str, str] = presets.TOKENS


def parse_template(
    text: str,
    column_names: Sequence[str] = (),
    path: object = None,
    gazetteers: Sequence[Gazetteer] | None = None,
) -> Template:
    """Read a file of templates of tokens in the syntax described at the top of this module.

    Parameters
    ----------
    text : str
    column_names : sequence of str
        Names of the columns, unless the template has a ``columns:`` line.
    path : path-like or None
        Where the text comes from, for messages and for the files of gazetteers.
    gazetteers : sequence of Gazetteer, optional
        The lists of its ``gazetteer:`` lines, which are read from files otherwise.
    """
    lists: dict[str, Gazetteer] = {each.name: each for each in gazetteers or ()}
    boundary: Literal["skip", "symbol"] = "skip"
    found: dict[str, dict[tuple[str, ...], Combination]] = {"node": {}, "edge": {}}
    for number, line in numbered_lines(text, path, "template"):
        directive, colon, rest = (part.strip() for part in line.partition(":"))
        try:
            if colon and directive == "columns" and rest:
                column_names = rest.split()
            elif colon and directive == "boundary" and rest in ("skip", "symbol"):
                boundary = "skip" if rest == "skip" else "symbol"
            elif colon and directive == "gazetteer" and rest:
                if gazetteers is None:
                    found_list = read_gazetteer(rest, path)
                    if found_list.name in lists:
                        raise InputError(f"the gazetteer {found_list.name} is there twice")
                    lists[found_list.name] = found_list
            elif colon and directive != "edge":
                known = (
                    "'columns: NAMES', 'boundary: skip', 'boundary: symbol', 'gazetteer: NAME FILE' and "
                    "'edge: ATTRIBUTE'"
                )
                raise InputError(f"cannot read {line!r:.60}; the lines with a colon are {known}")
            elif rest or not colon:
                part = found["edge" if colon else "node"]
                for each in parse_line(rest if colon else line, TOKENS, number):
                    part.setdefault(each.pieces, each)
                refuse_too_many(len(found["node"]) + len(found["edge"]), "the template up to here")
        except InputError as error:
            raise InputError(str(error), path or "template", number) from None
    if not found["node"] and not found["edge"]:
        raise InputError(
            "the template has no attributes; write for example word[-2..2]", path or "template", 1
        )
    nodes, edges = (tuple(found[part].values()) for part in ("node", "edge"))
    for each in (*nodes, *edges):
        called = [field for field in each.fields if field.column in lists and field.functions]
        if called:
            raise InputError(
                f"{called[0].text()}: gazetteers have no functions", path or "template", each.line
            )
    where = None if path is None else str(path)
    own = tuple(lists.values())
    return Template(nodes, edges, True, boundary, tuple(column_names), text, "partwise", where, own)


def load_template(name: str | Path, column_names: Sequence[str] = ()) -> Template:
    """Read a file of templates of tokens by the name of a preset or from a file, in this module's syntax or CRF++'s.

    Parameters
    ----------
    name : str or path
        "chunking", "ner", "pos", or a file.
    column_names : sequence of str
        Names of the columns, for templates that do not name them.
    """
    if str(name) in PRESETS:
        return parse_template(PRESETS[str(name)], column_names, path=f"preset {name}")
    text = read_file(name, "template", PRESETS)
    return parse_crfpp(text, name) if looks_like_crfpp(text) else parse_template(text, column_names, name)


def read_file(path: str | Path, what: str, known: Iterable[str]) -> str:
    """The text of a file of templates; if it cannot be read, the error names the presets."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read the {what}: {reason}; presets are {', '.join(known)}", path) from None
