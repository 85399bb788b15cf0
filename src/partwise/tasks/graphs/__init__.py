"""Labels of the nodes of graphs.

`labeler` holds `GraphLabeler`; read it first. `given` checks users' graphs, `data` gathers them by kind, `encoder`
makes their features, `structures` chooses exact or approximate inference. `predictions` holds the answers of a fitted
labeler. `task` is the command line and pages.
"""
