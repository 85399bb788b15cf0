"""Solvers that move the weights."""
