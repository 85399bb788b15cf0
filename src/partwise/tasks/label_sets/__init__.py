"""Several labels of one example at once."""
