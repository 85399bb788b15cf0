"""The page about one model."""

from __future__ import annotations

import math

from partwise.report import html
from partwise.report.summary import Summary


def model_page(summary: Summary, path: str) -> str:
    """HTML of a model's summary; everything in it, also names from a hostile file, is escaped."""
    certificate = summary.certificate
    sections = [("Convergence", html.convergence(summary.history, summary.tol))]
    sections.append((
        "Certificate",
        html.facts(certificate)
        + html.paragraph(
            "No weights have an objective below the dual value: the model is within the gap of the optimum."
        ),
    ))  # fmt: skip
    tables = html.facts(summary.settings), html.facts({**summary.sizes, **summary.training})
    sections.append(
        ("Model", '<div class="pair">' + "".join(f"<div>{each}</div>" for each in tables) + "</div>")
    )
    if summary.top_features:
        rows = [(label, attribute, weight) for attribute, label, weight in summary.top_features]
        sections.append(("Largest feature weights", html.weights_table(("label", "feature", "weight"), rows)))
    if summary.top_transitions:
        rows = [(before, after, weight) for before, after, weight in summary.top_transitions]
        sections.append(("Largest transition weights", html.weights_table(("from", "to", "weight"), rows)))
    gap = certificate["relative gap"]
    proof = f"proved to be within {100 * gap:.3g} % of the optimum"
    if not math.isfinite(gap):
        proof = "with no bound on how far it is from the optimum"
    lead = f"{summary.kind}, {summary.settings['loss']} loss, {proof}"
    return html.page(f"Model {path}", lead, sections)
