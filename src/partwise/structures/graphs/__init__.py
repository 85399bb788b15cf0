"""Labels on the vertices of any graph, scored by vertices and by factors.

Read `graph.py` first: exact inference, by the folder `junction_tree`. `factor_graph.py` is approximate inference with
rules (`rules.py`): `message_passing.py` by the folders `messages` for sums and `search` for the best labelling.
`layout.py` defines the parts of a graph, `parts.py` encodes labels for solvers, and `scores.py` reads scores.
"""
