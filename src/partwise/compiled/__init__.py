"""How code is compiled, vector loops, what structures answer, one example's rows."""
