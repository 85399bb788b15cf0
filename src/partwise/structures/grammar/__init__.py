"""Weighted context-free grammars in binary form, with unary rules.

Read `grammar.py` first: the questions that users ask. `parts.py` encodes derivations for solvers; `derivations.py`,
`nodes.py`, `spans.py` and `pruning.py` check and prepare them. `oracle.py` has the compiled answers: sums by
`inside.py` and `outside.py` (with `sparse.py`, `dense.py` and `scaling.py`), on logarithms by `logs.py`, the best
derivation by `best.py`. `paths.py` has the k best, `samples.py` samples, and `cells.py` where everything lies.
"""
