"""Training data encoded once to a folder, and trained on from there."""
