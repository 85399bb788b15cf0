"""What `partwise train` does around an estimator's fit: display, Ctrl-C, saving, the final words."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from partwise.cli.common import DataOptions, error_console, print_json
from partwise.cli.interruption import Interrupted, Interruption
from partwise.cli.paths import STANDARD, check_paths
from partwise.compiled.clock import seconds_compiling, telling, working_time
from partwise.errors import InputError
from partwise.report.progress import TrainingDisplay, duration, number
from partwise.storage.model_file import save_estimator


def check_model_path(model: str, inputs: Mapping[str, str | None]) -> None:
    """Refuse a model file that cannot be written, or that is an input, before hours of training, not after."""
    if model == STANDARD:
        raise InputError("a model is saved to a file, not to standard output", "--model")
    check_paths({"--model": model}, inputs)


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
    started, compiled_before = working_time()[0], seconds_compiling()
    interruption = Interruption()
    try:
        with interruption:
            _fit(estimator, data, console, interruption)
            seconds, compile_seconds = working_time()[0] - started, seconds_compiling() - compiled_before
            scores = _dev_scores(estimator, dev)
            interruption.save()
            record = {"path": train, "seconds": seconds, "dev": scores, "n_examples": _n_examples(data[0])}
            save_estimator(model, estimator, {"data": options.as_dict(), "training": record})
    except (KeyboardInterrupt, Exception) as error:
        # Interrupted code may fail in its own way: a compiler that misses what a callback was to leave.
        if isinstance(error, InputError) or not (interruption.asked or isinstance(error, KeyboardInterrupt)):
            raise
        raise Interrupted(_nothing_saved(model, interruption.trained)) from None
    interrupted = interruption.asked or estimator.stop_reason_.startswith("interrupted")
    if json:
        print_json(_summary(estimator, model, seconds, compile_seconds, scores, interrupted))
    if console is not None:
        with suppress(OSError):  # a log that cannot be written is no failure of the training
            _final_words(console, estimator, model, seconds, scores)
    if interrupted:
        raise Interrupted


def _nothing_saved(model: str, trained: bool) -> str:
    when = "again before the model was saved" if trained else "before anything was trained"
    return f"interrupted {when}; {model} {'is as it was' if os.path.lexists(model) else 'was not written'}"


def _fit(estimator: Any, data: tuple[Any, Any, Any], console: Any, interruption: Interruption) -> None:
    x, y, weights = data

    def score(weights: Any) -> float:
        return estimator.dev_score(weights)

    watched = getattr(estimator, "dev", None) is not None
    with (
        TrainingDisplay(estimator.tol, console, score if watched else None) as display,
        telling(display.compiling),
        warnings.catch_warnings(),
    ):

        def after_step(progress: Any) -> None:
            try:
                display(progress)
            except OSError:
                display.console = None  # training goes on when its log cannot be written
            interruption.heed()

        # The final words say it; naming the warning's class would load scikit-learn.
        warnings.filterwarnings("ignore", r".*\(relative gap", UserWarning)
        estimator.set_params(callback=after_step)
        estimator.fit(x, y, sample_weight=weights)
    estimator.set_params(callback=None)


def _dev_scores(estimator: Any, dev: tuple[Any, Any] | None) -> dict[str, Any] | None:
    """Scores of the finished model on the dev data."""
    if dev is None:
        return None
    try:
        return _scores_on(estimator, *dev)
    except KeyboardInterrupt:
        return None  # the model is worth saving without them


def _scores_on(estimator: Any, x: Any, y: Any) -> dict[str, Any]:
    from partwise.cli.evaluate import score

    if hasattr(estimator, "relations_"):
        from partwise.cli.dependency import tree_scores

        found = tree_scores(estimator, x)
        return {name: found[name] for name in ("uas", "las", "uas_no_punctuation", "las_no_punctuation")}
    predicted = estimator.predict(x)
    if hasattr(predicted, "tolist"):
        y, predicted = [[str(label) for label in y.tolist()]], [[str(label) for label in predicted.tolist()]]
    labels = score(y, [list(labels) for labels in predicted])
    return {"accuracy": labels.accuracy, "f1": labels.f1, "f1_kind": labels.f1_kind}


def _summary(
    estimator: Any, model: str, seconds: float, compile_seconds: float, dev: Any, interrupted: bool
) -> dict[str, Any]:
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
        "compile_seconds": compile_seconds,
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


def _final_words(console: Any, estimator: Any, model: str, seconds: float, dev: Any) -> None:
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
    interrupted = estimator.stop_reason_.startswith("interrupted")
    so_far = "the model trained so far is saved" if interrupted else "model saved"
    size = os.path.getsize(model)
    console.print(f"{so_far} to {escape(model)} ({size / 1e6:.2f} MB)", highlight=False, soft_wrap=True)


def _n_examples(x: Any) -> int:
    for name in ("n_sequences", "n_sentences"):
        if hasattr(x, name):
            return int(getattr(x, name))
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)
