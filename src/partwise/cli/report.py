"""`partwise report`: a model as one self-contained HTML page."""

from __future__ import annotations

from typing import Annotated

import typer

from partwise.cli.options import ModelFile, Top


def report(
    model: ModelFile,
    output: Annotated[str, typer.Option("--output", "-o", help="HTML file to write; - is standard output.")],
    top: Top = 30,
) -> None:
    """Write a page with the convergence picture, the certificate and the largest weights."""
    from partwise.cli.common import error_console, load_with_header, write_page_to
    from partwise.cli.paths import STANDARD, check_paths
    from partwise.report.model_page import model_page
    from partwise.report.summary import summarize

    check_paths({"--output": output}, {"MODEL": model})
    estimator, header = load_with_header(model)
    write_page_to(output, model_page(summarize(estimator, header, top), model))
    console = error_console()
    if console is not None and output != STANDARD:
        console.print(f"page written to {output}", highlight=False, markup=False, soft_wrap=True)
