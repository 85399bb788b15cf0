"""Data bound to a structure, a loss and a regulariser: what every solver sees."""
