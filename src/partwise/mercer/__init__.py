"""Kernel functions k(x, x′) in place of features."""
