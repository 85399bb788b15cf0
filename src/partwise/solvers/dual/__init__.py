"""Solvers that move the dual variables of one example (or of all) at a time.

Read `exponentiated_gradient.py` first; `potentials.py` is its dual point, `coded.py` the lean form, `acceleration.py`
the acceleration. Solvers for β = ∞ share `hard.py`: `block_coordinate.py`, `crammer_singer.py`, `chain_cd.py`. `smo.py`
keeps marginals, `batch_gradient.py` moves all examples at once, and `mixtures.py` trains on partial labels.
`simplex_qp.py` is for quadratic programmes without a structure.
"""
