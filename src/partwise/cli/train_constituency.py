"""`partwise train constituency`: a treebank in, a parser with its certificate out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from partwise.cli.options import Files, Format, Objective, Running, one_of
from partwise.errors import InputError
from partwise.tasks.data_options import DataOptions


@dataclass
class ConstituentOptions:
    """Which trees a parser builds, from which features."""

    direction: Annotated[
        str, typer.Option(help="How trees become binary: right, left, or head (outward from it).")
    ] = "right"
    horizontal: Annotated[
        str, typer.Option(help="Siblings that symbols of binary trees remember: a number, or all.")
    ] = "0"
    vertical: Annotated[int, typer.Option(min=1, help="2: symbols say the label above, too.")] = 1
    word_templates: Annotated[
        str, typer.Option(help="Features of words: default, or a file with one template a line.")
    ] = "default"
    span_templates: Annotated[
        str, typer.Option(help="Features of spans: default, or a file with one template a line.")
    ] = "default"
    split_templates: Annotated[
        str, typer.Option(help="Features of splits: none, default, or a file with one template a line.")
    ] = "none"
    functions: Annotated[
        bool, typer.Option("--functions/--no-functions", help="Learn function tags (NP-SBJ).")
    ] = False
    tags: Annotated[
        bool, typer.Option("--tags/--no-tags", help="Whether tags are part of the input, or of the parse.")
    ] = True
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Train on sentences up to this many words.")
    ] = None
    cost: Annotated[str, typer.Option(help="What costs in losses with a margin: constituents or rules.")] = (
        "constituents"
    )
    min_count: Annotated[int, typer.Option(help="Drop features seen less often in true trees.")] = 1

    def parameters(self) -> dict[str, Any]:
        """Of a `ConstituencyParser`."""
        return {
            "direction": one_of("--direction", self.direction, "right", "left", "head"),
            "horizontal": _siblings(self.horizontal),
            "vertical": self.vertical,
            "word_templates": _templates(self.word_templates),
            "span_templates": _templates(self.span_templates),
            "split_templates": None if self.split_templates == "none" else _templates(self.split_templates),
            "functions": self.functions,
            "cost": one_of("--cost", self.cost, "constituents", "rules"),
            "min_count": self.min_count,
        }

    def files(self) -> dict[str, str | None]:
        """Those that the options name."""
        named = {
            "--word-templates": self.word_templates,
            "--span-templates": self.span_templates,
            "--split-templates": self.split_templates,
        }
        return {option: path for option, path in named.items() if path not in ("default", "none")}


def train_constituency(
    *,
    files: Files,
    objective: Objective,
    trees: ConstituentOptions,
    format: Format = "auto",
    running: Running,
) -> None:
    """Train a constituency parser on a treebank in Penn brackets or export format.

    Trees are those of a grammar read off TRAIN; rules, words and spans have weights. How much memory training will
    take is told before it begins. Ctrl-C saves the model trained so far.
    """
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.data.treebank import read_trees, without_traces
    from partwise.tasks.constituents.commands import Constituents
    from partwise.tasks.constituents.data import as_sentences
    from partwise.tasks.constituents.parser import ConstituencyParser

    check_model_path(files.model, {"TRAIN": files.train, "--dev": files.dev} | trees.files())
    bank = read_trees(files.train, format).mapped(without_traces)
    if trees.max_length is not None:
        bank = bank.only([len(tree.words()) <= trees.max_length for tree in bank.trees])
        if not bank.trees:
            raise InputError(f"no sentence of at most {trees.max_length} words in this file", files.train)
    parser = ConstituencyParser(**objective.parameters(), **running.parameters(), **trees.parameters())
    task = Constituents(parser, DataOptions(bank.format), files.model)
    need = None if trees.tags else False
    job = Job(task, files.train, as_sentences(bank.trees, need), bank, len(bank.trees))
    if files.dev is not None:
        dev = read_trees(files.dev, format)
        job.dev = (as_sentences(dev.trees, need), dev)
    run_training(job, objective, running)


def _siblings(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        raise InputError(f"--horizontal must be a number or all, not {text!r:.40}")
    return int(text)


def _templates(text: str) -> Any:
    """The name of a set, or the lines of a file."""
    from partwise.data import read_text

    if text == "default":
        return text
    lines = [line.strip() for line in read_text(text).splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise InputError("this file has no templates", text)
    return found
