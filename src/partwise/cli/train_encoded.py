"""`partwise train` on a folder that `partwise encode` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partwise.cli.encode import Telling
from partwise.cli.options import Files, Streaming
from partwise.cli.training import Job
from partwise.errors import InputError
from partwise.estimators.on_disk.dataset import EncodedDataset, open_dataset
from partwise.tasks.classes.classifier import Classifier
from partwise.tasks.classes.commands import ClassifiedRows
from partwise.tasks.data_options import DataOptions
from partwise.tasks.sequences.commands import Sequences
from partwise.tasks.sequences.labeler import SequenceLabeler
from partwise.tasks.task import Task

_USUAL = {"min_count": 1, "hash_size": None, "pairs": "observed", "template": None}


def encoded_sequences(
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
    data, stored = _opened("sequence", files, streaming, options, quiet)
    asked = {**given, "template": template}
    for name, value in data.parameters.items():
        if asked[name] not in (value, _USUAL[name]):
            option = "--" + name.replace("_", "-")
            raise InputError(f"was encoded with {option} {value}, not {asked[name]}", files.train)
    estimator = SequenceLabeler(**{**given, **data.parameters})
    job = _job(Sequences(estimator, stored, files.model), files, data)
    job.choices = data.parameters["template"] and f"template {data.parameters['template']}"
    return job, stored


def encoded_classes(
    files: Files, streaming: Streaming, given: Mapping[str, Any], options: DataOptions, quiet: bool
) -> tuple[Job, DataOptions]:
    """The same of rows with classes."""
    data, stored = _opened("classify", files, streaming, options, quiet)
    estimator = Classifier(**{**given, **data.parameters})
    return _job(ClassifiedRows(estimator, stored, files.model), files, data), stored


def _opened(
    task: str, files: Files, streaming: Streaming, options: DataOptions, quiet: bool
) -> tuple[EncodedDataset, DataOptions]:
    """The dataset, and how its data were read."""
    data = open_dataset(
        files.train, state_dir=streaming.state_dir, shard_mb=streaming.shard_mb, tell=Telling(quiet)
    )
    if data.task != task:
        command = f"use `partwise train {data.task}`"
        raise InputError(f"was written by `partwise encode {data.task}`: {command}", files.train)
    stored = DataOptions.of(data.header, files.train)
    if options not in (DataOptions("auto"), stored):
        raise InputError("how the data are read was settled when they were encoded", files.train)
    return data, stored


def _job(task: Task, files: Files, data: EncodedDataset) -> Job:
    return Job(task, files.train, data, None, data.n_examples)
