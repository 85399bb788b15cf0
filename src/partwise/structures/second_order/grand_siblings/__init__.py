"""The exact recursion of second-order projective trees (Koo and Collins 2010, model 1).

Read `recursion.py` first: inside over any semiring, and the way back for marginals, best trees and samples.
`sums.py` has the fast marginals from scaled weights. `oracle.py` chooses between them for solvers.
"""
