"""Label sequences, scored by labels and by runs of neighbours.

Read `chain.py` first: the questions that users ask. `parts.py` encodes labels for solvers, `scores.py` reads scores,
and `masks.py` says which chunk labels may follow each other. `forward_backward.py` (order 1) and `high_order.py` have
the sums in compiled code, `viterbi.py` and `high_order_viterbi.py` the best labelling. `recursion.py` is one text for
chains of any order: sums on logarithms, the k best, and samples.
"""
