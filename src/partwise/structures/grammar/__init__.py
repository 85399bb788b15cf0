"""Weighted context-free grammars in binary form, with unary rules.

Read `grammar.py` first: the questions that users ask. `parts.py` encodes derivations for solvers; `derivations.py`,
`nodes.py`, `spans.py` and `pruning.py` check and prepare them. `recursion.py` is the recursion on scores over any
semiring: the best derivation, samples, and sums if the scaled sums of `inside.py` and `outside.py` underflow (these use
`sparse.py`, `dense.py` and `scaling.py`). `kbest.py` has the k best, `cells.py` says where everything lies, and
`oracle.py` holds the compiled answers. If anchored rules are parts, sums run over lists of them: `anchoring.py` makes
these by the compiled code of `listing.py`, and `anchored.py` replaces `sparse.py`.
"""
