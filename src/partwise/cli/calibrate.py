"""`partwise calibrate`: how sharp a model's probabilities are, chosen by data that training has not seen."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partwise.cli.options import ModelFile, OneObject, OtherFormat


def calibrate(
    model: ModelFile,
    data: Annotated[
        str, typer.Argument(help="Labelled data that training has not seen, read as in training.")
    ],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Model file to write; without, the model itself.")
    ] = None,
    json: OneObject = False,
    format: OtherFormat = None,
) -> None:
    """Divide all scores by the temperature at which the probabilities of these data's parts are best.

    What is predicted stays the same, and so does its order; probabilities become as sure as they should be.
    """
    from partwise.cli.common import load_with_header
    from partwise.cli.files import check_paths
    from partwise.report.output import output_console, print_json
    from partwise.storage.model_file import save_estimator
    from partwise.tasks.data_options import DataOptions
    from partwise.tasks.task import task_of

    target = model if output is None else output
    if output is not None:
        check_paths({"--output": output}, {"DATA": data})
    estimator, header = load_with_header(model)
    task = task_of(estimator, DataOptions.of(header, model), model, format)
    estimator.calibrate(*task.labelled(data))
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
