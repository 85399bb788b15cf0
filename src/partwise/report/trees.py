"""A parsed corpus as one page: scores, then trees, the worst first, with wrong arcs marked and true arcs beside."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from partwise.errors import InputError
from partwise.report import html
from partwise.report.tree_svg import Tree, tree_svg
from partwise.scoring.attachment import attachment_scores

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus

_STYLE = """
body { max-width: 76rem; }
.tree .word { font-size: 14px; }
.tree .tag, .tree .relation { font-size: 10.5px; fill: var(--soft); }
.tree .arc { fill: none; stroke: var(--dual); stroke-width: 1.6; }
.tree .tip { fill: var(--dual); }
.tree .wrong .arc { stroke: var(--wrong); stroke-dasharray: 6 3; }
.tree .wrong .tip, .tree text.wrong { fill: var(--wrong); }
.tree .gold .arc { stroke: var(--right); stroke-dasharray: 2 3; }
.tree .gold .tip, .tree .gold .relation { fill: var(--right); }
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
    """A self-contained page of trees.

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
        Trees beyond this many are left out; scores are of all. Where the truth is known the worst come first.

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
    trees = _trees(corpus, heads, relations, marginals, has_truth)
    order = sorted(range(len(trees)), key=lambda number: _errors(trees[number]), reverse=True)[:most]
    sections = [("Scores", _scores(corpus, heads, relations))] if has_truth else []
    if has_truth or marginals is not None:
        sections.append(("Legend", _legend(has_truth, marginals is not None)))
    for number in order:
        tree = trees[number]
        body = f'<div class="tree">{tree_svg(tree)}</div>'
        sections.append((_heading(number + 1, tree, has_truth), body))
    return html.page(title, _lead(corpus, len(order), has_truth), sections, _STYLE)


def _trees(
    corpus: DependencyCorpus,
    heads: np.ndarray,
    relations: Sequence[str] | None,
    marginals: np.ndarray | None,
    has_truth: bool,
) -> list[Tree]:
    trees = []
    marginals = None if marginals is None else np.asarray(marginals)
    tags = corpus.coarse_tags if set(corpus.coarse_tags) != {"_"} else corpus.fine_tags
    gold_relations = corpus.relations if has_truth and relations is not None else None
    for begin, end in pairwise(corpus.sentence_ptr.tolist()):
        trees.append(
            Tree(
                corpus.forms[begin:end],
                tags[begin:end],
                heads[begin:end].tolist(),
                None if relations is None else relations[begin:end],
                None if marginals is None else marginals[begin:end].tolist(),
                corpus.heads[begin:end].tolist() if has_truth else None,
                gold_relations[begin:end] if gold_relations else None,
            )
        )
    return trees


def _errors(tree: Tree) -> tuple[int, int]:
    return len(tree.wrong_heads()), len(tree.wrong_relations())


def _scores(corpus: DependencyCorpus, heads: np.ndarray, relations: Sequence[str] | None) -> str:
    """Attachment scores, with and without punctuation."""
    both = [attachment_scores(corpus, heads, relations, punctuation=with_it) for with_it in (True, False)]
    rows = [
        (name, f"{100 * rate:.2f} %", f"{right:,} of {total:,}", f"{100 * other:.2f} %")
        for (name, right, total, rate), (_, _, _, other) in zip(both[0].rows(), both[1].rows(), strict=True)
    ]
    return html.table(("score", "all words", "", "without punctuation"), rows)


def _heading(number: int, tree: Tree, has_truth: bool) -> str:
    if not has_truth:
        return f"Sentence {number}"
    heads, relations = _errors(tree)
    text = f"{heads} of {len(tree.forms)} heads wrong" if heads else "all heads right"
    return f"Sentence {number}: {text}" + (
        f", {relations} relation{'s' * (relations > 1)} wrong" if relations else ""
    )


def _legend(has_truth: bool, has_marginals: bool) -> str:
    entries = [("", "predicted")]
    if has_truth:
        entries += [("wrong", "predicted, but wrong"), ("right", "the truth, below words with a wrong head")]
    if has_marginals:
        entries.append(("faint", "the fainter, the less probable"))
    return html.legend(entries)


def _lead(corpus: DependencyCorpus, n_shown: int, has_truth: bool) -> str:
    text = f"{corpus.n_sentences:,} sentences, {corpus.n_words:,} words"
    if n_shown < corpus.n_sentences:
        text += f"; the {'worst' if has_truth else 'first'} {n_shown:,} are drawn"
    elif has_truth:
        text += "; the worst first"
    return text + ". An arc leads from a word's head to the word; rest the pointer on it to read what it is."
