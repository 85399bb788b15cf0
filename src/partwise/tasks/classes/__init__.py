"""Classification: one class per row.

`classifier` holds `Classifier`; read it first. `kernel` is the classifier with kernel functions. `data` and `encoding`
turn rows into problems, in memory and on disk. `task` is the command line and pages; `reading` and `streaming` read
libsvm, CSV and npz files.
"""
