"""`partwise calibrate`: temperature scaling of a model's probabilities on held-out data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partwise.cli.options import ModelFile, OneObject, OtherFormat


def calibrate(
    model: ModelFile,
    data: Annotated[str, typer.Argument(help="Labelled held-out data, read as in training.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Model file to write; by default, the model itself.")
    ] = None,
    json: OneObject = False,
    format: OtherFormat = None,
) -> None:
    """Calibrate probabilities on held-out data (temperature scaling).

    All scores are divided by one number, the temperature. Predictions and their order stay the same.
    """
    from partwise.cli.common import load_with_header
    from partwise.cli.files import check_paths
    from partwise.report.output import output_console, print_json
    from partwise.storage.model_file import save_estimator
    from partwise.tasks.task import opened_task

    target = model if output is None else output
    if output is not None:
        check_paths({"--output": output}, {"DATA": data})
    estimator, header = load_with_header(model)
    task = opened_task(estimator, header, model, format)
    estimator.calibrate(*task.examples(*task.labelled(data)))
    kept: dict[str, Any] = {name: header[name] for name in ("data", "training") if name in header}
    save_estimator(target, estimator, kept)
    found = estimator.calibration_
    if json:
        print_json({"temperature": estimator.temperature_, **found._asdict(), "model": target})
        return
    output_console().print(
        f"temperature {estimator.temperature_:.3f}; on {found.n_parts:,} parts the expected calibration error went "
        f"from {100 * found.error_before:.2f} % to {100 * found.error_after:.2f} %, the logarithmic score from "
        f"{found.log_score_before:.4f} to {found.log_score_after:.4f}\nmodel written to {target}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
