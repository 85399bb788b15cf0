"""`partwise train NAME`: data in, a model file with its certificate out. Each task of the registry is a NAME."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from partwise.cli.options import Files, Objective, Running, Streaming, task_app
from partwise.errors import InputError


def train_command(name: str) -> Callable[..., None]:
    """The command that trains a model of the task called `name`."""
    from partwise.tasks import encode_options, train_options

    offered = train_options(name)

    def with_folders(
        *, files: Files, objective: Objective, options: Any, streaming: Streaming, running: Running
    ) -> None:
        _train(name, files, objective, options, streaming, running)

    def without(*, files: Files, objective: Objective, options: Any, running: Running) -> None:
        _train(name, files, objective, options, Streaming(), running)

    command = without if encode_options(name) is None else with_folders
    command.__annotations__["options"] = offered
    command.__doc__ = offered.__doc__
    return command


app = task_app("Train a model and save it with its certificate.", train_command)


def _train(
    name: str, files: Files, objective: Objective, options: Any, streaming: Streaming, running: Running
) -> None:
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.tasks import encode_options, task_class, trained_class

    task = task_class(name)
    options.check()
    named = {"--cost-file": getattr(options, "cost_file", None), **options.files()}
    check_model_path(files.model, {"TRAIN": files.train, "--dev": files.dev, **named})
    task.check_format(options.data().format)
    parameters = {**objective.parameters(), **running.parameters(), **options.parameters()}
    if encode_options(name) is not None and os.path.isdir(files.train):
        data = _encoded(task, files.train, options, streaming, running.quiet)
    else:
        streaming.check_unused()
        data = task.training_data(files.train, options)
        if not running.example:
            data.facts.pop("example", None)
    estimator = trained_class(name)(**parameters | data.parameters)
    job = Job(task(estimator, data.options, files.model), files.train, data, verbose=running.verbose)
    if files.dev is not None:
        job.dev, job.dev_source = task.dev_data(files.dev, options, data), files.dev
    run_training(job, objective, running)


def _encoded(task: Any, path: str, options: Any, streaming: Streaming, quiet: bool) -> Any:
    """A folder that `partwise encode` wrote. Options that it settled may be left at their defaults."""
    from partwise.cli.encode import Telling
    from partwise.estimators.on_disk.dataset import open_dataset
    from partwise.tasks.options import DataOptions
    from partwise.tasks.task import LabelledData

    data = open_dataset(path, state_dir=streaming.state_dir, shard_mb=streaming.shard_mb, tell=Telling(quiet))
    if data.task != task.command:
        command = f"use `partwise train {data.task}`"
        raise InputError(f"was written by `partwise encode {data.task}`: {command}", path)
    stored = DataOptions.of(data.header, path)
    if options.data() not in (DataOptions("auto"), stored):
        raise InputError("how the data are read was settled when they were encoded", path)
    for each in fields(options):
        asked = getattr(options, each.name)
        if each.name in data.parameters and asked not in (data.parameters[each.name], each.default):
            option = "--" + each.name.replace("_", "-")
            raise InputError(f"was encoded with {option} {data.parameters[each.name]}, not {asked}", path)
        if each.name == "alternatives" and asked is not None:
            raise InputError("--alternatives is for files: this folder has one label at every position", path)
    template = data.parameters.get("template")
    note = f"template {template}" if template else None
    return LabelledData(data, None, data.n_examples, stored, parameters=data.parameters, note=note)
