"""Choosing l2: a path of values, each trained from the solution before; folds; what is kept of it on disk."""
