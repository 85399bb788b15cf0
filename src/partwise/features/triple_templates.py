"""Sets of templates for siblings and grandparents, after McDonald and Pereira (2006) and TurboParser's families.

`direction` says which way it goes from the first word to the head and from there to the modifier, `distance` how far
the first word and the modifier are apart. A first modifier has no sibling and a last one is followed by nobody: both
are "outside", as neighbours of a sentence's ends are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SIBLINGS = [
    "head.tag + sibling.tag + modifier.tag + direction",
    "head.tag + sibling.tag + modifier.tag + direction + distance",
    "sibling.tag + modifier.tag + direction",
    "sibling.tag + modifier.tag + direction + distance",
    "head.form + sibling.tag + modifier.tag + direction",
    "head.tag + sibling.form + modifier.tag + direction",
    "head.tag + sibling.tag + modifier.form + direction",
    "head.lemma + sibling.coarse + modifier.coarse + direction",
    "head.coarse + sibling.lemma + modifier.coarse + direction",
    "head.coarse + sibling.coarse + modifier.lemma + direction",
    "head.coarse + sibling.coarse + modifier.coarse + direction",
    "sibling.form + modifier.form + direction",
    "sibling.form + modifier.tag + direction",
    "sibling.tag + modifier.form + direction",
    "sibling.lemma + modifier.lemma + head.coarse + direction",
    "head.tag + sibling.tag + modifier-1.tag + modifier.tag + direction",
    "head.tag + sibling.tag + modifier.tag + modifier+1.tag + direction",
    "head.tag + sibling.tag + sibling+1.tag + modifier.tag + direction",
]
_GRANDPARENTS = [
    "grandparent.tag + head.tag + modifier.tag + direction",
    "grandparent.tag + head.tag + modifier.tag + direction + distance",
    "grandparent.tag + modifier.tag + direction",
    "grandparent.form + head.tag + modifier.tag + direction",
    "grandparent.tag + head.form + modifier.tag + direction",
    "grandparent.tag + head.tag + modifier.form + direction",
    "grandparent.lemma + head.coarse + modifier.coarse + direction",
    "grandparent.coarse + head.lemma + modifier.coarse + direction",
    "grandparent.coarse + head.coarse + modifier.lemma + direction",
    "grandparent.coarse + head.coarse + modifier.coarse + direction",
    "grandparent.form + modifier.form + direction",
    "grandparent.form + modifier.tag + direction",
    "grandparent.tag + modifier.form + direction",
    "grandparent.lemma + head.coarse + modifier.lemma + direction",
    "grandparent.coarse + head.lemma + modifier.lemma + direction",
    "grandparent.lemma + head.lemma + modifier.coarse + direction",
    "grandparent.tag + head.tag + modifier-1.tag + modifier.tag + direction",
    "grandparent.tag + head.tag + modifier.tag + modifier+1.tag + direction",
]
TRIPLE_PRESETS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "sibling": {"siblings": _SIBLINGS},
    "grandparent": {"grandparents": _GRANDPARENTS},
}
