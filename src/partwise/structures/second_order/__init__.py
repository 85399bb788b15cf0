"""Dependency trees with scores of pairs of arcs: siblings and grandparents.

Read `trees.py` first: the questions that users ask. `projective.py` and `spanning.py` are the two public classes.
`parts.py` encodes trees for solvers, and `tables.py` reads an example in compiled code. The folder `grand_siblings`
has the exact recursion of projective trees, the folder `consensus` the upper bound for spanning trees.
"""
