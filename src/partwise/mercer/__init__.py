"""Kernel functions k(x, x′) in place of features.

`functions.py` reads and checks kernel functions, `gram.py` holds kernel matrices. `problem.py`, the file to read first,
is a problem whose weights are coefficients of training rows. `block.py` is its compiled score and scatter, `support.py`
the part of a trained model that prediction needs.
"""
