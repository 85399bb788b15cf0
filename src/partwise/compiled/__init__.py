"""How Python functions become machine code, and the vector loops that all of it is made of.

`dispatch.py` has the decorators (read it first), `kernels.py` how Python calls compiled functions, `boundary.py` how
they find each other by address. `examples.py` is one example as passes see it, `oracles.py` what a structure answers,
`rows.py` with `row_*.py` the rows of features. `simd*.py` are vector loops.

`machine_code.py` finds the machine code of a function: in the shipped library (`library.py`, made by `build.py` from
the list `kernels.txt`), among what earlier processes compiled, or from the compiler (`numba_compiler.py`, the only file
that knows Numba). `background_compile.py` compiles in a second process, `clock.py` measures the time.

Four traps of Numba, all met here:

- A function that calls itself cannot be loaded from the cache.
- Where a fragment is pasted in, a write to ``object.attribute[...]`` is dropped as dead code, unless the object is an
  argument. Give the array a name first.
- A loop that sums and also stores is added up in vectors or one by one, depending on what lies behind its arrays in
  memory. Equal runs then differ. Sum in a loop without stores.
- ``a, b = record.a, record.b`` with records in records can lose a later store to ``a``. Write one statement each.
"""
