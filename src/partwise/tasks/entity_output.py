"""Entities in output files and answers: a column beside tokens, or JSON objects with texts and character offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partwise.errors import InputError
from partwise.estimators.entities import Entity

_NONE = "_"  # of a token at which no entity begins
_OFFSETS = "offsets"


def entity_column(entities: Sequence[Entity], length: int) -> list[str]:
    """For each token, ``TYPE:TOKENS:PROBABILITY`` of each entity that begins there, separated by commas."""
    cells: list[list[str]] = [[] for _ in range(length)]
    for first, last, kind, p in entities:
        cells[first].append(f"{kind}:{last - first + 1}:{p:.4f}")
    return [",".join(cell) or _NONE for cell in cells]


def entity_objects(
    entities: Sequence[Entity], tokens: Sequence[Any] = (), known: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Entities as JSON values.

    Parameters
    ----------
    tokens : sequence
        The words of the sequence, if they are known: entities then have a text.
    known : dict, optional
        The other entries of the input's JSON line. If it has "offsets", a pair [start, end] of characters for each
        token, entities have "start" and "end"; if it also has "text", their texts are cut from it.
    """
    known = known or {}
    offsets, text = known.get(_OFFSETS), known.get("text")
    if offsets is not None:
        _check_offsets(offsets, tokens)
    found = []
    for first, last, kind, p in entities:
        own: dict[str, Any] = {"first": first, "last": last, "type": str(kind), "probability": round(p, 6)}
        if offsets is not None:
            own["start"], own["end"] = offsets[first][0], offsets[last][1]
        if offsets is not None and isinstance(text, str):
            own["text"] = text[own["start"] : own["end"]]
        elif tokens and all(isinstance(token, str) for token in tokens[first : last + 1]):
            own["text"] = " ".join(tokens[first : last + 1])
        found.append(own)
    return found


def _check_offsets(offsets: Any, tokens: Sequence[Any]) -> None:
    """Raise unless offsets are a pair of whole numbers for each token."""
    name = f"sequence {' '.join(map(str, tokens))!r:.60}: "
    if not isinstance(offsets, list) or len(offsets) != len(tokens):
        raise InputError(
            f'{name}"offsets" must be a list of {len(tokens)} pairs [start, end], one for each token'
        )
    for t, pair in enumerate(offsets):
        is_pair = isinstance(pair, list) and len(pair) == 2 and all(type(each) is int for each in pair)
        if not is_pair or not 0 <= pair[0] <= pair[1]:
            raise InputError(
                f'{name}"offsets"[{t}] is {pair!r:.40}; it must be a pair [start, end] of characters'
            )
