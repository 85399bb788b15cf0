"""Parsed sentences as one page: the scores, then every tree with its probabilities, with wrong constituents marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partwise.data.constituents import Span, Tree
from partwise.data.treebank import plain_label, without_traces
from partwise.errors import InputError
from partwise.report import html
from partwise.report.constituent_svg import constituent_svg
from partwise.report.tree_svg import clean
from partwise.scoring.brackets import BracketScores, bracket_scores

_STYLE = """
body { max-width: 76rem; }
.tree .word { font-size: 14px; }
.tree .label { font-size: 12.5px; font-weight: 600; fill: var(--dual); }
.tree .tag { font-size: 11px; fill: var(--soft); }
.tree .branch { fill: none; stroke: var(--soft); stroke-width: 1.2; }
.tree .wrong .label { fill: var(--wrong); text-decoration: underline; }
.legend i.branch { border-top-color: var(--soft); }
.tree .wrong .branch { stroke: var(--wrong); stroke-dasharray: 5 3; }
p.missing { color: var(--right); margin: .4rem 0 0; }
"""


def constituent_page(
    trees: Sequence[Tree],
    *,
    marginals: Sequence[Mapping[Span, float]] | None = None,
    gold: Sequence[Tree] | None = None,
    title: str = "Constituent trees",
    most: int = 200,
) -> str:
    """A self-contained page of trees.

    Parameters
    ----------
    trees : sequence of Tree
    marginals : sequence of dict of Span to float, or None
        Probabilities of constituents, by sentence: how opaque they are drawn.
    gold : sequence of Tree, or None
        The true trees of the same sentences; traces and function tags are not looked at.
    title : str
    most : int
        Trees beyond this many are left out; scores are of all. With `gold` the worst come first.

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
    if gold is not None or marginals is not None:
        sections.append(("Legend", _legend(gold is not None, marginals is not None)))
    true = [None if gold is None else _true_spans(gold[i]) for i in range(len(trees))]
    order = sorted(range(len(trees)), key=lambda i: _errors(trees[i], true[i]), reverse=True)[:most]
    for i in order:
        drawn = constituent_svg(trees[i], None if marginals is None else marginals[i], true[i])
        missing = sorted(_compared(trees[i], true[i])[1])
        body = f'<div class="tree">{drawn}</div>{_missing(missing, trees[i])}'
        sections.append((_heading(i + 1, trees[i], true[i]), body))
    return html.page(title, _lead(len(trees), len(order), gold is not None), sections, _STYLE)


def _true_spans(gold: Tree) -> set[Span]:
    bare = without_traces(gold)
    return set() if bare is None else _plain_spans(bare)


def _plain_spans(tree: Tree) -> set[Span]:
    return {span._replace(label=plain_label(span.label)) for span in tree.spans()}


def _compared(tree: Tree, true: set[Span] | None) -> tuple[set[Span], set[Span]]:
    """The wrong constituents, and the missing ones."""
    if true is None:
        return set(), set()
    found = _plain_spans(tree)
    return {span for span in found - true if span.label}, {span for span in true - found if span.label}


def _errors(tree: Tree, true: set[Span] | None) -> int:
    return sum(map(len, _compared(tree, true)))


def _missing(spans: Sequence[Span], tree: Tree) -> str:
    if not spans:
        return ""
    words = tree.words()
    shown = [f"{span.label} [{' '.join(words[span.first : span.end])}]" for span in spans]
    return f'<p class="missing">missing: {clean("; ".join(shown))}</p>'


def _heading(number: int, tree: Tree, true: set[Span] | None) -> str:
    if true is None:
        return f"Sentence {number}"
    wrong = len(_compared(tree, true)[0])
    return f"Sentence {number}: {wrong or 'no'} wrong constituent{'s' * (wrong > 1)}"


def _legend(has_truth: bool, has_marginals: bool) -> str:
    entries = [("branch", "predicted")]
    if has_truth:
        entries.append(("wrong", "predicted, but wrong; what is missing is named below"))
    if has_marginals:
        entries.append(("faint", "the fainter, the less probable"))
    return html.legend(entries)


def _score_table(scores: BracketScores) -> str:
    rows = [
        ("labelled F1", f"{100 * scores.f1:.2f} %"),
        ("precision", f"{100 * scores.precision:.2f} %"),
        ("recall", f"{100 * scores.recall:.2f} %"),
        ("exact trees", f"{100 * scores.exact_match:.2f} %"),
        ("tags", f"{100 * scores.tag_accuracy:.2f} %"),
    ]
    return html.table(("score, as evalb counts", ""), rows)


def _lead(n_trees: int, n_shown: int, has_truth: bool) -> str:
    text = f"{n_trees:,} sentences"
    if n_shown < n_trees:
        text += f"; the {'worst' if has_truth else 'first'} {n_shown:,} are drawn"
    elif has_truth:
        text += "; the worst first"
    return text + "."
