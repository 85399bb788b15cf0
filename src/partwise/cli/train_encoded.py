"""`partwise train sequence` on a folder that `partwise encode sequence` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partwise.cli.common import DataOptions
from partwise.cli.encode import Telling
from partwise.cli.options import Files, Streaming
from partwise.cli.sequences import Sequences
from partwise.cli.training import Job
from partwise.errors import InputError
from partwise.estimators.on_disk.dataset import open_dataset
from partwise.estimators.sequence.labeler import SequenceLabeler

_USUAL = {"min_count": 1, "hash_size": None, "pairs": "observed", "template": None}


def encoded_job(
    files: Files,
    streaming: Streaming,
    given: Mapping[str, Any],
    options: DataOptions,
    template: str | None,
    quiet: bool,
) -> tuple[Job, DataOptions]:
    """The job, and how its data were read; options that the folder has settled may be left at their usual values.

    Parameters
    ----------
    given : dict
        Parameters of the labeler by the command's options.
    """
    data = open_dataset(
        files.train, state_dir=streaming.state_dir, shard_mb=streaming.shard_mb, tell=Telling(quiet)
    )
    stored = DataOptions.of(data.header, files.train)
    if options not in (DataOptions("auto"), stored):
        raise InputError("how the data are read was settled when they were encoded", files.train)
    asked = {**given, "template": template}
    for name, value in data.parameters.items():
        if asked[name] not in (value, _USUAL[name]):
            option = "--" + name.replace("_", "-")
            raise InputError(f"was encoded with {option} {value}, not {asked[name]}", files.train)
    estimator = SequenceLabeler(**{**given, **data.parameters})
    job = Job(Sequences(estimator, stored, files.model), files.train, data, None, data.n_examples)
    job.choices = data.parameters["template"] and f"template {data.parameters['template']}"
    return job, stored
