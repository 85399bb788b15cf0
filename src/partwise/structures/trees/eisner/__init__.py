"""Recursions of projective trees (Eisner 1996).

Read `sums.py` first: the recursion, and sums in the linear domain. `logs.py` does the same on logarithms,
`maxima.py` finds the best tree.
"""
