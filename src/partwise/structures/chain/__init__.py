"""Label sequences, scored by labels and by runs of neighbours.

Read `chain.py` first: the questions that users ask. `parts.py` encodes labels for solvers, `scores.py` reads scores,
and `masks.py` says which chunk labels may follow each other. `recursion.py` is the recursion of chains of any order on
scores: best labellings, the k best, samples, and sums on logarithms. `forward_backward.py` (order 1) and
`high_order.py` have scaled sums, which are faster. `spans.py` has probabilities of spans of labels, and
`span_labels.py` the best labels for given spans.
"""
