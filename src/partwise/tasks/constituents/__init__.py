"""Constituency parsing: a tree of labelled spans per sentence.

`parser` holds `ConstituencyParser`; read it first. `derivations` turns trees into derivations of a grammar and back,
`encoder` makes features of words and spans. `predictions` holds the answers of a fitted parser. `task` is the command
line and pages.
"""
