# mypy: ignore-errors
"""Keys of features of siblings and grandparents: sums of parts of three words and of how they lie, as those of arcs."""

from __future__ import annotations

from partwise.compiled.dispatch import fragment, inner
from partwise.features.arc_keys import N_DISTANCES, binned


@fragment
def place_number(first, head, modifier):
    """Directions from the first word to the head and on to the modifier, and the distance of first word and modifier.

    Who is missing (below 0) is taken to stand where the head does.
    """
    a, b = (head if first < 0 else first), (head if modifier < 0 else modifier)
    leftwards, back = a > head, (a > head if modifier < 0 else b < head)
    return (2 * leftwards + back) * N_DISTANCES + binned(abs(a - b))


@inner
def triple_keys(program, length, first, head, modifier, work):
    """Write the keys of three words to ``work.keys``; returns how many."""
    head_part = work.part[0, head]
    modifier_part = work.part[1, length + 1 if modifier < 0 else modifier]
    first_part = work.part[2, length + 1 if first < 0 else first]
    place_part = program.distance_part[place_number(first, head, modifier)]
    keys, n_keys = work.keys, 0
    for t in range(len(program.base)):
        key = head_part[t] + modifier_part[t]
        if key >= 0:
            key += first_part[t] + place_part[t]
            keys[n_keys] = key
            n_keys += key >= 0
    return n_keys
