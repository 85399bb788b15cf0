"""Sets of labels: several labels per example, chosen together.

`classifier` holds `MultilabelClassifier`; read it first. `structure` is the graph over the labels, `predictions` holds
the answers of a fitted classifier. `task` is the command line and pages; `reading` reads libsvm lines with several
labels, and JSON lines.
"""
