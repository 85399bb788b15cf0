"""Parsed sentences as one page: the scores, then every tree with its probabilities, wrong constituents marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partwise.data.constituents import Span, Tree
from partwise.data.treebank import plain_label, without_traces
from partwise.errors import InputError
from partwise.report import html, palette
from partwise.report.constituent_svg import constituent_svg
from partwise.report.tree_svg import clean
from partwise.scoring.brackets import BracketScores, bracket_scores

_STYLE = f"""
:root {{ color-scheme: light dark; --page: #fff; --ink: {palette.INK}; --soft: {palette.SOFT_INK};
  --grid: {palette.GRID}; --arc: {palette.DUAL}; --wrong: {palette.WRONG}; --right: {palette.RIGHT}; }}
@media (prefers-color-scheme: dark) {{ :root {{ --page: {palette.DARK_PAGE}; --ink: {palette.DARK_INK};
  --soft: {palette.DARK_SOFT_INK}; --grid: {palette.DARK_GRID}; --arc: {palette.DARK_ARC};
  --wrong: {palette.DARK_WRONG}; --right: {palette.DARK_RIGHT}; }} }}
body {{ color: var(--ink); background: var(--page); max-width: 76rem; }}
p.lead, th, footer {{ color: var(--soft); }}
th, td {{ border-bottom-color: var(--grid); }}
.tree {{ overflow-x: auto; border: 1px solid var(--grid); border-radius: 6px; padding: .6rem; }}
.tree svg {{ width: auto; max-width: none; height: auto; display: block; }}
.tree text {{ text-anchor: middle; font-family: inherit; fill: var(--ink); }}
.tree .word {{ font-size: 14px; }}
.tree .label {{ font-size: 12.5px; font-weight: 600; fill: var(--arc); }}
.tree .tag {{ font-size: 11px; fill: var(--soft); }}
.tree .branch {{ fill: none; stroke: var(--soft); stroke-width: 1.2; }}
.tree .wrong .label {{ fill: var(--wrong); text-decoration: underline; }}
.tree .wrong .branch {{ stroke: var(--wrong); stroke-dasharray: 5 3; }}
p.missing {{ color: var(--right); margin: .4rem 0 0; }}
"""


def constituent_page(
    trees: Sequence[Tree],
    *,
    marginals: Sequence[Mapping[Span, float]] | None = None,
    gold: Sequence[Tree] | None = None,
    title: str = "Constituent trees",
    most: int = 200,
) -> str:
    """A page of trees that needs no other file.

    Parameters
    ----------
    trees : sequence of Tree
    marginals : sequence of dict of Span to float, or None
        Probabilities of constituents, by sentence: how opaque they are drawn.
    gold : sequence of Tree, or None
        The true trees of the same sentences; traces and function tags are not looked at.
    title : str
    most : int
        Trees beyond this many are left out; scores are of all.

    Returns
    -------
    str
        HTML; write it with `partwise.report.html.write_page`.
    """
    for name, other in (("marginals", marginals), ("gold", gold)):
        if other is not None and len(other) != len(trees):
            raise InputError(f"{len(other)} {name} for {len(trees)} trees")
    sections = []
    if gold is not None:
        sections.append(("Scores", _score_table(bracket_scores(gold, trees))))
    for i, tree in enumerate(trees[:most]):
        true = None if gold is None else _true_spans(gold[i])
        drawn = constituent_svg(tree, None if marginals is None else marginals[i], true)
        missing = [] if true is None else sorted(true - _plain_spans(tree))
        body = f'<div class="tree">{drawn}</div>{_missing(missing, tree)}'
        sections.append((_heading(i + 1, tree, true), body))
    return html.page(title, _lead(trees, most, marginals is not None, gold is not None), sections, _STYLE)


def _true_spans(gold: Tree) -> set[Span]:
    bare = without_traces(gold)
    return set() if bare is None else _plain_spans(bare)


def _plain_spans(tree: Tree) -> set[Span]:
    return {span._replace(label=plain_label(span.label)) for span in tree.spans()}


def _missing(spans: Sequence[Span], tree: Tree) -> str:
    if not spans:
        return ""
    words = tree.words()
    shown = [f"{span.label} [{' '.join(words[span.first : span.end])}]" for span in spans if span.label]
    return f'<p class="missing">missing: {clean("; ".join(shown))}</p>' if shown else ""


def _heading(number: int, tree: Tree, true: set[Span] | None) -> str:
    if true is None:
        return f"Sentence {number}"
    wrong = sum(span not in true for span in _plain_spans(tree) if span.label)
    return f"Sentence {number}: " + (f"{wrong} wrong constituents" if wrong else "no wrong constituent")


def _score_table(scores: BracketScores) -> str:
    rows = [
        ("labelled F1", f"{100 * scores.f1:.2f} %"),
        ("precision", f"{100 * scores.precision:.2f} %"),
        ("recall", f"{100 * scores.recall:.2f} %"),
        ("exact trees", f"{100 * scores.exact_match:.2f} %"),
        ("tags", f"{100 * scores.tag_accuracy:.2f} %"),
    ]
    return html.table(("score, as evalb counts", ""), rows)


def _lead(trees: Sequence[Tree], most: int, has_marginals: bool, has_truth: bool) -> str:
    text = f"{len(trees):,} sentences"
    if most < len(trees):
        text += f"; the first {most:,} are drawn"
    if has_marginals:
        text += "; the fainter a constituent, the less probable it is"
    if has_truth:
        text += "; wrong constituents are underlined, those that are missing are named below"
    return text + "."
