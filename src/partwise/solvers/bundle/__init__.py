"""Solvers that collect cutting planes."""
