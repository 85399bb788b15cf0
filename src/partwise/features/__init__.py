"""Features: from words and attributes to sparse rows of integers.

    columns --functions--> values --numbered--> codes --digits of templates--> keys --open table--> feature numbers

`templates.py` is the one language of templates, `functions.py` the registry of its functions, `presets.py` the named
sets. `engine.py` does all of the above for every kind of row: `program.py` turns templates into numbers, `keys.py` is
the compiled part. The kinds are in `attributes.py` (tokens; `streamed.py` if they do not fit into memory),
`one_sentence.py` (tokens of one sentence, in microseconds), `segments.py`, `arcs.py` (also siblings and grandparents)
and `spans.py` (also words and splits). `vocabulary.py` encodes attributes that users made. Read `templates.py` first,
then `engine.py`.
"""
