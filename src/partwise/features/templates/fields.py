"""What templates are made of: fields, combinations of fields, and the kinds of rows that have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from partwise.errors import InputError
from partwise.features.functions import apply, written_call

# Fields that are not of one word: a value of the row; every distinct value of several words; all values one after
# another.
RELATION, BETWEEN, ANY, ALL = "row", "between", "any", "all"
SEVERAL = (BETWEEN, ANY)


@dataclass(frozen=True)
class Field:
    """One observed value: a column at a position, and functions applied in turn; or a relation.

    Parameters
    ----------
    column : str or int
        Name or number; a number once the template is bound to columns.
    offset : int
        How many words after the place.
    functions : tuple of (name, argument)
        Names in ``partwise.features.functions``, innermost first; the argument is 0 for functions that take none.
    place : str
        One of the kind's places, or `RELATION`, `BETWEEN`, `ANY`, `ALL`.
    dotted : bool
        Whether it was written ``head.form``, not ``form[head]``.
    """

    column: str | int
    offset: int = 0
    functions: tuple[tuple[str, int], ...] = ()
    place: str = "token"
    dotted: bool = field(default=False, compare=False)

    @property
    def source(self) -> str:
        """Column and functions, without the position."""
        written = written_call(self.functions, str(self.column))
        return f"all({written})" if self.place == ALL else written

    def text(self) -> str:
        """The field as it is written in a template."""
        column, signed = str(self.column), f"{self.offset:+}" if self.offset else ""
        if self.place == RELATION:
            return column
        if self.place in (ANY, ALL):
            return f"{self.place}({written_call(self.functions, column)})"
        position = str(self.offset) if self.place == "token" else f"{self.place}{signed}"
        written = f"{self.place}{signed}.{column}" if self.dotted else f"{column}[{position}]"
        return written_call(self.functions, written)

    def value(self, string: str) -> str | None:
        """What the functions make of a string of the column; None where they have no value."""
        return apply(self.functions, string)


@dataclass(frozen=True)
class Combination:
    """One template without ranges: its features are called ``pieces[0] value[0] pieces[1] value[1] ... pieces[-1]``.

    Combinations with equal pieces share their features, as in a CRF++ bag of words.

    Parameters
    ----------
    pieces : tuple of str, one more than fields
    fields : tuple of Field
    where : which tokens have it
    line : int
        Line of the template it comes from, for messages.
    optional : bool
        Left out when a column is missing.
    """

    pieces: tuple[str, ...]
    fields: tuple[Field, ...]
    where: Literal["all", "first", "last"] = "all"
    line: int = 0
    optional: bool = False

    def text(self) -> str:
        """The template as it is written."""
        joint = " + " if self.pieces[1:-1] and self.pieces[1].startswith(" & ") else "|"
        return joint.join(each.text() for each in self.fields) or self.pieces[0]

    def attribute(self, values: Sequence[str]) -> str:
        """The name of the feature with this value of each field."""
        return self.pieces[0] + "".join(v + p for v, p in zip(values, self.pieces[1:], strict=True))

    @property
    def has_several(self) -> bool:
        """Whether a row may have several features of this template."""
        return any(each.place in SEVERAL or each.column == "feat" for each in self.fields)


class Column(NamedTuple):
    """A column of a kind that does not take its columns from the data.

    Attributes
    ----------
    data : str
        The column of the data that it is made of.
    value : function of a string, or None
        What it makes of the string; None stands for no value.
    outside : bool
        Whether positions outside the sentence have a value, too.
    """

    data: str
    value: Callable[[str], str | None] | None = None
    outside: bool = True


def _end(n: int, first: bool, string: str) -> str | None:
    """The first or last `n` characters of a longer string."""
    return None if len(string) <= n else string[:n] if first else string[-n:]


def affixes(data: str) -> dict[str, Column]:
    """Columns ``prefix1`` to ``suffix9``: the ends of words that are longer than that."""
    sides = (("prefix", True), ("suffix", False))
    return {
        f"{name}{n}": Column(data, partial(_end, n, first), outside=False)
        for name, first in sides
        for n in range(1, 10)
    }


@dataclass(frozen=True)
class Kind:
    """What templates of one kind of row may say.

    Attributes
    ----------
    name, parameter : str
        Of the rows, and of the parameter that templates are passed by, for messages.
    places : tuple of str
        Named positions. A kind with one place needs no name in brackets.
    examples : str
        Fields, for messages.
    columns : dict of str to Column, or None
        None for the columns that the data have, by name or number.
    relations : dict of str to tuple of str
        Names of the values of each relation; empty if they are learnt from data.
    several : str
        `BETWEEN` if fields may stand for all words between two places, `ANY` for those of the row, "" for neither.
        With `ANY`, the kind also has `ALL`.
    presets : dict of str to list of str
    reserved : tuple of str
        Names of the values outside the sentence, and perhaps of the root. Their codes come first.
    reserved_are_strings : bool
        Whether a word with such a string is the same.
    n_places : int
        How many places compiled code reads for these rows; those beyond `places` have no fields.
    first_field_highest : bool
        Whether the first field is the highest digit of keys, not the lowest. Model files have keys of both orders.
    """

    name: str
    parameter: str
    places: tuple[str, ...]
    examples: str
    columns: Mapping[str, Column] | None = None
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    several: str = ""
    presets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reserved: tuple[str, ...] = ()
    reserved_are_strings: bool = False
    n_places: int = 1
    first_field_highest: bool = False


TOKENS = Kind(
    name="token",
    parameter="template",
    places=("token",),
    examples="word[-1] or suffix(word[0], 3)",
    reserved_are_strings=True,
    first_field_highest=True,
)


@dataclass(frozen=True)
class Template:
    """A parsed file of templates of tokens, whatever syntax it was written in.

    Parameters
    ----------
    nodes : tuple of Combination
        Attributes of a token, paired with its label.
    edges : tuple of Combination
        Attributes of a token, paired with its label and the one before.
    tied_transitions : bool
        Whether pairs of labels also have weights that are the same everywhere.
    boundary : "skip" or "symbol"
        Outside a sentence, no attribute or a boundary symbol.
    column_names : tuple of str
        Names of the first columns; empty for the default names.
    text, syntax, path
        What it was read from: syntax is "partwise" or "crf++".
    gazetteers : tuple of Gazetteer
        Word lists, whose names are columns, too.
    """

    nodes: tuple[Combination, ...]
    edges: tuple[Combination, ...]
    tied_transitions: bool
    boundary: Literal["skip", "symbol"]
    column_names: tuple[str, ...]
    text: str
    syntax: Literal["partwise", "crf++"]
    path: str | None = None
    gazetteers: tuple[Any, ...] = ()

    def bind(self, n_columns: int) -> Template:
        """Resolve every column to its number in data of ``n_columns`` columns."""
        where, lists = self.path or "template", [each.name for each in self.gazetteers]
        nodes, edges = (
            bind(part, n_columns, self.column_names, where, lists) for part in (self.nodes, self.edges)
        )
        return replace(self, nodes=nodes, edges=edges)


# -- columns ---------------------------------------------------------------------------------------


def names_of_columns(column_names: Sequence[str], n_columns: int) -> list[str]:
    """The names of columns in templates."""
    names = list(column_names or ("word", "pos"))[:n_columns]
    return names + [f"col{k}" for k in range(len(names), n_columns)]


def bind(
    combinations: Iterable[Combination],
    n_columns: int,
    column_names: Sequence[str],
    where: object,
    lists: Iterable[str] = (),
) -> tuple[Combination, ...]:
    """Replace names of columns by numbers; leave out optional templates whose column is missing.

    `lists` are the names of gazetteers, which stay as they are.
    """
    names = names_of_columns(column_names, n_columns)
    if twice := set(names) & set(lists):
        raise InputError(f"the gazetteer {min(twice)!r} has the name of a column", where)
    numbers: dict[str | int, int] = {f"col{k}": k for k in range(n_columns)}
    numbers |= {k: k for k in range(n_columns)} | {name: k for k, name in enumerate(names)}
    columns: dict[str | int, str | int] = {**numbers, **{name: name for name in lists}}
    bound = []
    for each in combinations:
        missing = [f.column for f in each.fields if f.place != RELATION and f.column not in columns]
        if not missing:
            fields = (f if f.place == RELATION else replace(f, column=columns[f.column]) for f in each.fields)
            bound.append(replace(each, fields=tuple(fields)))
        elif not each.optional:
            known = ", ".join(names) or "none"
            raise InputError(
                f"column {missing[0]!r} is not in the data, whose columns are {known}", where, each.line
            )
    return tuple(bound)
