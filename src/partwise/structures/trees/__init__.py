"""Dependency trees, projective or not, with scores of arcs and relations.

Read `trees.py` first: the questions that users ask. `projective.py` and `spanning.py` are the two public classes.
`parts.py` encodes trees for solvers. `arc_tables.py` is the common compiled code of both kinds of trees.
The folder `eisner` has the recursions of projective trees, the folder `matrix_tree` those of spanning trees.
"""
