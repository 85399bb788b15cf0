"""Dependency parsing: a head, and perhaps a relation, per word.

`parser` holds `DependencyParser`; read it first. `arc_encoder` makes features of arcs, `arc_pruning` removes improbable
arcs with a small model. `predictions` holds the answers of a fitted parser. `task` is the command line and pages.
"""
