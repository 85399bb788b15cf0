"""Solvers that move the dual variables of one example (or of all) at a time."""
