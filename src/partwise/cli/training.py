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
    from partwise.storage.model_file import save_model

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
    if hasattr(estimator, "relations_"):
        from partwise.cli.dependency import tree_scores

        found = tree_scores(estimator, x)
        return {name: found[name] for name in ("uas", "las", "uas_no_punctuation", "las_no_punctuation")}
    predicted = estimator.predict(x)
    if hasattr(predicted, "tolist"):
        y, predicted = [[str(label) for label in y.tolist()]], [[str(label) for label in predicted.tolist()]]
    labels = score(y, [list(labels) for labels in predicted])
    return {"accuracy": labels.accuracy, "f1": labels.f1, "f1_kind": labels.f1_kind}


def _summary(estimator: Any, model: str, seconds: float, dev: Any, interrupted: bool) -> dict[str, Any]:
    return {
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
        "n_weights": int((estimator.coef_ != 0).sum()),
        **_about_trees(estimator),
        "dev": dev,
        "history": estimator.history_,
    }


def _about_trees(estimator: Any) -> dict[str, Any]:
    """What a parser's training left out, for JSON."""
    facts: dict[str, Any] = {}
    pruning, skipped = getattr(estimator, "pruning_", None), getattr(estimator, "skipped_", None)
    if pruning is not None:
        facts["pruning"] = {"recall": pruning.recall, "arcs_left": pruning.n_kept / pruning.n_arcs}
    if skipped is not None:
        facts["skipped_sentences"] = skipped.n_skipped
    return facts


def _dev_words(dev: dict[str, Any]) -> str:
    if "uas" not in dev:
        return f"dev accuracy {100 * dev['accuracy']:.2f} %  {dev['f1_kind']} F1 {100 * dev['f1']:.2f}"
    bare = f"without punctuation {100 * dev['uas_no_punctuation']:.2f}"
    labelled = "" if dev["las"] is None else f"  LAS {100 * dev['las']:.2f}"
    return f"dev UAS {100 * dev['uas']:.2f}{labelled}  ({bare})"


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
        console.print(_dev_words(dev), highlight=False, soft_wrap=True)
    for name in ("skipped_", "pruning_"):
        if getattr(estimator, name, None) is not None:
            console.print(str(getattr(estimator, name)), highlight=False, soft_wrap=True)
    so_far = "the model trained so far is saved" if interrupted else "model saved"
    size = os.path.getsize(model)
    console.print(f"{so_far} to {escape(model)} ({size / 1e6:.2f} MB)", highlight=False, soft_wrap=True)


def _n_examples(x: Any) -> int:
    for name in ("n_sequences", "n_sentences"):
        if hasattr(x, name):
            return int(getattr(x, name))
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
