"""Segmentations: semi-Markov chains of labelled segments of bounded length."""
