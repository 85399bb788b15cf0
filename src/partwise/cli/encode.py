"""`partwise encode`: training data to a folder that is trained on without being held in memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from partwise.cli.files import STANDARD
from partwise.cli.options import (
    Comment,
    LabelColumn,
    LabelNumber,
    Layout,
    OneObject,
    Template,
    add_command,
    column_of,
    one_of,
)
from partwise.errors import InputError
from partwise.report.output import error_console, print_json
from partwise.tasks.data_options import DataOptions

app = typer.Typer(
    help="Encode training data to a folder, for training on more than fits in memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_WAIT = 2.0  # seconds between two words on how far it is


class Telling:
    """Says on standard error what is done and how far it is, at most every two seconds."""

    def __init__(self, quiet: bool):
        self._stream = None if quiet else sys.stderr
        self._told = time.monotonic()

    def __call__(self, what: str, n: int) -> None:
        now = time.monotonic()
        if self._stream is None or now < self._told + _WAIT:
            return
        self._told = now
        with suppress(OSError):
            print(f"{what}: {n:,}", file=self._stream, flush=True)


Train = Annotated[
    str, typer.Argument(help="Training data, plain or gzipped; - is standard input.", metavar="TRAIN")
]
Output = Annotated[
    str, typer.Option("--output", "-o", help="Folder to write; it must not exist.", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while encoding.")]


def encode_sequence(
    *,
    train: Train,
    output: Output,
    template: Template = None,
    layout: Layout,
    label_column: LabelNumber = -1,
    comment: Comment = None,
    min_count: Annotated[int, typer.Option(help="Drop attributes seen less often.")] = 1,
    hash_size: Annotated[int | None, typer.Option(help="Hash attributes to this many numbers.")] = None,
    pairs: Annotated[str, typer.Option(help="Weights for observed (attribute, label) pairs, or all.")] = (
        "observed"
    ),
    json: OneObject = False,
    quiet: Quiet = False,
) -> None:
    """Encode labelled sequences for `partwise train sequence`.

    TRAIN is read once, in the formats that `partwise train sequence` reads, and never held whole: vocabulary,
    weights and a few numbers a sequence are what must fit in memory. The folder appears when it is complete.
    """
    from partwise.cli.train import preset_for, reason_for
    from partwise.features.vocabulary import check_vocabulary_settings
    from partwise.tasks.sequences.encoding import SequenceBatch, encode_sequences
    from partwise.tasks.sequences.streaming import LabelledStream

    _check_output(output)
    check_vocabulary_settings(min_count, hash_size)
    one_of("--pairs", pairs, "observed", "all")
    _check_template(template)
    stream = LabelledStream(train, DataOptions(layout.format, layout.character(), label_column, comment))

    def batches() -> Iterator[SequenceBatch]:
        for batch in stream:
            if template is not None and not batch.is_columns:
                raise InputError("--template needs columns; this file holds ready-made features", train)
            yield batch

    def choose(counts: Mapping[str, int], n_columns: int) -> str:
        return preset_for(counts, n_columns) if template is None else template

    parameters = {"min_count": min_count, "hash_size": hash_size, "pairs": pairs}
    with _naming(train):
        done = encode_sequences(batches(), output, choose, parameters, _header_of(stream), Telling(quiet))
    chosen = f"; template {done.template}" if done.template else ""
    if done.template and template is None:
        chosen += f", {reason_for(done.template)}"
    sizes = f"{done.n_examples:,} sequences, {done.n_positions:,} positions, {done.n_labels:,} labels"
    sizes += f", {done.n_attributes:,} attributes, {done.n_weights:,} weights"
    _tell_done(output, stream.options.format, done, sizes + chosen, json, quiet)


def encode_classify(
    *,
    train: Train,
    output: Output,
    layout: Layout,
    label_column: LabelColumn = "-1",
    comment: Comment = None,
    pairs: Annotated[str, typer.Option(help="Weights for observed (feature, class) pairs, or all.")] = "all",
    json: OneObject = False,
    quiet: Quiet = False,
) -> None:
    """Encode rows with classes for `partwise train classify`.

    TRAIN is read once, in the formats that `partwise train classify` reads, and never held whole: weights and a few
    numbers a row are what must fit in memory. The folder appears when it is complete.
    """
    from partwise.tasks.classes.encoding import encode_classes
    from partwise.tasks.classes.reading import classes_of
    from partwise.tasks.classes.streaming import LabelledRows

    _check_output(output)
    one_of("--pairs", pairs, "observed", "all")
    options = DataOptions(layout.format, layout.character(), column_of(label_column), comment)
    stream = LabelledRows(train, options)

    def read_labels(labels: list[Any]) -> list[Any]:
        return classes_of(stream.options.format, labels)

    with _naming(train):
        done = encode_classes(stream, output, pairs, read_labels, _header_of(stream), Telling(quiet))  # type: ignore[arg-type]
    sizes = f"{done.n_examples:,} rows, {done.n_labels:,} classes, {done.n_features:,} features, "
    sizes += f"{done.n_weights:,} weights, {done.storage}"
    _tell_done(output, stream.options.format, done, sizes, json, quiet)


def _check_output(output: str) -> None:
    """Refuse what cannot be written before hours of reading, not after."""
    from partwise.storage.folder import folder_target

    if output == STANDARD:
        raise InputError("a dataset is written to a folder, not to standard output", "--output")
    folder_target(output)


def _header_of(stream: Any) -> Callable[[], dict[str, Any]]:
    """How the data were read, known once they were, and where from."""
    return lambda: {"data": stream.options.as_dict(), "source": stream.path}


@contextmanager
def _naming(train: str) -> Iterator[None]:
    """Errors name the file where they name no other."""
    try:
        yield
    except InputError as error:
        raise error if error.path else InputError(error.message, train) from None


def _tell_done(output: str, format: str, done: Any, sizes: str, json: bool, quiet: bool) -> None:
    if json:
        print_json({"output": output, "format": format, **done._asdict()})
    console = error_console(quiet)
    if console is not None:
        words = f"{output}: read as {format}; {sizes}"
        console.print(words, markup=False, highlight=False, soft_wrap=True)


def _check_template(template: str | None) -> None:
    """Refuse what is no template before hours of reading, not after."""
    if template is not None:
        from partwise.estimators.encoders import read_template

        read_template(template)


COMMANDS: dict[str, Callable[..., None]] = {"sequence": encode_sequence, "classify": encode_classify}
for _name, _function in COMMANDS.items():
    add_command(app, _name, _function)
