"""Weighted context-free grammars in binary form with unary rules: `grammar.py` is what users call."""
