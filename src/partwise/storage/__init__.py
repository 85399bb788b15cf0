"""Model files and atomic writes."""
