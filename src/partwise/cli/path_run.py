"""Runs `partwise path`, and `partwise train` with several values of --l2: keeps the best model of a path."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from typing import Any

from partwise.cli.files import check_paths
from partwise.cli.interruption import Interrupted, Interruption
from partwise.cli.options import Objective, Running, RunningPath
from partwise.cli.training import Job, check_savable, final_words, nothing_saved, summary, tell_job
from partwise.compiled.clock import seconds_compiling, working_time
from partwise.errors import InputError
from partwise.report.output import error_console, print_json
from partwise.report.path_table import PathDisplay
from partwise.storage.model_file import save_estimator


class _Watcher:
    """The callback of the fits: shows progress and checks for Ctrl-C."""

    def __init__(self, job: Job, display: PathDisplay, interruption: Interruption):
        self.job, self.display, self.interruption = job, display, interruption

    def begin(self, problem: Any, encoder: Any) -> None:
        check_savable(problem, encoder)
        tell_job(self.display.console, self.job, problem)

    def __call__(self, progress: Any) -> None:
        with suppress(OSError):
            self.display.progress(progress)
        self.interruption.heed()


def run_path(job: Job, objective: Objective, running: Running) -> None:
    """Follow the path, save the best model and print a summary. After Ctrl-C, the exit code is 130."""
    from partwise.estimators.regularization_path.path import RegularizationPath

    options = running if isinstance(running, RunningPath) else RunningPath(**vars(running))
    options.parameters()  # refuses what cannot be kept along a path
    _check(job, options)
    console, interruption = error_console(running.quiet), Interruption()
    estimator, model = job.task.estimator, job.task.model
    started, compiled_before = working_time()[0], seconds_compiling()
    display = PathDisplay(console)
    path = RegularizationPath(
        estimator, values=_values(objective, options), cv=options.folds, patience=options.patience,
        file=options.path, callback=display.point,
    )  # fmt: skip
    try:
        with interruption:
            _follow(path, job, options, display, interruption)
            best = job.task.estimator = path.best_estimator_.set_params(callback=None)
            seconds, compile_seconds = working_time()[0] - started, seconds_compiling() - compiled_before
            scores = None if job.dev is None else job.task.scores(*job.dev)
            interruption.save()
            _save(path, job, options, seconds, scores)
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, InputError) or not (interruption.asked or isinstance(error, KeyboardInterrupt)):
            raise
        raise Interrupted(nothing_saved(model, interruption.trained)) from None
    interrupted = interruption.asked or path.stop_reason_.startswith("interrupted")
    if running.json:
        found = summary(best, model, seconds, compile_seconds, scores, interrupted)
        print_json(found | {"path_stop_reason": path.stop_reason_, "path": path.results_})
    if console is not None:
        with suppress(OSError):
            console.print(path.stop_reason_, highlight=False, soft_wrap=True)
            console.print(choice_words(path), highlight=False, soft_wrap=True)
            final_words(console, job.task, seconds, scores)
    if interrupted:
        raise Interrupted


def _check(job: Job, options: RunningPath) -> None:
    """Raise before training if the path cannot be scored, written or resumed."""
    if job.dev is None and options.folds is None:
        raise InputError(
            "several values of l2 need --dev, labelled data to choose by, or partwise path with --folds"
        )
    if job.dev is not None and options.folds is not None:
        raise InputError("--dev and --folds are two ways to score a value of l2: use one of them")
    if options.resume and options.path is None:
        raise InputError("--resume needs --path, the file to go on with")
    outputs = {"--model": job.task.model, "--path": options.path, "--plot": options.plot}
    check_paths(outputs, {"TRAIN": job.source})
    if options.path is not None and os.path.exists(options.path) and not options.resume:
        raise InputError("this file exists: go on with its path with --resume, or name another", options.path)


def _values(objective: Objective, options: RunningPath) -> list[float]:
    from partwise.estimators.regularization_path.values import checked_values, geometric_values, spaced_values

    if "," in objective.l2:
        return checked_values(objective.values())
    if options.l2_values is not None:
        return spaced_values(options.l2_from, options.l2_to, options.l2_values)
    return geometric_values(options.l2_from, options.l2_to, options.l2_ratio)


def _follow(
    path: Any, job: Job, options: RunningPath, display: PathDisplay, interruption: Interruption
) -> None:
    estimator = job.task.estimator.set_params(callback=_Watcher(job, display, interruption))
    with display, warnings.catch_warnings():
        # The table says it; naming the warning's class would load scikit-learn.
        warnings.filterwarnings("ignore", r".*\(relative gap", UserWarning)
        warnings.showwarning = lambda message, *_: display.say(f"warning: {message}")  # type: ignore[assignment]
        weights = {} if job.data.weights is None else {"sample_weight": job.data.weights}
        path.fit(job.data.x, job.data.y, *(job.dev or ()), **weights, resume=options.resume)
    estimator.set_params(callback=None)


def _save(path: Any, job: Job, options: RunningPath, seconds: float, scores: Any) -> None:
    header = job.record(seconds, scores)
    save_estimator(job.task.model, path.best_estimator_, header)
    if options.keep_all:
        for l2 in path.l2_:
            save_estimator(
                f"{job.task.model}.l2={l2:.6g}", path.estimator_at(l2).set_params(callback=None), header
            )
    if options.plot is not None:
        path.plot(options.plot)


def choice_words(path: Any) -> str:
    """The best value, and by how much it is better than the next."""
    name, scores = path.best_estimator_._score_name, 100 * path.dev_scores_
    words = f"best l2 = {path.best_l2_:.4g}, {name} {100 * path.best_score_:.2f}"
    others = [(score, l2) for score, l2 in zip(scores, path.l2_, strict=True) if l2 != path.best_l2_]
    if not others:
        return words
    score, l2 = max(others)
    return f"{words}: {100 * path.best_score_ - score:.2f} above the next best, l2 = {l2:.4g}"
