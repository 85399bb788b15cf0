"""Segmentation: labelled segments of sequences, learnt without labels of single positions."""
