"""What `partwise train dependency` offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partwise.errors import InputError
from partwise.tasks.options import FormatOption, cost_file, option, template_lines


@dataclass
class DependencyOptions(FormatOption):
    """Train a dependency parser on a treebank in CoNLL-U, CoNLL-X or .dp format.

    Every pair of words is scored, and the best tree is found exactly. With --order 2, pairs of arcs that share a word
    are scored, too: exactly for projective trees, by a relaxation for all trees. By default, a small model of tags
    prunes arcs before long training; its recall is printed. Ctrl-C saves the model trained so far.
    """

    structure: str = option(
        "spanning",
        "spanning (all trees) or projective (no crossing arcs).",
        choices=("spanning", "projective"),
    )
    order: int = option(1, "1: arcs by themselves; 2: siblings and grandparents too.")
    inference: str = option(
        "auto",
        "Sums over all trees of second order: auto (a relaxation with a certificate) or loopy (belief propagation).",
        choices=("auto", "loopy"),
    )
    single_root: str = option(
        "auto",
        "Whether one word depends on the root: yes, no, or auto as in TRAIN.",
        choices=("auto", "yes", "no"),
    )
    labelled: bool = option(True, "Learn relations too.", switch="--labelled/--unlabelled")
    templates: str = option("mcdonald", "Arc features: mcdonald, pos, or a file with one template a line.")
    prune: str = option("auto", "Heads that a small model leaves each word; none, auto.")
    cost_file: str | None = cost_file()
    cost: str = option(
        "auto",
        "The costs of losses with a margin: heads, labelled (relations too), or auto.",
        choices=("auto", "heads", "labelled"),
    )
    non_projective: str = option(
        "lift",
        "Crossing arcs in TRAIN, with --structure projective: lift (and put back), skip or error.",
        choices=("lift", "skip", "error"),
    )
    min_count: int = option(1, "Drop features seen less often on true arcs.")

    def parameters(self) -> dict[str, Any]:
        is_file = self.files()["--templates"] is not None
        return super().parameters() | {
            "single_root": {"auto": "auto", "yes": True, "no": False}[self.single_root],
            "templates": template_lines(self.templates, "arc templates") if is_file else self.templates,
            "prune": _heads_kept(self.prune),
        }

    def files(self) -> dict[str, str | None]:
        from partwise.features.arcs import ARCS

        return {"--templates": None if self.templates in ARCS.presets else self.templates}


def _heads_kept(text: str) -> Any:
    if text in ("auto", "none"):
        return None if text == "none" else text
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--prune must be auto, none or a number of heads, not {text!r:.40}")
    return int(text)
