"""Features as integer keys, in compiled code.

Read `records.py` first: what crosses into compiled code. `program.py` turns templates into numbers, `rows.py` computes
the keys of a row from them, `tables.py` counts and finds keys, and `counter.py` chooses which become features.
"""
