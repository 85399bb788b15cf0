"""Solvers that move the weights.

`lbfgs.py` and `gradient.py` (conjugate gradient) work on all examples at once: `line_search.py`, `curvature.py` (a
preconditioner), `mixture_bound.py` (lower bounds), `proximal.py` and `kronecker.py` (steps with an l1 term). `sgd.py`
and `mira.py` visit examples one after another. Read `gradient.py` first.
"""
