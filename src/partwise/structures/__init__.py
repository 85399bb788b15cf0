"""structures."""
