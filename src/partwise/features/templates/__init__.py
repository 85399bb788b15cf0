"""The one language of templates: which fields of tokens, segments, arcs, triples and spans become features.

A *template* is one line: fields joined by "|" or " + ". Its features are the values that these fields have together.
A *field* is a column at a position, with functions around it. Two spellings mean the same::

    word[-1]   pos[first-1]   suffix(lower(form[head]), 3)        column[position]
               first-1.pos    suffix(lower(head.form), 3)         position.column

Ranges expand: ``word[-2..2]`` is five templates, ``prefix(word[0], 1..3)`` three. A "?" at the end leaves a template
out if the data have no such column. A *relation*, such as ``length`` or ``direction``, is a value of the whole row.
A `Kind` lists the positions, columns and relations of one kind of row; docs/templates.md shows them all. A feature is
absent if one of its fields has no value.

Tokens have files of templates with four more lines::

    columns: word pos        what the columns are called (default: word, pos, col2, col3 ...)
    boundary: symbol         places outside the sentence are called _B-1, _B+1 ...; with "skip" they have no value
    gazetteer: city FILE     a word list, whose column says which words are in an entry (`gazetteers.py`)
    edge: pos[0]             a feature of the pair of labels at the previous and this token

CRF++'s files are a second spelling of the same templates (`crfpp.py`).

`fields.py` is what templates are made of, `lines.py` reads single templates, and `files.py` files of them.
"""

from __future__ import annotations

from partwise.features.functions import FUNCTIONS
from partwise.features.templates.crfpp import looks_like_crfpp, parse_crfpp
from partwise.features.templates.fields import (
    ALL,
    ANY,
    BETWEEN,
    RELATION,
    SEVERAL,
    TOKENS,
    Column,
    Combination,
    Field,
    Kind,
    Template,
    affixes,
    bind,
    names_of_columns,
)
from partwise.features.templates.files import PRESETS, load_template, parse_template, read_file
from partwise.features.templates.gazetteers import Gazetteer, checked_gazetteer, read_gazetteer
from partwise.features.templates.lines import parse_line, parse_list, parse_text

# fmt: off
__all__ = [
    "ALL", "ANY", "BETWEEN", "FUNCTIONS", "PRESETS", "RELATION", "SEVERAL", "TOKENS",
    "Column", "Combination", "Field", "Gazetteer", "Kind", "Template",
    "affixes", "bind", "checked_gazetteer", "load_template", "looks_like_crfpp", "names_of_columns", "parse_crfpp",
    "parse_line", "parse_list", "parse_template", "parse_text",
    "read_file", "read_gazetteer",
]
# fmt: on
