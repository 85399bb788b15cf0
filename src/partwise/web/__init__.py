"""Pages about a model, in a report and on a local server.

`service` answers requests without HTTP; read it first. `server` is HTTP around it, `work` runs several requests at once
within a time limit. `sections` builds the content of a report.
"""
