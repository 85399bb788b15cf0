"""Dependency trees: projective and spanning."""
