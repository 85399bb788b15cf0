"""`partwise calibrate`: probabilities, sets with guaranteed coverage, and limits of risk, from held-out data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partwise.cli.options import ModelFile, OneObject, OtherFormat
from partwise.errors import InputError


def calibrate(
    model: ModelFile,
    data: Annotated[str, typer.Argument(help="Labelled held-out data, read as in training.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Model file to write; by default, the model itself.")
    ] = None,
    on: Annotated[
        str, typer.Option(help="Calibrate probabilities of parts (labels, arcs …) or of whole entities.")
    ] = "parts",
    method: Annotated[
        str, typer.Option(help="temperature, or isotonic (for entities; changes no other probabilities).")
    ] = "temperature",
    coverage: Annotated[
        float | None,
        typer.Option(help="Instead: find sets of answers that hold the truth with this probability."),
    ] = None,
    sets: Annotated[
        str | None, typer.Option(help="With --coverage: sets of entities, labellings or classes.")
    ] = None,
    by_type: Annotated[
        bool, typer.Option("--by-type", help="With --coverage: for each type of entity, or each class.")
    ] = False,
    risk: Annotated[
        float | None,
        typer.Option(
            help="Instead: find the threshold for `partwise predict --entities --risk`, the share of wrong entities."
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="With --risk: probability over these data that the share is larger.")
    ] = 0.1,
    json: OneObject = False,
    format: OtherFormat = None,
) -> None:
    """Calibrate a model on held-out data.

    By default, all scores are divided by one number, the temperature. Predictions and their order stay the same.

    --coverage and --risk need data that neither training nor an earlier calibration has seen. What they find holds for
    the probabilities that the model has then: calibrate probabilities first, with other data.
    """
    from partwise.cli.common import load_with_header
    from partwise.cli.files import check_paths
    from partwise.report.output import output_console, print_json
    from partwise.storage.model_file import save_estimator
    from partwise.tasks.task import opened_task

    if coverage is not None and risk is not None:
        raise InputError("--coverage and --risk are two calibrations: run one after the other")
    if coverage is None and (sets is not None or by_type):
        raise InputError("--sets and --by-type are for --coverage")
    target = model if output is None else output
    if output is not None:
        check_paths({"--output": output}, {"DATA": data})
    estimator, header = load_with_header(model)
    task = opened_task(estimator, header, model, format)
    X, y = task.examples(*task.labelled(data))
    if coverage is not None:
        values, told = _coverage(estimator, X, y, coverage, sets, by_type)
    elif risk is not None:
        values, told = _risk(estimator, X, y, risk, delta)
    else:
        values, told = _probabilities(estimator, X, y, on, method)
    kept: dict[str, Any] = {name: header[name] for name in ("data", "training") if name in header}
    save_estimator(target, estimator, kept)
    if json:
        print_json({**values, "model": target})
        return
    output_console().print(
        f"{told}\nmodel written to {target}", highlight=False, markup=False, soft_wrap=True
    )


def _probabilities(estimator: Any, X: Any, y: Any, on: str, method: str) -> tuple[dict[str, Any], str]:
    """Calibrated probabilities: values for JSON, and the same in words."""
    if (on, method) == ("parts", "temperature"):
        estimator.calibrate(X, y)
    elif hasattr(estimator, "predict_entities"):
        estimator.calibrate(X, y, on=on, method=method)
    else:
        raise InputError("--on entities and --method isotonic are for models of sequences and segments")
    found = estimator.calibration_
    parts = f"{found.n_parts:,} {'parts' if on == 'parts' else 'possible entities'}"
    start = f"temperature {estimator.temperature_:.3f}" if method == "temperature" else "isotonic regression"
    return {"temperature": estimator.temperature_, **found._asdict()}, (
        f"{start}; on {parts} the expected calibration error went from {100 * found.error_before:.2f} % to "
        f"{100 * found.error_after:.2f} %, the logarithmic score from {found.log_score_before:.4f} to "
        f"{found.log_score_after:.4f}"
    )


def _coverage(
    estimator: Any, X: Any, y: Any, coverage: float, sets: str | None, by_type: bool
) -> tuple[dict[str, Any], str]:
    """Sets with guaranteed coverage."""
    if not hasattr(estimator, "conformal"):
        raise InputError("--coverage is for models of sequences, segments and classes")
    estimator.conformal(X, y, coverage=coverage, on=sets, by_type=by_type)
    found = estimator.conformal_
    numbers = " + ".join(f"{n:,}" for n in found.n_examples)
    return found._asdict(), (
        f"sets of {found.on} hold the truth with probability {coverage:g}; they have {found.mean_size:.2f} "
        f"{found.on} on average, by {numbers} examples"
    )


def _risk(estimator: Any, X: Any, y: Any, risk: float, delta: float) -> tuple[dict[str, Any], str]:
    """A threshold that keeps the share of wrong entities."""
    if not hasattr(estimator, "control_risk"):
        raise InputError("--risk is for models of sequences and segments")
    estimator.control_risk(X, y, risk=risk, delta=delta)
    found = estimator.risk_controls_[risk]
    return found._asdict(), (
        f"entities with a probability of at least {found.threshold:g} are returned; at most {100 * risk:g} % of them "
        f"are wrong, with probability {1 - delta:g}. On these {found.n_examples:,} sequences, {found.n_returned:,} of "
        f"{found.n_entities:,} entities are returned, and {found.n_wrong:,} of them are wrong"
    )
