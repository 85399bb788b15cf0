"""Which chunk labels may follow each other: masks for chains from label names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from partwise.errors import InputError

# Prefixes that begin a chunk, continue one, and end one. IOB1 uses "B" only between two adjacent chunks of the same
# type, so every other label may follow any label.
_BEGINS = {"IOB2": "B", "IOBES": "BS", "BILOU": "BU"}
_GOES_ON = {"IOB2": "I", "IOBES": "IE", "BILOU": "IL"}
_ENDS = {"IOB2": "BI", "IOBES": "ES", "BILOU": "LU"}


class TransitionMask(NamedTuple):
    """Boolean arrays, True where allowed: label j after i (L, L), first (L,), last (L,)."""

    allowed: np.ndarray
    allowed_start: np.ndarray
    allowed_end: np.ndarray


def transition_mask(label_names: Sequence[str], scheme: str = "IOB2") -> TransitionMask:
    """Masks that keep a chain's labels well formed under a chunk scheme.

    Parameters
    ----------
    label_names : sequence of str, length L
        "O", and a prefix and a type joined by "-": "B-NP". A bare prefix has the empty type.
    scheme : {"IOB2", "IOBES", "BILOU", "IOB1"}

    Returns
    -------
    TransitionMask
        ``(allowed, allowed_start, allowed_end)``: ``Chain(L, **mask._asdict())``.
    """
    prefixes = {"IOB1": "BI"} | {name: _BEGINS[name] + _GOES_ON[name] for name in _BEGINS}
    if scheme not in prefixes:
        raise InputError(f"scheme must be one of {', '.join(sorted(prefixes))}, not {scheme!r}")
    if isinstance(label_names, str):
        raise InputError("label_names must be a sequence of names, not one string")
    labels = [_split(name, prefixes[scheme], scheme) for name in label_names]
    follows = _follows_iob1 if scheme == "IOB1" else _follows
    outside = ("O", "")
    allowed = np.array([[follows(a, b, scheme) for b in labels] for a in labels], dtype=bool)
    return TransitionMask(
        allowed.reshape(len(labels), len(labels)),
        np.array([follows(outside, b, scheme) for b in labels], dtype=bool),
        np.array([follows(a, outside, scheme) for a in labels], dtype=bool),
    )


def _split(name: str, prefixes: str, scheme: str) -> tuple[str, str]:
    prefix, _, kind = str(name).partition("-")
    if prefix == "O" and not kind:
        return "O", ""
    if len(prefix) != 1 or prefix not in prefixes:
        raise InputError(
            f"label_names: {name!r} does not fit {scheme}, whose labels are O and "
            + ", ".join(f"{p}-type" for p in prefixes)
        )
    return prefix, kind


def _follows(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    """A label continues an open chunk of its own type, or begins one if no chunk is open."""
    if after[0] in _GOES_ON[scheme]:
        is_open = before[0] != "O" and (scheme == "IOB2" or before[0] not in _ENDS[scheme])
        return is_open and before[1] == after[1]
    return before[0] == "O" or before[0] in _ENDS[scheme]


def _follows_iob1(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    return after[0] != "B" or (before[0] != "O" and before[1] == after[1])
