"""Sums over factor graphs by message passing: loopy and tree-reweighted belief propagation.

Read `sweeps.py` first: the iteration. `soft.py`, `counts.py` and `trees.py` compute the messages of one kind of
factor each, `entropy.py` the entropy of beliefs. `rows.py` and `forests.py` prepare a graph, `workspace.py` is its
form in compiled code, and `acceleration.py` makes sweeps converge faster.
"""
