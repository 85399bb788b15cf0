"""Shows griffe, which reads sources, the docstrings that estimators have when they are imported."""

from __future__ import annotations

from typing import Any

import griffe


class CompletedDocstrings(griffe.Extension):
    """Estimators inherit descriptions of parameters from their base classes (``partwise.estimators.docstrings``)."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the docstring of an estimator."""
        if cls.docstring and cls.path.startswith("partwise.tasks."):
            cls.docstring.value = griffe.dynamic_import(cls.path).__doc__ or ""
