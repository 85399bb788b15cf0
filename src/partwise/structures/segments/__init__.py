"""Segmentations: semi-Markov chains of labelled segments of bounded length.

Read `semi_markov.py` first: the questions that users ask. `parts.py` encodes segmentations for solvers, `tags.py`
turns them into one tag per position, and `scores.py` says where the parts lie. `recursion.py` is the recursion on
scores: best segmentations, the k best, samples, and sums on logarithms. `forward_backward.py` has scaled sums, which
are faster. `spans.py` gives segments as spans with probabilities.
"""
