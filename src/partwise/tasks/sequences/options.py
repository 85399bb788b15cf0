"""What `partwise train sequence` and `partwise encode sequence` offer, and the template that fits the labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partwise.tasks.options import ColumnOptions, cost_file, option

# Names of phrases: NP, ADJP, WHNP …, in other treebanks NX, VC …; not CORP or GRP, which are names of entities.
_PHRASE = re.compile(
    r"(N|V|P|A|D|Q|ADJ|ADV|AV|WHN|WHP|WHADJ|WHADV|CONJ|CC|UC|JJ|RB|NEG|LC|CL|DN|DV|FRAG)[PXC]"
    r"|SBAR|PRT|INTJ|LST|S[NPAV]|SADV|GV|VGF|VGNF|VGNN|BLK"
)
_ENTITIES = {"PER", "PERS", "PERSON", "LOC", "LOCATION", "ORG", "ORGANIZATION", "ORGANISATION", "GPE", "MISC"}


@dataclass
class SequenceFileOptions(ColumnOptions):
    """How labelled sequences are read, and turned into features."""

    label_column: int = option(-1, "Column of the label; negative from the right.", reading=True)
    template: str | None = option(
        None, "chunking, ner, pos, or a file in partwise's or CRF++'s syntax.", reading=True
    )
    min_count: int = option(1, "Drop attributes seen less often.")
    pairs: str = option(
        "observed", "Weights for observed (attribute, label) pairs, or all.", choices=("observed", "all")
    )

    def files(self) -> dict[str, str | None]:
        from partwise.features.templates import PRESETS

        return {"--template": None if self.template in PRESETS else self.template}


@dataclass
class EncodeOptions(SequenceFileOptions):
    """Encode labelled sequences for `partwise train sequence`.

    TRAIN is read once, in the formats that `partwise train sequence` reads, and never held whole: vocabulary,
    weights and a few numbers a sequence are what must fit in memory. The folder appears when it is complete.
    """

    hash_size: int | None = option(None, "Hash attributes to this many numbers.")


@dataclass
class SequenceOptions(EncodeOptions):
    """Train a sequence labeler: chunks, names, parts of speech.

    TRAIN holds columns (CoNLL), word/TAG text, JSON lines or CRFsuite attributes. A template turns columns into
    features. By default, the template is chosen by the labels and printed: chunking if labels mark phrases (B-NP,
    I-VP …) and there is a second column; ner if labels mark names or other chunks; pos otherwise. Ctrl-C saves the
    model trained so far.

    TRAIN may also be a folder that `partwise encode sequence` wrote. Training then reads from the disk, with the
    template, --min-count, --hash-size and --pairs of `partwise encode sequence`.
    """

    cost_file: str | None = cost_file()
    scheme: str | None = option(None, "Labels must obey IOB2, IOBES, BILOU or IOB1.")
    order: int = option(1, "How many labels back transitions look.")
    alternatives: str | None = option(
        None, "Text between possible labels in TRAIN: with |, the label A|B is A or B.", reading=True
    )


def preset_for(labels: Any, n_columns: int) -> str:
    """The template for these labels.

    Parameters
    ----------
    labels : iterable of str or None, or dict of str to int
        All labels one after another (None: unknown), or how often each label occurs.
    n_columns : int
        The number of columns besides the label.
    """
    from partwise.scoring.labelling import looks_like_chunks

    counts = Counter(labels if isinstance(labels, Mapping) else (each for each in labels if each is not None))
    if looks_like_chunks(list(counts)):
        return "chunking" if n_columns > 1 and _are_phrases(counts) else "ner"
    return "ner" if _are_entities(counts) else "pos"


def template_note(template: str, is_chosen: bool) -> str:
    """The template, and why it was chosen."""
    if not is_chosen:
        return f"template {template}"
    reason = {
        "ner": "since labels mark names, or phrases of words without tags",
        "chunking": "since labels mark phrases and there is a second column",
        "pos": "since labels mark neither names nor phrases",
    }[template]
    return f"template {template}, {reason} (--template chooses another)"


def _are_phrases(counts: Counter[str]) -> bool:
    """Whether most tokens in chunks are in phrases, by the names of the chunks' types."""
    inside = {label: n for label, n in counts.items() if label != "O"}
    phrases = sum(n for label, n in inside.items() if _PHRASE.fullmatch(label.partition("-")[2].upper()))
    return 2 * phrases > sum(inside.values())


def _are_entities(counts: Counter[str]) -> bool:
    """Whether labels without B- and I- are types of names: "O" is the most frequent, or types have usual names.

    Sets of parts of speech may have an "O" too, as one tag among many.
    """
    others = {label: n for label, n in counts.items() if label != "O"}
    if "O" not in counts or not others:
        return False
    return counts["O"] >= max(others.values()) or any(str(label).upper() in _ENTITIES for label in others)
