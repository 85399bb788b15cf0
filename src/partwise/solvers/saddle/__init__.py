"""Solvers that move weights and dual variables together: `extragradient.py` and `excessive_gap.py`."""
