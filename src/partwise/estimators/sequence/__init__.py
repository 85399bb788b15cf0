"""Sequence labelling."""
