"""Encoded data bound to a structure, a loss and a regulariser: all that a solver sees.

Read `problem.py` first. A :class:`~partwise.core.problem.Problem` has a `Scorer` (`scorer.py`): rows of features
(`rows.py`), where their weights lie (`maps.py`), and passes over all examples (`batch_pass.py`, `predict_pass.py`).
`one_example.py` answers a single example in microseconds, from coded attributes (`attribute_codes.py`).
`partial.py` is for labels that are known in part, `streamed.py` for data on disk, `products.py` for dense rows. The
rest are small helpers: arrays with offsets, arcs of trees, random numbers, memory limits.
"""
