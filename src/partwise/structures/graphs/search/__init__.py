"""The best labelling of a factor graph.

Read `branching.py` first: branch and bound with the bounds of message passing. `rounding.py` turns beliefs into a
labelling that obeys all rules.
"""
