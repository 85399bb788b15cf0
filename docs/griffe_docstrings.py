"""How docstrings read in the API reference: complete, one entry per parameter, an example first, plain code names."""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`[~!]?([^`]+)`")
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_WITH_ENTRIES = {"Parameters", "Other Parameters", "Attributes"}
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


class ReferenceDocstrings(griffe.Extension):
    """Changes every docstring before mkdocstrings parses it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Make the docstring of an object ready for the reference."""
        if not obj.docstring:
            return
        text = obj.docstring.value
        if obj.is_class and obj.path.startswith("partwise.tasks."):
            # Estimators inherit descriptions of parameters when they are imported (`estimators/docstrings.py`).
            text = griffe.dynamic_import(obj.path).__doc__ or ""
        obj.docstring.value = readable(text, example_first=obj.is_class)


def readable(text: str, *, example_first: bool) -> str:
    """The docstring without roles and grouped entries."""
    summary, *rest = _SECTION.split(inspect.cleandoc(_ROLE.sub(r"`\1`", text)))
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    for title in _WITH_ENTRIES & set(sections):
        sections[title] = "\n".join(map(_ungrouped, filter(None, _ENTRY.split(sections[title])))) + "\n"
    titles = sorted(sections, key=lambda title: not (example_first and title == "Examples"))
    return "\n".join([summary.rstrip() + "\n", *(f"{t}\n{'-' * len(t)}\n{sections[t]}" for t in titles)])


def _ungrouped(entry: str) -> str:
    """``a, b : type`` as two entries with the same description; griffe gives both the default of the first."""
    head, _, description = entry.rstrip("\n").partition("\n")
    names, colon, kind = head.partition(" : ")
    if not re.fullmatch(r"[\w*]+(, [\w*]+)+", names):
        return entry.rstrip("\n")
    return "\n".join(f"{name}{colon}{kind}\n{description}".rstrip() for name in names.split(", "))
