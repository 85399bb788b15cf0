"""Runs a training command: display, Ctrl-C, saving, the summary at the end."""

from __future__ import annotations

import math
import os
import shlex
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from partwise.cli.common import warn_of_unknown
from partwise.cli.files import STANDARD, check_paths
from partwise.cli.interruption import Interrupted, Interruption
from partwise.cli.options import Objective, Running, RunningPath
from partwise.compiled.clock import seconds_compiling, telling, working_time
from partwise.errors import InputError
from partwise.report.output import error_console, print_json
from partwise.report.progress import TrainingDisplay, duration, number
from partwise.storage.model_file import check_header, save_estimator
from partwise.tasks.task import LabelledData, Scores, Task

_MOST_ESTIMATES = 100  # points between certificates that a model file keeps, for the curve of its report
_LONG = 300  # words of a sequence: no sentence is as long, so blank lines are missing


def check_model_path(model: str, inputs: Mapping[str, str | None]) -> None:
    """Raise before training if the model file cannot be written or is also an input."""
    if model == STANDARD:
        raise InputError("a model is saved to a file, not to standard output", "--model")
    check_paths({"--model": model}, inputs)


@dataclass
class Job:
    """One training command.

    Attributes
    ----------
    task : Task
        With the estimator to fit, how its data were read, and the file to save it to.
    source : str
        The training file.
    data : LabelledData
        The contents of that file.
    dev : (X, truths) or None
        Data to score.
    dev_source : str
        The file of these data.
    estimates : list of (passes, objective, dual)
        The solver's estimates between certificates, filled in by training.
    verbose : bool
        Whether to show the estimate of memory.
    """

    task: Task
    source: str
    data: LabelledData
    dev: tuple[Any, Any] | None = None
    dev_source: str = ""
    estimates: list[tuple[float, float, float]] = field(default_factory=list)
    verbose: bool = False

    def record(self, seconds: float, scores: Scores | None) -> dict[str, Any]:
        """Facts about the training for the model file, beside those of the estimator."""
        main = None if scores is None else scores.main
        kept = self.estimates[:: 1 + len(self.estimates) // _MOST_ESTIMATES]
        training = {
            "path": self.source, "date": time.strftime("%Y-%m-%d %H:%M"), "seconds": seconds, "dev": main,
            "n_examples": self.data.n_examples, "estimates": kept, **self.data.facts,
        }  # fmt: skip
        return {"data": self.task.options.as_dict(), "training": training}


def run_training(job: Job, objective: Objective, running: Running) -> None:
    """Train at one value of l2 or along a path, save the model and print a summary.

    If the user interrupts, the model trained so far is saved, and the exit code is 130.
    """
    if isinstance(running, RunningPath) or "," in objective.l2:
        from partwise.cli.path_run import run_path

        return run_path(job, objective, running)
    console = error_console(running.quiet)
    estimator, model = job.task.estimator, job.task.model
    started, compiled_before = working_time()[0], seconds_compiling()
    interruption = Interruption()
    try:
        with interruption:
            _fit(job, console, interruption)
            seconds, compile_seconds = working_time()[0] - started, seconds_compiling() - compiled_before
            scores = _dev_scores(job)
            interruption.save()
            save_estimator(model, estimator, job.record(seconds, scores))
    except (KeyboardInterrupt, Exception) as error:
        # Interrupted code may fail in its own way: a compiler that misses what a callback was to leave.
        if isinstance(error, InputError) or not (interruption.asked or isinstance(error, KeyboardInterrupt)):
            raise
        raise Interrupted(nothing_saved(model, interruption.trained)) from None
    interrupted = interruption.asked or estimator.stop_reason_.startswith("interrupted")
    if running.json:
        print_json(summary(estimator, model, seconds, compile_seconds, scores, interrupted))
    if console is not None:
        with suppress(OSError):  # training succeeded even if its log cannot be written
            final_words(console, job.task, seconds, scores)
            if scores is not None and not interrupted:
                console.print(_next_step(job), highlight=False, soft_wrap=True, markup=False)
    if interrupted:
        raise Interrupted


def _next_step(job: Job) -> str:
    """A line that says how to choose l2 with the data at hand."""
    files = shlex.join([job.source, "--dev", job.dev_source, "--model", job.task.model])
    return f"next: `partwise path {job.task.command} {files}` chooses l2"


def nothing_saved(model: str, trained: bool) -> str:
    """The message for a model that was not written."""
    when = "again before the model was saved" if trained else "before anything was trained"
    return f"interrupted {when}; {model} {'is as it was' if os.path.lexists(model) else 'was not written'}"


def tell_job(console: Any, job: Job, problem: Any) -> None:
    """Print the file, its format and its sizes in one line."""
    if console is None:
        return
    maps = [problem.scorer.maps[kind.name] for kind in problem.structure.kinds if not kind.tied]
    sizes = [f"{problem.n_examples:,} examples", f"{int(problem.lengths.sum()):,} positions"]
    if hasattr(problem.structure, "n_labels"):
        sizes.append(f"{problem.structure.n_labels:,} labels")
    sizes.append(f"{sum(each.n_dense + len(each.start) for each in maps):,} attributes")
    words = [
        f"{job.source}: read as {job.task.options.format}",
        ", ".join(sizes),
        *filter(None, [job.data.note]),
    ]
    lines = ["; ".join(words)]
    if job.task.options.format == "conll" and problem.n_examples == 1 and problem.lengths[0] >= _LONG:
        lines.append(f"{job.source} is one sequence as a whole: it has no blank lines, which part sentences")
    with suppress(OSError):
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


class _Watcher:
    """The callback of the fit: shows progress, scores dev data, and checks for Ctrl-C."""

    def __init__(self, job: Job, display: TrainingDisplay, interruption: Interruption):
        self.job, self.display, self.interruption = job, display, interruption
        self.verbose, self.started = job.verbose, working_time()[0]

    def begin(self, problem: Any, encoder: Any) -> None:
        self.display.seconds_before = working_time()[0] - self.started
        check_savable(problem, encoder)
        self._tell(problem)
        if self.job.dev is not None:
            score = self.job.task.estimator._scorer_during_fit(problem, encoder, *self.job.dev)
            self.display.dev_score = score

    def say(self, words: str) -> None:
        """Print a line about the training, such as the memory it takes."""
        with suppress(OSError):
            self.display.say([words])

    def _tell(self, problem: Any) -> None:
        tell_job(self.display.console, self.job, problem)

    def __call__(self, progress: Any) -> None:
        if progress.record is None and math.isfinite(progress.estimated_gap):
            primal = progress.dual + progress.estimated_gap
            self.job.estimates.append((progress.passes, float(primal), float(progress.dual)))
        try:
            self.display(progress)
        except OSError:
            self.display.console = None  # training goes on when its log cannot be written
        self.interruption.heed()


def check_savable(problem: Any, encoder: Any) -> None:
    """Raise before training if the model's names would not fit in a file. With an l1 term most of them may go."""
    if not problem.l1 and hasattr(encoder, "state"):
        state = encoder.state()  # some have arrays beside their names
        check_header(state if isinstance(state, dict) else state[0])


def _fit(job: Job, console: Any, interruption: Interruption) -> None:
    estimator = job.task.estimator
    with (
        TrainingDisplay(estimator.tol, console) as display,
        telling(display.compiling),
        warnings.catch_warnings(),
    ):
        # The final words say it; naming the warning's class would load scikit-learn.
        warnings.filterwarnings("ignore", r".*\(relative gap", UserWarning)
        # Said before training.
        warnings.filterwarnings("ignore", "one pass over the data will take", UserWarning)
        estimator.set_params(callback=_Watcher(job, display, interruption))
        estimator.fit(job.data.x, job.data.y, sample_weight=job.data.weights)
    estimator.set_params(callback=None)


def _dev_scores(job: Job) -> Scores | None:
    """Scores of the finished model on the dev data."""
    if job.dev is None:
        return None
    try:
        warn_of_unknown(job.task, *job.dev, "--dev")
        return job.task.scores(*job.dev)
    except KeyboardInterrupt:
        return None  # the model is worth saving without them


def summary(
    estimator: Any, model: str, seconds: float, compile_seconds: float, dev: Scores | None, interrupted: bool
) -> dict[str, Any]:
    """The JSON object that --json prints."""
    return {
        "l2": getattr(estimator, "l2_", estimator.l2),
        "model": model,
        "objective": estimator.objective_,
        "dual_objective": estimator.dual_objective_,
        "relative_gap": estimator.duality_gap_,
        "certificate_kind": estimator.certificate_kind_,
        "converged": estimator.converged_,
        "stop_reason": estimator.stop_reason_,
        "interrupted": interrupted,
        "passes": estimator.n_passes_,
        "seconds": seconds,
        "compile_seconds": compile_seconds,
        "n_weights": int((estimator.coef_ != 0).sum()),
        **estimator._training_facts(),
        "dev": None if dev is None else dev.main,
        "history": estimator.history_,
    }


def final_words(console: Any, task: Task, seconds: float, dev: Scores | None) -> None:
    """Print why training stopped, the certificate, scores, and the model file."""
    from rich.markup import escape

    estimator, model = task.estimator, task.model
    style = "green" if estimator.converged_ else "yellow"
    console.print(f"[{style}]{escape(estimator.stop_reason_)}[/]", highlight=False, soft_wrap=True)
    console.print(
        f"primal {number(estimator.objective_)}  dual {number(estimator.dual_objective_)}  relative gap "
        f"{estimator.duality_gap_:.2e}  after {estimator.n_passes_:.1f} passes, {duration(seconds)}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if hasattr(estimator, "l2_"):
        mean = 100 * estimator.scores_.mean(axis=0).max()
        words = f"l2 = {estimator.l2_:.4g}: mean {estimator._score_name} of {len(estimator.scores_)} folds {mean:.2f}"
        console.print(words, highlight=False, soft_wrap=True)
    if dev is not None:
        console.print(dev.words, highlight=False, soft_wrap=True)
    for note in estimator._training_notes():
        console.print(note, highlight=False, soft_wrap=True)
    interrupted = estimator.stop_reason_.startswith("interrupted")
    so_far = "the model trained so far is saved" if interrupted else "model saved"
    size = os.path.getsize(model)
    console.print(f"{so_far} to {escape(model)} ({size / 1e6:.2f} MB)", highlight=False, soft_wrap=True)
