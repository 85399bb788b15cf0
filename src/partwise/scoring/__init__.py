"""Scores of predictions against the truth.

`labelling` is for sequences of labels, `label_sets` for sets, `attachment` and `universal_attachment` for dependency
trees, `brackets` for constituents, `reliability` for probabilities. `metrics` and `flat` hold what they share; the
public functions are in `partwise.metrics`. Read `labelling` first.
"""
