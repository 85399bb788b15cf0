"""Named sets of templates: of tokens, segments, arcs, siblings, grandparents, words, spans and splits."""

from __future__ import annotations


def _with_and_without_distance(*templates: str) -> list[str]:
    """Every template as it is, and together with direction and distance."""
    return [each for text in templates for each in (text, f"{text} + direction + distance")]


def _with_distance(*templates: str) -> list[str]:
    """Every template together with direction and distance."""
    return [f"{text} + direction + distance" for text in templates]


# First-order features after McDonald, Crammer and Pereira (2005). A feature of the modifier alone is the same for every
# head and cannot tell heads apart, so it always comes with direction and distance.
MCDONALD = [
    *_with_and_without_distance(
        "head.form + head.tag",
        "head.form",
        "head.tag",
        "head.prefix5 + head.tag",
        "head.lemma",
    ),
    *_with_distance(
        "modifier.form + modifier.tag",
        "modifier.form",
        "modifier.tag",
        "modifier.prefix5 + modifier.tag",
        "modifier.lemma",
        "head.coarse",
        "modifier.coarse",
    ),
    *_with_and_without_distance(
        "head.form + head.tag + modifier.form + modifier.tag",
        "head.tag + modifier.form + modifier.tag",
        "head.form + modifier.form + modifier.tag",
        "head.form + head.tag + modifier.form",
        "head.form + head.tag + modifier.tag",
        "head.form + modifier.form",
        "head.tag + modifier.tag",
        "head.prefix5 + head.tag + modifier.prefix5 + modifier.tag",
        "head.tag + modifier.prefix5 + modifier.tag",
        "head.prefix5 + head.tag + modifier.tag",
        "head.lemma + head.coarse + modifier.lemma + modifier.coarse",
        "head.coarse + modifier.lemma + modifier.coarse",
        "head.lemma + head.coarse + modifier.coarse",
        "head.coarse + modifier.coarse",
    ),
    *_with_and_without_distance(
        "head.tag + head+1.tag + modifier-1.tag + modifier.tag",
        "head-1.tag + head.tag + modifier-1.tag + modifier.tag",
        "head.tag + head+1.tag + modifier.tag + modifier+1.tag",
        "head-1.tag + head.tag + modifier.tag + modifier+1.tag",
        "head.tag + modifier-1.tag + modifier.tag",
        "head.tag + head+1.tag + modifier.tag",
        "head-1.tag + head.tag + modifier.tag",
        "head.tag + modifier.tag + modifier+1.tag",
        "head.coarse + head+1.coarse + modifier-1.coarse + modifier.coarse",
        "head-1.coarse + head.coarse + modifier.coarse + modifier+1.coarse",
    ),
    *_with_and_without_distance(
        "head.tag + between.tag + modifier.tag", "head.coarse + between.coarse + modifier.coarse"
    ),
    *_with_distance("head.feat + modifier.feat"),
    "head.tag + modifier.tag + head.feat + modifier.feat + direction",
    "head.tag + modifier.tag + head.feats + modifier.feats + direction",
    "head.feats + modifier.feats + direction",
]
TAGS_ONLY = [
    *_with_distance("head.tag", "modifier.tag"),
    *_with_and_without_distance("head.tag + modifier.tag"),
    "head.tag + between.tag + modifier.tag + direction",
    "head.tag + head+1.tag + modifier-1.tag + modifier.tag + direction",
    "head-1.tag + head.tag + modifier.tag + modifier+1.tag + direction",
]
LABELS = [
    f"{text} + direction"
    for text in (
        "head.tag", "modifier.tag", "head.coarse", "modifier.coarse", "head.form", "modifier.form", "head.lemma",
        "modifier.lemma", "modifier.suffix3", "modifier.prefix3", "head.tag + modifier.tag",
        "head.coarse + modifier.coarse", "head.tag + modifier.form", "head.form + modifier.tag",
        "head.coarse + modifier.lemma", "head.lemma + modifier.coarse", "head.lemma + modifier.lemma",
        "head.form + modifier.form", "head.tag + modifier.tag + distance", "head.coarse + modifier.coarse + distance",
        "modifier-1.tag + modifier.tag + modifier+1.tag", "head.tag + modifier-1.tag + modifier.tag",
        "head.tag + modifier.tag + modifier+1.tag", "head.tag + head+1.tag + modifier.tag",
        "head-1.tag + head.tag + modifier.tag", "modifier-1.form + modifier.tag", "modifier+1.form + modifier.tag",
        "head.coarse + between.coarse + modifier.coarse", "modifier.feat", "head.coarse + modifier.feat",
        "head.feats + modifier.feats",
    )
]  # fmt: skip

# After McDonald and Pereira (2006) and the families of TurboParser.
SIBLINGS = [
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
GRANDPARENTS = [
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

WORDS = [
    "word.form", "word.lower", "word.class", "word.tag", "word.suffix1", "word.suffix2", "word.suffix3",
    "word.prefix1", "word.prefix2", "word-1.form", "word+1.form", "word-1.tag + word.tag", "word.tag + word+1.tag",
    "word-1.tag + word.tag + word+1.tag", "word.tag + word.form", "word-1.class", "word+1.class",
    "word-1.form + word.form", "word.form + word+1.form",
]  # fmt: skip
# After Hall, Durrett and Klein (2014), "Less grammar, more features".
SPANS = [
    "length", "shape", "first.form", "last.form", "first-1.form", "last+1.form", "first.tag", "last.tag",
    "first-1.tag", "last+1.tag", "first.form + length", "last.form + length", "first.tag + length", "last.tag + length",
    "first.tag + last.tag", "first.tag + last.form", "first.form + last.tag", "first.form + last.form",
    "first-1.tag + first.tag", "last.tag + last+1.tag", "first-1.tag + last+1.tag",
    "first-1.tag + first.tag + last.tag + last+1.tag", "first.tag + first+1.tag", "last-1.tag + last.tag",
    "first-1.form + first.tag", "last.tag + last+1.form", "first.class", "last.class", "first-1.class", "last+1.class",
    "first.lower + length",
]  # fmt: skip
SPLITS = [
    "split.form + split+1.form", "split.tag + split+1.tag", "first.tag + split+1.tag", "split.tag + last.tag",
    "split+1.form", "split.form", "first.tag + split.tag + split+1.tag + last.tag", "split.class + split+1.class",
]  # fmt: skip
# After Bartlett et al. (2004), example 2: the rule together with the words at s, m and e and beside them.
RULES = [
    "rule + first.tag", "rule + last.tag", "rule + split.tag", "rule + split+1.tag", "rule + first-1.tag",
    "rule + last+1.tag", "rule + first.form", "rule + last.form", "rule + split.form", "rule + split+1.form",
    "rule + first-1.form", "rule + last+1.form", "rule + length", "rule + split.tag + split+1.tag",
    "rule + first.tag + last.tag",
]  # fmt: skip

SEGMENTS: dict[str, str] = {
    "length": "length",
    "default": """
        length
        all(word)
        all(short_shape(word))
        word[last]
        word[first]|word[last]
        word[last]|word[last+1]
        length|word[first]
        length|word[first-1]
        length|word[last+1]
        word[first-1]|all(short_shape(word))
        all(short_shape(word))|word[last+1]
        all(pos)?
        pos[last]?
        pos[first]|pos[last]?
        pos[last]|pos[last+1]?
        pos[first-1]|all(pos)?
        all(pos)|pos[last+1]?
        pos[first-1]|pos[last+1]|length?
    """,
}

TOKENS: dict[str, str] = {
    "chunking": """
        boundary: skip
        word[-2..2]
        word[-1]|word[0]
        word[0]|word[1]
        pos[-2..2]
        pos[-2]|pos[-1]
        pos[-1]|pos[0]
        pos[0]|pos[1]
        pos[1]|pos[2]
        pos[-2]|pos[-1]|pos[0]
        pos[-1]|pos[0]|pos[1]
        pos[0]|pos[1]|pos[2]
        begin
        end
    """,
    "ner": """
        boundary: skip
        bias
        begin
        end
        word[-2..2]
        lower(word[-1..1])
        word[-1]|word[0]
        word[0]|word[1]
        prefix(word[0], 1..4)
        suffix(word[0], 1..4)
        shape(word[0])
        short_shape(word[-2..2])
        short_shape(word[-1])|short_shape(word[0])
        short_shape(word[0])|short_shape(word[1])
        short_shape(word[-1])|short_shape(word[0])|short_shape(word[1])
        lower(word[-1])|short_shape(word[0])
        short_shape(word[0])|lower(word[1])
        has_digit(word[0])
        has_hyphen(word[0])
        is_upper(word[0])
        pos[-2..2]?
        pos[-1]|pos[0]?
        pos[0]|pos[1]?
        pos[0]|short_shape(word[0])?
    """,
    "pos": """
        boundary: skip
        bias
        begin
        end
        word[-2..2]
        lower(word[0])
        word[-1]|word[0]
        word[0]|word[1]
        prefix(word[0], 1..4)
        suffix(lower(word[0]), 1..5)
        suffix(lower(word[-1]), 2..3)
        suffix(lower(word[1]), 2..3)
        short_shape(word[0])
        is_title(word[0])
        is_upper(word[0])
        has_digit(word[0])
        has_hyphen(word[0])
        pos[-2..2]?
        pos[-1]|pos[0]?
        pos[0]|pos[1]?
        pos[-1]|pos[0]|pos[1]?
        pos[0]|suffix(lower(word[0]), 1..5)?
    """,
}
