"""Segmentation: labelled segments of sequences, learnt without labels of single positions.

`labeler` holds `SegmentLabeler`; read it first. `data` reads segments and chunk tags, `encoder` makes features of
segments, `predictions` holds the answers of a fitted labeler, `task` is the command line and pages.
"""
