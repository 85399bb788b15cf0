"""Sequence labelling: one label per position (chunks, names, parts of speech).

`labeler` holds `SequenceLabeler`; read it first. `kernel` is the labeler with kernel functions, `crf` the interface of
sklearn-crfsuite. `data` and `encoding` turn sequences into problems, in memory and on disk. `predictions` holds the
answers of a fitted labeler, `one` and `tagger` those for one sequence at a time. `task` is the command line and pages;
`reading` and `streaming` read its files.
"""
