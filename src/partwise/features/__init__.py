"""Features: from words and attributes to sparse rows of integers.

    columns --functions--> values --numbered--> codes --digits of templates--> keys --open table--> feature numbers

`templates/` is the one language of templates, `functions.py` the registry of its functions, `presets.py` the named
sets. `engine.py` does all of the above for every kind of row; `keys/` is its compiled part. The kinds are in
`attributes.py` (tokens; `streamed.py` if they do not fit into memory; `one_sentence.py` for tokens of one sentence, in
microseconds), `segments.py`, and by way of `listed.py` in `arcs.py` (also siblings and grandparents) and `spans.py`
(also words and splits). `vocabulary.py` encodes attributes that users made. Read `templates/__init__.py` first, then
`engine.py`.
"""
