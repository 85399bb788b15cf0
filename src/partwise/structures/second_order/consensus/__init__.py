"""An upper bound on the log-partition of second-order spanning trees, and a good tree from its marginals.

Read `bound.py` first: the bound, and L-BFGS that makes it small. `head_automata.py` sums over one word with its head
and modifiers, on logarithms in `head_automata_logs.py`. `climbing.py` improves a tree arc by arc. `oracle.py` has the
answers for solvers. `search.py` finds the best tree by branch and bound.
"""
