"""Pages about a model: `sections` builds a report's content, `server` answers requests one example at a time.

Read `service` first: it is what a server does, without HTTP.
"""
