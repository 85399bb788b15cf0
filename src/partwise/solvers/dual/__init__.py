"""Solvers that move the dual variables of one example (or of all) at a time.

Read `exponentiated_gradient.py` first; `potentials.py` is its dual point, `coded.py` the lean form, `acceleration.py`
the acceleration. Solvers for β = ∞ share `hard.py`: `block_coordinate.py`, `crammer_singer.py`, `chain_cd.py`. `smo.py`
keeps marginals, `batch_gradient.py` moves all examples at once, and `mixtures.py` trains on partial labels.
`simplex_qp.py` is for quadratic programmes without a structure, `simplex_convex.py` for other convex functions.

A solver that visits examples chooses four things, independently of each other: the target of a visit (the model's
distribution, or a best labelling), the path to the target (geometric, arithmetic, between labellings), the step
(halving, the top of a parabola, closed form), and the next example. The next example is chosen by `sampling.py` for all
of them. Threads visit together on one v, and hold a lock while a step is tried; or each has a copy of v, and the copies
are combined after every round (CoCoA+).
"""
