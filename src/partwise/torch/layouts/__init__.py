"""How the score tensors of each structure are read.

`base.py` has the base class `Layout` and the batch of scores (read it first); the other files have one layout per
structure. `part_map.py` says which parts the entries of a tensor score, `arrangement.py` collects these maps for a
batch.
"""
