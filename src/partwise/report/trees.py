"""A parsed corpus as one page: the scores, then every tree, wrong arcs marked and the truth beside them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from partwise.errors import InputError
from partwise.report import html, palette
from partwise.report.tree_svg import Tree, tree_svg
from partwise.scoring.attachment import attachment_scores

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus

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
.tree text {{ text-anchor: middle; font-family: inherit; paint-order: stroke; stroke: var(--page);
  stroke-width: 3px; fill: var(--ink); }}
.tree .word {{ font-size: 14px; }}
.tree .tag {{ font-size: 10.5px; fill: var(--soft); }}
.tree .relation {{ font-size: 10.5px; fill: var(--soft); }}
.tree .arc {{ fill: none; stroke: var(--arc); stroke-width: 1.6; }}
.tree .tip {{ fill: var(--arc); }}
.tree .wrong .arc {{ stroke: var(--wrong); stroke-dasharray: 6 3; }}
.tree .wrong .tip, .tree text.wrong {{ fill: var(--wrong); }}
.tree .gold .arc {{ stroke: var(--right); stroke-dasharray: 2 3; }}
.tree .gold .tip, .tree .gold .relation {{ fill: var(--right); }}
"""


def tree_page(
    corpus: DependencyCorpus,
    heads: np.ndarray | None = None,
    relations: Sequence[str] | None = None,
    *,
    marginals: np.ndarray | None = None,
    title: str = "Dependency trees",
    most: int = 200,
) -> str:
    """A page of trees that needs no other file.

    Parameters
    ----------
    corpus : DependencyCorpus
        The words; where its heads are all known they are the truth that `heads` are compared with.
    heads : int array (n_words,), or None
        Predicted heads; None draws the corpus's own trees.
    relations : sequence of str (n_words,), or None
        Predicted relations.
    marginals : float array (n_words,), or None
        Probability of each predicted arc, drawn as its opacity.
    title : str
    most : int
        Trees beyond this many are left out; scores are of all.

    Returns
    -------
    str
        HTML; write it with `partwise.report.html.write_page`.
    """
    predicted = heads is not None
    if heads is None:
        heads, relations = corpus.heads, corpus.relations
    heads = np.asarray(heads)
    for name, column in (("heads", heads), ("relations", relations), ("marginals", marginals)):
        if column is not None and len(column) != corpus.n_words:
            raise InputError(f"{len(column)} {name} for {corpus.n_words} words")
    if len(heads) and int(heads.min()) < 0:
        raise InputError("some words have no head; there is no tree to draw")
    if (heads > np.repeat(corpus.lengths, corpus.lengths)).any():
        raise InputError("heads must be numbers of words of the same sentence")
    has_truth = predicted and corpus.has_heads
    trees = _trees(
        corpus.subset(np.arange(min(most, corpus.n_sentences))), heads, relations, marginals, has_truth
    )
    sections = [("Scores", _scores(corpus, heads, relations))] if has_truth else []
    for number, tree in enumerate(trees, 1):
        sections.append((_heading(number, tree, has_truth), f'<div class="tree">{tree_svg(tree)}</div>'))
    return html.page(title, _lead(corpus, len(trees), has_truth, marginals is not None), sections, _STYLE)


def _trees(
    shown: DependencyCorpus,
    heads: np.ndarray,
    relations: Sequence[str] | None,
    marginals: np.ndarray | None,
    has_truth: bool,
) -> list[Tree]:
    trees = []
    marginals = None if marginals is None else np.asarray(marginals)
    tags = shown.coarse_tags if set(shown.coarse_tags) != {"_"} else shown.fine_tags
    ptr = shown.sentence_ptr.tolist()
    for begin, end in pairwise(ptr):
        gold_relations = shown.relations[begin:end] if has_truth and relations and shown.relations else None
        trees.append(
            Tree(
                shown.forms[begin:end],
                tags[begin:end],
                heads[begin:end].tolist(),
                None if relations is None else relations[begin:end],
                None if marginals is None else marginals[begin:end].tolist(),
                shown.heads[begin:end].tolist() if has_truth else None,
                gold_relations,
            )
        )
    return trees


def _scores(corpus: DependencyCorpus, heads: np.ndarray, relations: Sequence[str] | None) -> str:
    """UAS, LAS and the rest, with and without punctuation."""
    both = [attachment_scores(corpus, heads, relations, punctuation=with_it) for with_it in (True, False)]
    rows = [
        (name, f"{100 * rate:.2f} %", f"{right:,} of {total:,}", f"{100 * other:.2f} %")
        for (name, right, total, rate), (_, _, _, other) in zip(both[0].rows(), both[1].rows(), strict=True)
    ]
    return html.table(("score", "all words", "", "without punctuation"), rows)


def _heading(number: int, tree: Tree, has_truth: bool) -> str:
    if not has_truth:
        return f"Sentence {number}"
    n_wrong = len(tree.wrong_heads())
    return f"Sentence {number}: " + (
        f"{n_wrong} of {len(tree.forms)} heads wrong" if n_wrong else "all heads right"
    )


def _lead(corpus: DependencyCorpus, n_shown: int, has_truth: bool, has_marginals: bool) -> str:
    text = f"{corpus.n_sentences:,} sentences, {corpus.n_words:,} words"
    if n_shown < corpus.n_sentences:
        text += f"; the first {n_shown:,} are drawn"
    if has_marginals:
        text += "; the fainter an arc, the less probable it is"
    if has_truth:
        text += "; wrong arcs are dashed, the true ones dotted below the words"
    return text + "."
