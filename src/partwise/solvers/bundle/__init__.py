"""Solvers that collect cutting planes: `cutting_plane.py`, with its compiled loops and a small quadratic programme."""
