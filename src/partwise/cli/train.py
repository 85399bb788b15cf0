"""`partwise train`: data in, a model file with its certificate out."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from partwise.cli.options import (
    Comment,
    Files,
    LabelColumn,
    LabelNumber,
    Layout,
    Objective,
    Running,
    Streaming,
    Template,
    add_command,
    column_of,
    one_of,
)
from partwise.cli.train_constituency import train_constituency
from partwise.cli.train_dependency import train_dependency
from partwise.cli.train_graph import train_graph
from partwise.cli.train_segments import train_segments
from partwise.errors import InputError
from partwise.tasks.data_options import DataOptions

# Names of phrases: NP, ADJP, WHNP …, in other treebanks NX, VC …; not CORP or GRP, which are names of entities.
_PHRASE = re.compile(
    r"(N|V|P|A|D|Q|ADJ|ADV|AV|WHN|WHP|WHADJ|WHADV|CONJ|CC|UC|JJ|RB|NEG|LC|CL|DN|DV|FRAG)[PXC]"
    r"|SBAR|PRT|INTJ|LST|S[NPAV]|SADV|GV|VGF|VGNF|VGNN|BLK"
)
_ENTITIES = {"PER", "PERS", "PERSON", "LOC", "LOCATION", "ORG", "ORGANIZATION", "ORGANISATION", "GPE", "MISC"}

app = typer.Typer(
    help="Train a model and save it with its certificate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@dataclass
class ChainOptions:
    """What labels and weights a labeler has."""

    scheme: Annotated[str | None, typer.Option(help="Labels must obey IOB2, IOBES, BILOU or IOB1.")] = None
    min_count: Annotated[int, typer.Option(help="Drop attributes seen less often.")] = 1
    hash_size: Annotated[int | None, typer.Option(help="Hash attributes to this many numbers.")] = None
    pairs: Annotated[str, typer.Option(help="Weights for observed (attribute, label) pairs, or all.")] = (
        "observed"
    )
    order: Annotated[int, typer.Option(help="How many labels back transitions look.")] = 1

    def parameters(self) -> dict[str, Any]:
        """Of a `SequenceLabeler`."""
        one_of("--pairs", self.pairs, "observed", "all")
        return vars(self)


def train_sequence(
    *,
    files: Files,
    objective: Objective,
    template: Template = None,
    layout: Layout,
    label_column: LabelNumber = -1,
    comment: Comment = None,
    chain: ChainOptions,
    streaming: Streaming,
    running: Running,
) -> None:
    """Train a sequence labeler: chunks, names, parts of speech.

    TRAIN holds columns (CoNLL), word/TAG text, JSON lines or CRFsuite attributes. Columns become features
    through a template, by default the one that fits the labels: chunking where they mark phrases (B-NP, I-VP …)
    and there is a second column, ner where they mark names or other chunks, else pos. What was chosen is printed.
    Ctrl-C saves the model trained so far.

    TRAIN may also be a folder that `partwise encode sequence` wrote: it is trained on from the disk, with the template,
    --min-count, --hash-size and --pairs that it was encoded with.
    """
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.features.templates import PRESETS
    from partwise.tasks.sequences.commands import Sequences
    from partwise.tasks.sequences.labeler import SequenceLabeler

    own_template = None if template in PRESETS else template
    check_model_path(files.model, {"TRAIN": files.train, "--dev": files.dev, "--template": own_template})
    options = DataOptions(layout.format, layout.character(), label_column, comment)
    given = {**objective.parameters(), **running.parameters(), **chain.parameters()}
    if os.path.isdir(files.train):
        from partwise.cli.train_encoded import encoded_sequences

        job, options = encoded_sequences(files, streaming, given, options, template, running.quiet)
    else:
        streaming.check_unused()
        data, chosen = sequence_data(files.train, options, template)
        if not data.has_labels:
            raise InputError("no labels in this file; training needs them", files.train)
        task = Sequences(SequenceLabeler(**given, template=chosen), data.options, files.model)
        job = Job(task, files.train, data.x, data.y, data.n_sequences, data.weights)
        job.choices = chosen and f"template {chosen}" + ("" if template else f", {reason_for(chosen)}")
        options = data.options
    if files.dev is not None:
        dev_data, _ = sequence_data(files.dev, options, template)
        if not dev_data.has_labels:
            raise InputError("no labels in this file; --dev needs them", files.dev)
        job.dev = (dev_data.x, dev_data.label_sequences())
    run_training(job, objective, running)


def train_classify(
    *,
    files: Files,
    objective: Objective,
    layout: Layout,
    label_column: LabelColumn = "-1",
    comment: Comment = None,
    streaming: Streaming,
    running: Running,
) -> None:
    """Train a classifier on a libsvm file, a table (CSV, TSV) with a column of classes, or an npz file.

    TRAIN may also be a folder that `partwise encode classify` wrote: it is trained on from the disk, with the --pairs
    that it was encoded with.
    """
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.tasks.classes.classifier import Classifier
    from partwise.tasks.classes.commands import ClassifiedRows
    from partwise.tasks.classes.reading import read_classes

    check_model_path(files.model, {"TRAIN": files.train, "--dev": files.dev})
    options = DataOptions(layout.format, layout.character(), column_of(label_column), comment)
    given = {**objective.parameters(), **running.parameters()}
    if os.path.isdir(files.train):
        from partwise.cli.train_encoded import encoded_classes

        job, options = encoded_classes(files, streaming, given, options, running.quiet)
    else:
        streaming.check_unused()
        data = read_classes(files.train, options)
        options = data.options
        task = ClassifiedRows(Classifier(**given), options, files.model)
        job = Job(task, files.train, data.x, data.y, data.x.shape[0])
    if files.dev is not None:
        dev_data = read_classes(files.dev, options)
        job.dev = (dev_data.x, dev_data.y)
    run_training(job, objective, running)


def sequence_data(path: str, options: DataOptions, template: str | None) -> tuple[Any, str | None]:
    """The data, and the template if features are to be made by one."""
    from partwise.tasks.sequences.reading import read_sequences

    data = read_sequences(path, options)
    if not data.is_columns:
        if template is not None:
            raise InputError("--template needs columns; this file holds ready-made features", path)
        return data, None
    if template is None:
        template = preset_for(data.labels(), data.options.n_columns)
    return data, template


def preset_for(labels: Any, n_columns: int) -> str:
    """The template for these labels (None where there is none), or for how often each occurs, and so many columns
    beside them."""
    from partwise.scoring.labelling import looks_like_chunks

    counts = Counter(labels if isinstance(labels, Mapping) else (each for each in labels if each is not None))
    if looks_like_chunks(list(counts)):
        return "chunking" if n_columns > 1 and _are_phrases(counts) else "ner"
    return "ner" if _are_entities(counts) else "pos"


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


def reason_for(preset: str) -> str:
    return {
        "ner": "since labels mark names, or phrases of words without tags",
        "chunking": "since labels mark phrases and there is a second column",
        "pos": "since labels mark neither names nor phrases",
    }[preset] + " (--template chooses another)"


COMMANDS: dict[str, Callable[..., None]] = {
    "sequence": train_sequence,
    "segments": train_segments,
    "classify": train_classify,
    "dependency": train_dependency,
    "graph": train_graph,
    "constituency": train_constituency,
}
for _name, _function in COMMANDS.items():
    add_command(app, _name, _function)
