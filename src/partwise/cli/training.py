"""What `partwise train` does around an estimator's fit: display, Ctrl-C, saving, the final words."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from partwise.cli.common import DataOptions, error_console, print_json
from partwise.errors import InputError
from partwise.report.progress import TrainingDisplay, duration, number


def check_target(path: str) -> None:
    """Refuse a model file that cannot be written before hours of training, not after."""
    target = Path(path)
    if target.is_dir():
        raise InputError("this is a directory; --model needs a file", path)
    if not target.parent.is_dir():
        raise InputError(f"there is no directory {str(target.parent)!r} to save the model in", path)
    if not os.access(target.parent, os.W_OK):
        raise InputError("cannot write here: permission denied", path)


def run_training(
    estimator: Any,
    data: tuple[Any, Any, Any],
    dev: tuple[Any, Any] | None,
    options: DataOptions,
    model: str,
    train: str,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Fit, save and tell; exits with 130 when the user interrupted, after saving."""
    console = error_console(quiet)
    started = time.perf_counter()
    _fit(estimator, data, console)
    seconds = time.perf_counter() - started
    scores = _dev_scores(estimator, dev)
    record = {
        "data": options.as_dict(),
        "training": {"path": train, "seconds": seconds, "dev": scores, "n_examples": _n_examples(data[0])},
    }
    header, arrays = estimator._state()
    from partwise.model_file import save_model

    with _uninterrupted():
        save_model(model, {**header, **record}, arrays)
    interrupted = estimator.stop_reason_.startswith("interrupted")
    if json:
        print_json(_summary(estimator, model, seconds, scores, interrupted))
    if console is not None:
        _final_words(console, estimator, model, seconds, scores, interrupted)
    if interrupted:
        raise typer.Exit(130)


def _fit(estimator: Any, data: tuple[Any, Any, Any], console: Any) -> None:
    from sklearn.exceptions import ConvergenceWarning

    x, y, weights = data

    def score(weights: Any) -> float:
        return estimator.dev_score(weights)

    watched = getattr(estimator, "dev", None) is not None
    with (
        TrainingDisplay(estimator.tol, console, score if watched else None) as display,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.set_params(callback=display)
        estimator.fit(x, y, sample_weight=weights)
    estimator.set_params(callback=None)


def _dev_scores(estimator: Any, dev: tuple[Any, Any] | None) -> dict[str, Any] | None:
    """Scores of the finished model on the dev data."""
    if dev is None:
        return None
    from partwise.cli.evaluate import score

    x, y = dev
    predicted = estimator.predict(x)
    if hasattr(predicted, "tolist"):
        y, predicted = [[str(label) for label in y.tolist()]], [[str(label) for label in predicted.tolist()]]
    found = score(y, [list(labels) for labels in predicted])
    return {"accuracy": found.accuracy, "f1": found.f1, "f1_kind": found.f1_kind}


def _summary(estimator: Any, model: str, seconds: float, dev: Any, interrupted: bool) -> dict[str, Any]:
    return {
        "model": model,
        "objective": estimator.objective_,
        "dual_objective": estimator.dual_objective_,
        "relative_gap": estimator.duality_gap_,
        "converged": estimator.converged_,
        "stop_reason": estimator.stop_reason_,
        "interrupted": interrupted,
        "passes": estimator.n_passes_,
        "seconds": seconds,
        "n_weights": int((estimator.coef_ != 0).sum()),
        "dev": dev,
        "history": estimator.history_,
    }


def _final_words(
    console: Any, estimator: Any, model: str, seconds: float, dev: Any, interrupted: bool
) -> None:
    from rich.markup import escape

    style = "green" if estimator.converged_ else "yellow"
    console.print(f"[{style}]{escape(estimator.stop_reason_)}[/]", highlight=False, soft_wrap=True)
    console.print(
        f"primal {number(estimator.objective_)}  dual {number(estimator.dual_objective_)}  relative gap "
        f"{estimator.duality_gap_:.2e}  after {estimator.n_passes_:.1f} passes, {duration(seconds)}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if dev is not None:
        console.print(
            f"dev accuracy {100 * dev['accuracy']:.2f} %  {dev['f1_kind']} F1 {100 * dev['f1']:.2f}",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    so_far = "the model trained so far is saved" if interrupted else "model saved"
    size = os.path.getsize(model)
    console.print(f"{so_far} to {escape(model)} ({size / 1e6:.2f} MB)", highlight=False, soft_wrap=True)


def _n_examples(x: Any) -> int:
    if hasattr(x, "n_sequences"):
        return int(x.n_sequences)
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let a second Ctrl-C wait until the file is in place."""
    try:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
