"""Kernel functions k(x, x′) in place of features.

`functions.py` reads and checks kernel functions, `gram.py` holds kernel matrices. `problem.py`, the file to read first,
is a problem whose weights are coefficients of training rows. `block.py` is its compiled score and scatter, `support.py`
the part of a trained model that prediction needs.

Passes see rows with one attribute each, the row's own number. "Weights" are then a table of scores, and "expected
features" are coefficients. Visits go block by block of examples, each with its own piece of the kernel matrix.
"""
