"""Recursions of projective trees (Eisner 1996).

Read `recursion.py` first: inside, outside and the way back to a tree, each written once for all semirings.
`oracle.py` uses it for sums, best trees and samples.
"""
