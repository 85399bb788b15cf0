"""`partwise train segments`: labelled sequences in, a labeler of segments with its certificate out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from partwise.cli.options import Comment, Files, LabelNumber, Layout, Objective, Running, one_of
from partwise.errors import InputError
from partwise.tasks.data_options import DataOptions


@dataclass
class SegmentOptions:
    """Which segments there are, and what features they have."""

    max_length: Annotated[
        str, typer.Option(help="Most positions of a segment; auto covers 99.9 % of those in TRAIN.")
    ] = "auto"
    segment_template: Annotated[
        str, typer.Option(help="Features of segments: default, length, or a file; auto fits the data.")
    ] = "auto"
    min_count: Annotated[int, typer.Option(help="Drop features seen less often.")] = 1
    pairs: Annotated[str, typer.Option(help="Weights for observed (feature, label) pairs, or all.")] = (
        "observed"
    )

    def parameters(self) -> dict[str, Any]:
        """Of a `SegmentLabeler`."""
        one_of("--pairs", self.pairs, "observed", "all")
        length: Any = self.max_length
        if length != "auto":
            if not length.isdecimal() or int(length) < 1:
                raise InputError(f"--max-length must be auto or a number of positions, not {length!r:.40}")
            length = int(length)
        return vars(self) | {"max_length": length}


def train_segments(
    *,
    files: Files,
    objective: Objective,
    template: Annotated[
        str | None, typer.Option(help="Features of positions: chunking, ner, pos, or a file.")
    ] = None,
    layout: Layout,
    label_column: LabelNumber = -1,
    comment: Comment = None,
    segments: SegmentOptions,
    running: Running,
) -> None:
    """Train a labeler of segments: chunks and names as wholes, without labels of single words.

    TRAIN is read as by "train sequence"; its labels are those of a chunk scheme (O, B-NP, I-NP ...), from which the
    segments are taken. What memory training needs is told before it starts. Ctrl-C saves the model trained so far.
    """
    from partwise.cli.train import reason_for, sequence_data
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.features.segment_templates import PRESETS as SEGMENT_PRESETS
    from partwise.features.templates import PRESETS
    from partwise.tasks.segments.commands import Segments
    from partwise.tasks.segments.labeler import SegmentLabeler

    own = None if template in PRESETS else template
    own_segments = (
        None if segments.segment_template in ("auto", *SEGMENT_PRESETS) else segments.segment_template
    )
    inputs = {"TRAIN": files.train, "--dev": files.dev, "--template": own, "--segment-template": own_segments}
    check_model_path(files.model, inputs)
    options = DataOptions(layout.format, layout.character(), label_column, comment)
    data, chosen = sequence_data(files.train, options, template)
    if not data.has_labels:
        raise InputError("no labels in this file; training needs them", files.train)
    estimator = SegmentLabeler(
        **objective.parameters(), **running.parameters(), **segments.parameters(), template=chosen
    )
    task = Segments(estimator, data.options, files.model)
    job = Job(task, files.train, data.x, data.y, data.n_sequences, data.weights)
    job.choices = chosen and f"template {chosen}" + ("" if template else f", {reason_for(chosen)}")
    if files.dev is not None:
        dev_data, _ = sequence_data(files.dev, data.options, template)
        if not dev_data.has_labels:
            raise InputError("no labels in this file; --dev needs them", files.dev)
        job.dev = (dev_data.x, dev_data.label_sequences())
    run_training(job, objective, running)
