"""Options that commands share. Options that belong together are fields of a dataclass."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from partwise.errors import InputError
from partwise.solvers.registry import SOLVERS

ModelFile = Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")]
OneObject = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Top = Annotated[int, typer.Option(min=0, help="How many of the largest weights to show.")]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
OtherFormat = Annotated[
    str | None,
    typer.Option(
        help="Format of the data, if it is not that of the training data; see `partwise train NAME -h`."
    ),
]

# Help shows options in these groups. Options of a task that are not named here are in Data if they say how files are
# read, else in Model.
_PANELS = {
    "Data": ("dev",),
    "Model": ("template",),
    "Objective": ("loss", "beta", "gamma", "l2", "l1"),
    "Path": ("l2_from", "l2_to", "l2_ratio", "l2_values", "folds", "patience", "path", "plot", "keep_all"),
    "Stopping": ("solver", "tol", "max_passes", "time_limit"),
    "Running": ("jobs", "seed", "memory_limit", "state_dir", "shard_mb"),
    "Output": ("model", "example", "json", "quiet", "verbose"),
    "Distributed": ("engine", "shards", "address", "checkpoint", "resume"),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}

# Endings of training files, by the task that they are most often for. Any other file is taken for sequences.
_USUAL_ENDINGS = {
    "dependency": (".conllu", ".conllx", ".dp"),
    "constituency": (".mrg", ".ptb", ".export"),
    "classify": (".svm", ".libsvm", ".svmlight", ".csv", ".tsv", ".npz"),
}


@dataclass
class Files:
    """The files of a training command."""

    train: Annotated[
        str, typer.Argument(help="Training data, plain or gzipped; - is standard input.", metavar="TRAIN")
    ]
    model: Annotated[
        str, typer.Option("--model", "-m", help="File to save the model to.", show_default=False)
    ]
    dev: Annotated[
        str | None, typer.Option("--dev", help="Labelled data to score, and to choose among several --l2 by.")
    ] = None


@dataclass
class Objective:
    """The objective, the solver and its tolerance."""

    loss: Annotated[
        str, typer.Option("--loss", help="log (CRF), hinge (max-margin), softmax_margin or perceptron.")
    ] = "log"
    beta: Annotated[
        float | None, typer.Option("--beta", help="Sharpness of the loss instead of --loss; inf is allowed.")
    ] = None
    gamma: Annotated[
        float | None, typer.Option("--gamma", help="How much costs widen the margin, with --beta.")
    ] = None
    l2: Annotated[
        str,
        typer.Option(
            "--l2",
            help="Strength of the regulariser (l2/2)|w|²; twice CRFsuite's c2. Several, as 0.1,0.3,1: the best on "
            "--dev is kept. cv: chosen by cross-validation.",
        ),
    ] = "1"
    l1: Annotated[
        float,
        typer.Option("--l1", help="Strength of an l1 term, which makes most weights zero; CRFsuite's c1."),
    ] = 0.0
    solver: Annotated[str, typer.Option("--solver", help=f"auto, or one of {', '.join(SOLVERS)}.")] = "auto"
    tol: Annotated[float, typer.Option("--tol", help="Relative duality gap to stop at.")] = 1e-3
    max_passes: Annotated[float, typer.Option("--max-passes", help="Most passes over the data.")] = 200

    def parameters(self) -> dict[str, Any]:
        """Of an estimator."""
        return {
            "loss": self._loss(),
            "l2": self.strength(),
            "l1": self.l1,
            "solver": self.solver,
            "tol": self.tol,
            "max_passes": self.max_passes,
        }

    def values(self) -> list[float]:
        """The values of --l2."""
        try:
            return [float(each) for each in self.l2.split(",")]
        except ValueError:
            raise InputError(
                f"--l2 must be a number, several with commas, or cv, not {self.l2!r:.40}"
            ) from None

    def strength(self) -> float | str:
        """`l2` of an estimator: of several values the first."""
        return self.l2 if self.l2 == "cv" else self.values()[0]

    def _loss(self) -> Any:
        """The loss of --loss, or of --beta and --gamma."""
        from partwise.core.losses import Loss

        if self.beta is None and self.gamma is None:
            return self.loss
        if self.beta is None:
            raise InputError("--gamma needs --beta: the loss is then Loss(beta, gamma)")
        if math.isnan(self.beta):
            raise InputError("--beta must be a number > 0, or inf")
        return Loss(self.beta, 0.0 if self.gamma is None else self.gamma)


@dataclass
class Running:
    """Threads, limits, output and engine of a training command."""

    jobs: Annotated[int, typer.Option("--jobs", help="Threads; -1 for all processors.")] = 1
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything random.")] = 0
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds after which to stop.")] = (
        None
    )
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit", help="Memory that training may take, as 1.5GB; slower solvers take less."
        ),
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output at the end.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while training.")] = False
    example: Annotated[
        bool,
        typer.Option(
            "--example/--no-example",
            help="Keep a training sentence in the model file, which pages start with.",
        ),
    ] = True
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show how much memory training takes.")
    ] = False
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="Train on shards of the data: processes (of this machine) or ray."),
    ] = None
    shards: Annotated[int | None, typer.Option("--shards", help="How many, with --engine.")] = None
    address: Annotated[
        str | None, typer.Option("--address", help="Of a Ray cluster, with --engine ray; auto finds one.")
    ] = None
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="Folder to keep the run in, with --engine.")
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --checkpoint.")] = False

    def parameters(self) -> dict[str, Any]:
        """Of an estimator."""
        return {
            "n_jobs": self.jobs,
            "random_state": self.seed,
            "time_limit": self.time_limit,
            "memory_limit": self.memory_limit,
            "engine": self._engine(),
        }

    def _engine(self) -> Any:
        """The engine of --engine and the options that need it."""
        if self.engine is None:
            for name in ("shards", "address", "checkpoint"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name} needs --engine, processes or ray")
            self._check_resume()
            return None
        from partwise.distributed import ProcessEngine, RayEngine

        one_of("--engine", self.engine, "processes", "ray")
        if self.address is not None and self.engine != "ray":
            raise InputError("--address needs --engine ray")
        self._check_resume()
        settings: dict[str, Any] = {"n_shards": self.shards, "checkpoint": self.checkpoint}
        settings["resume"] = self.resume and self.checkpoint is not None
        return (
            ProcessEngine(**settings)
            if self.engine == "processes"
            else RayEngine(**settings, address=self.address)
        )

    def _check_resume(self) -> None:
        if self.resume and self.checkpoint is None:
            raise InputError("--resume needs --checkpoint, the folder of the run to go on with")


@dataclass
class Streaming:
    """Options for folders that `partwise encode` wrote."""

    state_dir: Annotated[
        str | None,
        typer.Option(
            "--state-dir", help="For a folder: where to keep the dual state on disk, not in memory."
        ),
    ] = None
    shard_mb: Annotated[
        float | None,
        typer.Option("--shard-mb", help="For a folder: megabytes to hold in memory at a time."),
    ] = None

    def check_unused(self) -> None:
        """Raise if an option is set although there is no such folder."""
        if self.state_dir is not None or self.shard_mb is not None:
            raise InputError("--state-dir and --shard-mb are for folders that `partwise encode` wrote")


@dataclass
class RunningPath(Running):
    """Options of `partwise path`."""

    l2_from: Annotated[float, typer.Option("--l2-from", help="Largest l2, unless --l2 lists values.")] = 100.0
    l2_to: Annotated[float, typer.Option("--l2-to", help="Smallest l2.")] = 0.1
    l2_ratio: Annotated[float, typer.Option("--l2-ratio", help="Between neighbours, below 1.")] = 0.7
    l2_values: Annotated[
        int | None, typer.Option("--l2-values", help="How many values, instead of --l2-ratio.")
    ] = None
    folds: Annotated[
        int | None,
        typer.Option("--folds", help="Score by cross-validation with so many folds, without --dev."),
    ] = None
    patience: Annotated[
        int,
        typer.Option("--patience", help="Stop when so many values in a row score clearly below the best."),
    ] = 3
    path: Annotated[
        str | None, typer.Option("--path", help="File that keeps all points, and what it takes to go on.")
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the path in --path.")] = False
    plot: Annotated[str | None, typer.Option("--plot", help="PNG file to draw the path to.")] = None
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="Save a model for every value, beside --model.")
    ] = False

    def _check_resume(self) -> None:
        """It is the path's."""
        if self.checkpoint is not None:
            raise InputError("--checkpoint keeps a run at one value of l2: a path is kept with --path")


def task_app(
    help: str,
    command_of: Callable[[str], Callable[..., None] | None],
    instead: Mapping[Any, Any] | None = None,
) -> typer.Typer:
    """An app with a command for each task of the registry. Commands are made when they are first asked for.

    Parameters
    ----------
    command_of : callable
        From the name of a task to its command, or to None if the task has no such command.
    instead : dict of dataclass to dataclass, optional
        Groups of options to read in place of those that the function names.
    """

    class Commands(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            from partwise.tasks import tasks_by_command

            return [command for command in tasks_by_command() if self.get_command(ctx, command) is not None]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            from partwise.tasks import tasks_by_command

            names = tasks_by_command()
            function = command_of(names[cmd_name]) if cmd_name in names else None
            if function is None:
                return None
            own = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
            add_command(own, cmd_name, function, instead)
            return typer.main.get_group(own).commands[cmd_name]

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and not args[0].startswith("-"):
                _check_named(ctx.command_path, args[0], self.list_commands(ctx))
            return super().resolve_command(ctx, args)

    app = typer.Typer(
        cls=Commands,
        help=help,
        short_help=help,  # by default, the list of commands would cut it off in the middle of a sentence
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(lambda: None)
    return app


def add_command(
    app: typer.Typer,
    name: str,
    function: Callable[..., None],
    instead: Mapping[Any, Any] | None = None,
) -> None:
    """Register a command whose help is its docstring, with the lines of each paragraph joined.

    Parameters
    ----------
    instead : dict of dataclass to dataclass, optional
        Groups of options to read in place of those that the function names.
    """
    paragraphs = [" ".join(each.split()) for each in (function.__doc__ or "").split("\n\n")]
    # By default, the list of commands would cut the help off in the middle of a sentence.
    settings: Any = {"cls": CommandWithPanels, "help": "\n\n".join(paragraphs), "short_help": paragraphs[0]}
    app.command(name, **settings)(_flat(function, instead or {}))


class CommandWithPanels(TyperCommand):
    """A command whose help shows its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group, in the order of `_PANELS`."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                plain = "Arguments" if each.param_type_name == "argument" else "Options"
                panel = getattr(each, "rich_help_panel", None) or plain
                sections.setdefault(panel, []).append(record)
        order = ["Arguments", *_PANELS, "Options"]
        for panel in sorted(sections, key=order.index):
            with formatter.section(panel):
                formatter.write_dl(sections[panel])


def _check_named(command: str, given: str, names: list[str]) -> None:
    """Raise with the command that was probably meant, if `given` is not the name of a task."""
    if given in names:
        return
    if os.path.exists(given) or "." in given or given == "-":
        endings = given.lower().removesuffix(".gz")
        task = next((name for name, own in _USUAL_ENDINGS.items() if endings.endswith(own)), "sequence")
        meant = f"`{command} {task if task in names else names[0]} {given}`"
    else:
        close = difflib.get_close_matches(given, names, 1)
        meant = f"`{command} {close[0]}`" if close else f"one of {', '.join(names)}"
    raise InputError(f"{command} needs the kind of task, and {given!r:.60} is none: did you mean {meant}?")


# Commands that read text have this option.
_Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", help="Of text files, such as latin-1; UTF-8 by default.", rich_help_panel="Data"
    ),
]


def _flat(function: Callable[..., None], instead: Mapping[Any, Any]) -> Callable[..., None]:
    """The function with an argument for each field of its arguments that are dataclasses."""
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    hints = get_type_hints(function, include_extras=True)
    for name, each in signature(function).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = instead.get(hints[name], hints[name])
            parameters += _fields(groups[name])
        else:
            parameters.append(each.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))
    if {each.name for each in parameters} & {"data", "train"}:
        parameters.append(
            Parameter("text_encoding", Parameter.KEYWORD_ONLY, default=None, annotation=_Encoding)
        )

    def command(text_encoding: str | None = None, **values: Any) -> None:
        from partwise.data.encodings import reading

        with reading(text_encoding):
            for name, kind in groups.items():
                values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            function(**values)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _fields(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=_in_panel(_as_option(hints[field.name], field), field),
        )
        for field in fields(group)
    ]


def _in_panel(annotation: Any, field: Any) -> Any:
    """The annotation of a field, with the group of options that help shows the option in."""
    (found,) = annotation.__metadata__
    if isinstance(found, typer.models.OptionInfo):
        plain = "Data" if field.metadata.get("reading") else "Model"
        found.rich_help_panel = _PANEL_OF.get(field.name, plain)
    return annotation


def _as_option(hint: Any, field: Any) -> Any:
    """The annotation of a field; those that `partwise.tasks.options.option` made are turned into typer's."""
    if "help" not in field.metadata:
        return hint
    name = field.metadata["switch"] or "--" + field.name.replace("_", "-")
    return Annotated[hint, typer.Option(name, help=field.metadata["help"], min=field.metadata["min"])]


def one_of(option: str, value: str, *choices: str) -> Any:
    """The value of an option, or an error if it is not one of the choices."""
    if value not in choices:
        raise InputError(f"{option} must be {' or '.join(choices)}, not {value!r:.40}")
    return value
