"""One label per example: plain classes.

`multiclass.py` has the questions that users ask, `softmax.py` the compiled answers. They are the smallest structure;
read them before you write one.
"""
