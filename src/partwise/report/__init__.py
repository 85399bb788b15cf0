"""Everything that people see of models and runs, on consoles and pages.

`output` opens consoles and writes JSON. `progress` and `path_table` are displays of training. `summary` gathers facts
about a model, `runs` reads the files of a report. `bundle` makes pages with a script (`static`), `html` pages without.
Read `summary` and `bundle` first.
"""
