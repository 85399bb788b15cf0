"""`partwise encode`: training data to a folder that is trained on without being held in memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated

import typer

from partwise.cli.common import DataOptions, error_console, print_json
from partwise.cli.options import Comment, Layout, OneObject, add_command, one_of
from partwise.cli.paths import STANDARD
from partwise.errors import InputError

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


def encode_sequence(
    *,
    train: Annotated[
        str, typer.Argument(help="Training data, plain or gzipped; - is standard input.", metavar="TRAIN")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Folder to write; it must not exist.", show_default=False)
    ],
    template: Annotated[
        str | None, typer.Option(help="chunking, ner, pos, or a file in partwise's or CRF++'s syntax.")
    ] = None,
    layout: Layout,
    label_column: Annotated[int, typer.Option(help="Column of the label; negative from the right.")] = -1,
    comment: Comment = None,
    min_count: Annotated[int, typer.Option(help="Drop attributes seen less often.")] = 1,
    hash_size: Annotated[int | None, typer.Option(help="Hash attributes to this many numbers.")] = None,
    pairs: Annotated[str, typer.Option(help="Weights for observed (attribute, label) pairs, or all.")] = (
        "observed"
    ),
    json: OneObject = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while encoding.")] = False,
) -> None:
    """Encode labelled sequences for `partwise train sequence`.

    TRAIN is read once, in the formats that `partwise train sequence` reads, and never held whole: vocabulary,
    weights and a few numbers a sequence are what must fit in memory. The folder appears when it is complete.
    """
    from partwise.cli.sequence_stream import LabelledStream
    from partwise.cli.train import preset_for, reason_for
    from partwise.estimators.sequence.encoding import SequenceBatch, encode_sequences
    from partwise.features.vocabulary import check_vocabulary_settings
    from partwise.storage.folder import folder_target

    if output == STANDARD:
        raise InputError("a dataset is written to a folder, not to standard output", "--output")
    folder_target(output)
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
    header = lambda: {"data": stream.options.as_dict(), "source": train}  # noqa: E731
    try:
        done = encode_sequences(batches(), output, choose, parameters, header, Telling(quiet))
    except InputError as error:
        raise error if error.path else InputError(error.message, train) from None
    if json:
        print_json({"output": output, "format": stream.options.format, **done._asdict()})
    console = error_console(quiet)
    if console is not None:
        chosen = f"; template {done.template}" if done.template else ""
        if done.template and template is None:
            chosen += f", {reason_for(done.template)}"
        sizes = f"{done.n_examples:,} sequences, {done.n_positions:,} positions, {done.n_labels:,} labels"
        sizes += f", {done.n_attributes:,} attributes, {done.n_weights:,} weights"
        console.print(
            f"{output}: read as {stream.options.format}; {sizes}{chosen}",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip


def _check_template(template: str | None) -> None:
    """Refuse what is no template before hours of reading, not after."""
    if template is not None:
        from partwise.estimators.encoders import read_template

        read_template(template)


COMMANDS = {"sequence": encode_sequence}
for _name, _function in COMMANDS.items():
    add_command(app, _name, _function)
