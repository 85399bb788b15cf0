"""Plain classes."""
