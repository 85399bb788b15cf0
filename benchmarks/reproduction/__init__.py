"""The experiments of five papers, one module each; `reproduce.py` runs and draws them."""
