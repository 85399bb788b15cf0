"""Labelling of nodes of graphs, and several labels at once."""
