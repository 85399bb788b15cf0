"""Features: from words and attributes to sparse rows of integers.

Templates name the features. `functions.py` is the one registry of string functions for all of them. `templates.py`
and `attributes.py` serve tokens, `segment_templates.py` and `segments.py` segments, `place_templates.py` and
`place_features.py` arcs, siblings, grandparents and spans. `vocabulary.py` encodes attributes that users made.
Read `templates.py` first, then `place_features.py`.
"""
