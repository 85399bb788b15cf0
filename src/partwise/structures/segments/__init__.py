"""Segmentations: semi-Markov chains of labelled segments of bounded length.

Read `semi_markov.py` first: the questions that users ask. `parts.py` encodes segmentations for solvers, `tags.py`
turns them into one tag per position, and `scores.py` says where the parts lie. `forward_backward.py` has the sums in
compiled code and `viterbi.py` the best segmentation. `recursion.py` is one text for sums on logarithms, the k best,
and samples.
"""
