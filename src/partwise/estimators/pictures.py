"""What notebooks show of a fitted estimator: pictures of training, errors and probabilities, and a table of facts."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from partwise.errors import InputError
from partwise.report.plots import Picture, plot_bounds, plot_confusion, plot_reliability


class Pictures:
    """Pictures of all estimators. They need matplotlib."""

    history_: list[dict[str, Any]]
    tol: float

    def plot_convergence(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the objective and its lower bound by pass.

        Parameters
        ----------
        path : path, optional
            PNG file to write.

        Returns
        -------
        Picture
            The PNG image as bytes, which notebooks show.
        """
        self._require_fitted()  # type: ignore[attr-defined]
        return plot_bounds(self.history_, path)

    def plot_confusion(self, X: Any, y: Any = None, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the confusion matrix: rows are true labels, columns predicted ones.

        Parameters
        ----------
        X, y
            Labelled data, as for `score`.
        path : path, optional
            PNG file to write.

        Returns
        -------
        Picture
            The PNG image as bytes, which notebooks show.
        """
        found = self._evidence(X, y).confusion
        if found is None:
            raise InputError(f"{type(self).__name__} has no confusion matrix for these data")
        labels, matrix = found
        return plot_confusion(labels, matrix, path)

    def plot_reliability(self, X: Any, y: Any = None, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw how often predicted parts with probability p are true, by p.

        Parameters
        ----------
        X, y
            Labelled data, as for `score`.
        path : path, optional
            PNG file to write.

        Returns
        -------
        Picture
            The PNG image as bytes, which notebooks show.
        """
        from partwise.scoring.reliability import reliability

        found = self._evidence(X, y).predicted
        if found is None:
            raise InputError("this model's loss has beta = inf and so no probabilities")
        return plot_reliability(reliability(*found), path)

    def _evidence(self, X: Any, y: Any) -> Any:
        """What the task tells of labelled data. By name: tasks stand on estimators."""
        self._require_fitted()  # type: ignore[attr-defined]
        task = import_module("partwise.tasks").task_of(self)(self)
        return task.evidence(*task.examples(X, y))
