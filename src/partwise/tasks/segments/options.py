"""What `partwise train segments` offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partwise.errors import InputError
from partwise.tasks.options import cost_file, option
from partwise.tasks.sequences.options import SequenceFileOptions


@dataclass
class SegmentOptions(SequenceFileOptions):
    """Train a labeler of segments: chunks and names as wholes, without labels of single words.

    TRAIN is read as by "train sequence". Its labels are those of a chunk scheme (O, B-NP, I-NP ...), from which the
    segments are taken. --template chooses the features of positions. The memory that training needs is printed before
    training starts. Ctrl-C saves the model trained so far.
    """

    cost_file: str | None = cost_file()
    max_length: str = option("auto", "Most positions of a segment; auto covers 99.9 % of those in TRAIN.")
    segment_template: str = option(
        "auto", "Features of segments: default, length, or a file; auto fits the data."
    )

    def parameters(self) -> dict[str, Any]:
        length: Any = self.max_length
        if length != "auto":
            if not length.isdecimal() or int(length) < 1:
                raise InputError(f"--max-length must be auto or a number of positions, not {length!r:.40}")
            length = int(length)
        return super().parameters() | {"max_length": length}

    def files(self) -> dict[str, str | None]:
        from partwise.features.segments import PRESETS

        is_file = self.segment_template not in ("auto", *PRESETS)
        return {**super().files(), "--segment-template": self.segment_template if is_file else None}
