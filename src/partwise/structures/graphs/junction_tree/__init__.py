"""Exact inference in graphs by a junction tree (Lauritzen and Spiegelhalter 1988).

Read `programme.py` first: it turns a graph into a list of products and sums of tables, after `triangulation.py` has
made a tree of cliques. `tables.py` has the operations on tables. `recursion.py` runs the list over any semiring.
`oracle.py` uses it for sums and best labellings, `kbest.py` for the k best and samples.
"""
