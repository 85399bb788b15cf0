"""Docstrings of estimators: base classes describe shared parameters and attributes once."""

from __future__ import annotations

import inspect
import re

_LAST_POSITIONAL = "verbose"
_UNDERLINED = re.compile(r"^(\w.*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def completed(cls: type, root: type) -> str | None:
    """The docstring of a class, with the entries of its base classes down to `root`.

    Entries come in this order: positional parameters, own entries, other shared ones. An own entry replaces the
    shared one of the same name. A class with its own ``__init__`` keeps its docstring.
    """
    own_doc = cls.__dict__.get("__doc__")
    if own_doc is None or "__init__" in cls.__dict__:
        return own_doc
    summary, sections = _split(own_doc)
    bases = [_split(each.__doc__ or "")[1] for each in reversed(cls.__mro__[1:]) if issubclass(each, root)]
    for title in ("Parameters", "Attributes"):
        own = _entries(sections.get(title, ""))
        shared: dict[str, str] = {}
        for base in bases:
            shared |= _entries(base.get(title, ""))
        names = list(shared)
        first = names[: names.index(_LAST_POSITIONAL) + 1] if _LAST_POSITIONAL in names else []
        ordered = dict.fromkeys([*first, *own, *names])
        sections[title] = "\n".join((shared | own)[name] for name in ordered)
    titles = dict.fromkeys(["Parameters", "Attributes", *sections])
    return "\n\n".join([summary, *(f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in titles)])


def _split(doc: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the sections by title."""
    summary, *rest = _UNDERLINED.split(inspect.cleandoc(doc))
    return summary.strip(), {title: text.strip() for title, text in zip(rest[::2], rest[1::2], strict=True)}


def _entries(section: str) -> dict[str, str]:
    """The entries of a section by their names: lines up to the next one that is not indented."""
    blocks = [block.rstrip() for block in _ENTRY.split(section) if block]
    return {block.split(" : ")[0].partition("\n")[0]: block for block in blocks}
