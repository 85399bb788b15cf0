"""Loopy belief propagation for second-order spanning trees.

Read `messages.py` first: the factors, the order of messages, and Bethe's log-partition. `chains.py` has the factor of
all siblings on one side of a word.
"""
