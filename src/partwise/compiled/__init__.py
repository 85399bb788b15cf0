"""How Python functions become machine code, and the vector loops that all of it is made of.

`dispatch.py` has the decorators (read it first), `boundary.py` how compiled functions find each other by address.
`examples.py` is one example as passes see it, `oracles.py` what a structure answers, `rows.py` with `row_*.py` the rows
of features. `simd*.py` are vector loops. `cache_folder.py`, `background_compile.py` and `clock.py` keep compiled code,
compile in a second process and measure the time. `numba_hooks.py` holds everything that depends on Numba's insides.

Four traps of Numba, all met here:

- A function that calls itself cannot be loaded from the cache.
- Where a fragment is pasted in, a write to ``object.attribute[...]`` is dropped as dead code, unless the object is an
  argument. Give the array a name first.
- A loop that sums and also stores is added up in vectors or one by one, depending on what lies behind its arrays in
  memory. Equal runs then differ. Sum in a loop without stores.
- ``a, b = record.a, record.b`` with records in records can lose a later store to ``a``. Write one statement each.
"""
