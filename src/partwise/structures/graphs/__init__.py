"""Labels on the vertices of graphs."""
