"""Compile the kernels of `partwise.torch` for a card that need not be there, as the package itself launches them.

    python tests/support/compile_kernels.py 90 [small | usual | all | unknown]

Prints what each takes: registers, spilled bytes and shared memory. `usual` is what the tests compile, `all` every
number of warps and every size of tile that is launched. `unknown` compiles nothing of that: it launches as with a
version of Triton that partwise does not know. :func:`compare_launches` is what `small` and `unknown` compare.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import torch
import triton

if "unknown" in sys.argv:
    triton.__version__ = "9.0.0"

from absent_card import AbsentCard, use
from triton.runtime.jit import JITFunction

from partwise.structures import Chain, Grammar, Projective, SemiMarkov, Spanning
from partwise.torch.gpu import (
    chain,
    grammar,
    launch,
    ranked_chains,
    segments,
    tied_steps,
    trees,
    triton_hooks,
    wide_chain,
)
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.layouts.grammars import GrammarLayout
from partwise.torch.layouts.segments import SegmentLayout
from partwise.torch.layouts.trees import TreeLayout

# Labels of chains, words of trees and symbols of grammars, by how much is to be compiled.
LABELS = {"small": (16,), "usual": (64,), "all": (16, 32, 64, 128)}
WIDE = {"small": (), "usual": (200,), "all": (200,)}
SEGMENTED = {"small": (5,), "usual": (), "all": (5, 20, 60)}
WORDS = {"small": (15,), "usual": (31,), "all": (15, 31, 63, 127, 255)}
SYMBOLS = {"small": (), "usual": (20,), "all": (12, 20, 60, 100)}


def both_ways(kernels: Any, layout: Any, *scores: torch.Tensor, lengths: Any = None) -> Any:
    """Forward and backward, with a gradient as a sum of values gives it."""
    batch = layout.batch(scores, lengths, False)
    given = kernels.SUMS(batch, batch.scores)
    value = given.forward()
    given.backward(value, torch.ones((), dtype=value.dtype).expand(len(value)), together=True)
    return given


def compile_chains(n_labels: int, dtype: torch.dtype) -> None:
    layout, lengths = ChainLayout(Chain(n_labels)), torch.tensor([8, 3, 1, 2])
    node, tied = torch.zeros(4, 8, n_labels, dtype=dtype), torch.zeros(n_labels, n_labels, dtype=dtype)
    both_ways(chain, layout, node, tied, lengths=lengths)
    chain.best_labels(layout.batch((node, tied), lengths, False))
    for k in (5, ranked_chains.MOST):
        ranked_chains.kbest(layout.batch((node, tied), lengths, False), k)
    both_ways(chain, layout, node, torch.zeros(4, 7, n_labels, n_labels, dtype=dtype), lengths=lengths)


def compile_wide_chains(n_labels: int) -> None:
    layout, lengths = ChainLayout(Chain(n_labels)), torch.tensor([4, 1])
    for shape in ((n_labels, n_labels), (2, 3, n_labels, n_labels)):
        given = both_ways(
            wide_chain, layout, torch.zeros(2, 4, n_labels), torch.zeros(shape), lengths=lengths
        )
    given.best_tags()
    given.drawn_tags(2, torch.Generator())
    scores = torch.zeros(2, 4, n_labels), torch.zeros(n_labels, n_labels)
    both_ways(tied_steps, layout, *scores, lengths=lengths)


def compile_segments(n_labels: int) -> None:
    scores = torch.zeros(2, 8, 6, n_labels), torch.zeros(n_labels, n_labels)
    layout, lengths = SegmentLayout(SemiMarkov(n_labels, 6)), torch.tensor([8, 3])
    given = both_ways(segments, layout, *scores, lengths=lengths)
    given.best_tags()
    given.drawn_tags(2, torch.Generator())


def compile_trees(n_words: int) -> None:
    arcs = torch.zeros(2, n_words + 1, n_words + 1)
    for structure in (Projective(), Spanning()):
        both_ways(trees, TreeLayout(structure), arcs)
        trees.best_labels(TreeLayout(structure).batch((arcs,), torch.tensor([n_words, 1]), False))


def compile_grammars(n_symbols: int) -> None:
    rules = [(a, b, c) for a in range(10) for b in range(n_symbols) for c in range(n_symbols)]
    structure = Grammar(n_symbols, rules, unaries=[(0, 1)])
    word, span = torch.zeros(2, 3, n_symbols), torch.zeros(2, 3, 3, n_symbols)
    both_ways(grammar, GrammarLayout(structure), word, torch.zeros(structure.n_rules), span)


def compile_kernels(card: AbsentCard, which: str) -> None:
    """Fill ``card.usage``."""
    for n_labels in LABELS[which]:
        compile_chains(n_labels, torch.float32)
    if which == "all":
        compile_chains(5, torch.float64)
    for n_labels in WIDE[which]:
        compile_wide_chains(n_labels)
    for n_labels in SEGMENTED[which]:
        compile_segments(n_labels)
    for n_words in WORDS[which]:
        compile_trees(n_words)
    for n_symbols in SYMBOLS[which]:
        compile_grammars(n_symbols)


def compare_launches(card: AbsentCard) -> None:
    """Kept launches hand Triton's launcher what Triton itself does."""
    layout, lengths = ChainLayout(Chain(16)), torch.tensor([8, 3, 1, 2])
    node, edge = torch.zeros(4, 8, 16), torch.zeros(16, 16)
    looked_up, found, run = [], [], JITFunction.run
    launch.launcher_for.cache_clear()

    def counted(kernel: Any, *arguments: Any, **options: Any) -> Any:
        looked_up.append(kernel)
        return run(kernel, *arguments, **options)

    JITFunction.run = counted
    for _ in range(3):  # the first is Triton's own
        card.launched.clear()
        both_ways(chain, layout, node, edge, lengths=lengths)
        found.append([(name, given[:3], _comparable(given[9:])) for name, given in card.launched])
    JITFunction.run = run
    assert len(found[0]) == 3 and found[0] == found[1] == found[2], found
    assert len(looked_up) == (3 if triton_hooks.KEEPS else 9), looked_up


def _comparable(arguments: tuple[Any, ...]) -> list[Any]:
    return [tuple(each.shape) if isinstance(each, torch.Tensor) else each for each in arguments]


def main() -> None:
    card, which = use(int(sys.argv[1])), sys.argv[2] if len(sys.argv) > 2 else "usual"
    if which != "unknown":
        compile_kernels(card, which)
    if which in ("small", "unknown"):
        compare_launches(card)
    for each in card.usage:
        print(f"{each.name}\t{each.registers}\t{each.spilled}\t{each.shared}\t{each.options}")


if __name__ == "__main__":
    main()
