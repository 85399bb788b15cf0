"""What `partwise train constituency` offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partwise.errors import InputError
from partwise.tasks.options import FormatOption, cost_file, option, template_lines


@dataclass
class ConstituentOptions(FormatOption):
    """Train a constituency parser on a treebank in Penn brackets or export format.

    The grammar is read off TRAIN. Rules, words and spans have weights. The memory that training needs is printed
    before training starts. Ctrl-C saves the model trained so far.
    """

    direction: str = option(
        "right",
        "How trees become binary: right, left, or head (outward from it).",
        choices=("right", "left", "head"),
    )
    horizontal: str = option("0", "Siblings that symbols of binary trees remember: a number, or all.")
    vertical: int = option(1, "2: symbols say the label above, too.", min=1)
    word_templates: str = option("default", "Features of words: default, or a file with one template a line.")
    span_templates: str = option("default", "Features of spans: default, or a file with one template a line.")
    split_templates: str = option(
        "none", "Features of splits: none, default, or a file with one template a line."
    )
    rule_templates: str = option(
        "none", "Features of anchored rules: none, default, or a file with one template a line."
    )
    rule_threshold: str = option(
        "auto",
        "Anchored rules are parts if their nodes have this probability under a PCFG: auto, none, or a number.",
    )
    functions: bool = option(False, "Learn function tags (NP-SBJ).", switch="--functions/--no-functions")
    tags: bool = option(
        True, "Whether tags are part of the input, or of the parse.", switch="--tags/--no-tags", reading=True
    )
    max_length: int | None = option(None, "Train on sentences up to this many words.", min=1, reading=True)
    cost_file: str | None = cost_file()
    cost: str = option(
        "constituents",
        "The costs of losses with a margin: wrong constituents, wrong anchored rules, or an upper bound of these.",
        choices=("constituents", "rules", "rules_bound"),
    )
    min_count: int = option(1, "Drop features seen less often in true trees.")

    def parameters(self) -> dict[str, Any]:
        if self.horizontal != "all" and not self.horizontal.isdecimal():
            raise InputError(f"--horizontal must be a number or all, not {self.horizontal!r:.40}")
        names = ("word_templates", "span_templates", "split_templates", "rule_templates")
        found = super().parameters() | {name: _templates(getattr(self, name)) for name in names}
        found["rule_threshold"] = _probability(self.rule_threshold)
        return found | {"horizontal": None if self.horizontal == "all" else int(self.horizontal)}

    def files(self) -> dict[str, str | None]:
        named = {
            "--word-templates": self.word_templates,
            "--span-templates": self.span_templates,
            "--split-templates": self.split_templates,
            "--rule-templates": self.rule_templates,
        }
        return {option: path for option, path in named.items() if path not in ("default", "none")}


def _probability(text: str) -> Any:
    """The parameter `rule_threshold`."""
    if text in ("auto", "none"):
        return {"auto": "auto", "none": None}[text]
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--rule-threshold must be auto, none or a probability, not {text!r:.40}") from None


def _templates(text: str) -> Any:
    return {"none": None, "default": text}[text] if text in ("none", "default") else template_lines(text)
