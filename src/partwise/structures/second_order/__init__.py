"""Dependency trees that score siblings and grandparents too."""
