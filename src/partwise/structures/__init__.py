"""Structures: what a labelling is made of, and all inference over it. Names load on first use.

Read `contract.py` first: what solvers ask of a structure. Each folder is one structure. `selection.py` and
`candidates.py` are one in a single file each. `packed.py` asks compiled code about many examples. `semirings.py` and
`ranked.py` let one text of a recursion give several answers: sums, best scores, samples and lists of the k best.
`lawler.py` has the k best of trees and graphs. `brute.py` enumerates labellings for tests. `checks.py` and `costs.py`
are shared by all.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "AtMostOne": "graphs.rules",
    "ExactlyK": "graphs.rules",
    "FactorGraph": "graphs.factor_graph",
    "Implication": "graphs.rules",
    "Knapsack": "graphs.rules",
    "Or": "graphs.rules",
    "RuledShape": "graphs.rules",
    "Tree": "graphs.rules",
    "XOR": "graphs.rules",
    "Structure": "contract",
    "Brute": "brute",
    "Multiclass": "multiclass.multiclass",
    "Candidates": "candidates",
    "Chain": "chain.chain",
    "ChainMarginals": "chain.chain",
    "FactorKind": "graphs.layout",
    "Graph": "graphs.graph",
    "GraphMarginals": "graphs.graph",
    "GraphShape": "graphs.layout",
    "Grammar": "grammar.grammar",
    "GrammarMarginals": "grammar.derivations",
    "AnchoredMarginals": "grammar.derivations",
    "AnchoredRules": "grammar.anchoring",
    "prune_rules": "grammar.pruning",
    "prune_spans": "grammar.pruning",
    "LabelledHeads": "trees.parts",
    "Projective": "trees.projective",
    "SegmentMarginals": "segments.semi_markov",
    "SecondOrderMarginals": "second_order.parts",
    "SecondOrderProjective": "second_order.projective",
    "SecondOrderSpanning": "second_order.spanning",
    "Selection": "selection",
    "SemiMarkov": "segments.semi_markov",
    "Spanning": "trees.spanning",
    "TreeMarginals": "trees.parts",
    "transition_mask": "chain.masks",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
