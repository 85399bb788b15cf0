"""Sums over spanning trees (matrix-tree theorem), and the best spanning tree.

Read `sums.py` first: elimination in the linear domain. `block.py` eliminates eight words side by side, and
`logs.py` eliminates on logarithms. `chu_liu_edmonds.py` finds the best tree.
"""
