"""Solvers that move weights and dual variables together."""
