"""A model behind a local port: a page for people, JSON for programs."""
