"""The exact recursion of second-order projective trees (Koo and Collins 2010, model 1).

Read `sums.py` first: the recursion, and sums in the linear domain. `logs.py` is the same recursion on logarithms for
sums, best trees and samples. `oracle.py` chooses between the two for solvers.
"""
