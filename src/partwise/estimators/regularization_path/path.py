"""`RegularizationPath`: an estimator trained at one value of l2 after another, and the best of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.data.frames import frame_of
from partwise.errors import InputError
from partwise.estimators.base import StructuredEstimator, n_threads
from partwise.estimators.protocol import Estimator, not_fitted
from partwise.estimators.regularization_path.choice import cross_validated, set_choice
from partwise.estimators.regularization_path.dev import Prepared, dev_score, n_examples, with_l2
from partwise.estimators.regularization_path.file import PathFile
from partwise.estimators.regularization_path.folds import Lane, held_out_score
from partwise.estimators.regularization_path.run import PathRun, Point
from partwise.estimators.regularization_path.values import START, STOP, checked_values, geometric_values
from partwise.solvers import Solution, Solver
from partwise.storage.atomic import writable_target


@dataclass(eq=False, repr=False)
class RegularizationPath(Estimator):
    """Train an estimator along a path of l2, from large to small, each value from the solution before.

    Parameters
    ----------
    estimator : estimator of this package
        It is cloned; its `l2` does not matter, and its `tol` is the relative gap that every value is trained to.
    start, stop : float
        Largest and smallest value.
    ratio : float
        Between neighbours, below 1.
    values : array_like or None
        The values themselves, instead.
    cv : int, splitter or None
        Score every value by cross-validation on the training data instead of dev data. The rows are encoded once and
        shared by all folds: features that only held-out examples have keep the weight zero. Folds are trained in
        `n_jobs` threads of the estimator.
    patience : int
        The path stops early when so many values in a row score clearly below the best.
    train_scores : bool
        Also score the training data at every value.
    file : path or None
        File that keeps all points, and while the path is under way what it takes to go on.
    callback : callable or None
        Called with the record of every point, as in `results_`, and the `score_name`; return True to stop.
    verbose : int
        1 prints a line a value.

    Attributes
    ----------
    l2_, objectives_, passes_ : ndarray (n_values,)
        Of the values tried.
    dev_scores_ : ndarray (n_values,) or None
        By the score that fits the task: F1 of chunks, segments or constituents, labelled attachment, accuracy.
    scores_ : ndarray (n_folds, n_values)
        With `cv`.
    results_ : list of dict
        Per value l2, objective, dual_objective, gap (relative), converged, passes, seconds, cpu_seconds,
        train_score, dev_score, scores, active_weights.
    best_l2_, best_score_ : float
    best_estimator_ : estimator
        Fitted at the best value; there where values were scored. Of equal scores the largest l2 is the best.
    stop_reason_ : str

    Examples
    --------
    >>> from partwise import Classifier, RegularizationPath
    >>> X, y = [[0.0], [0.2], [0.9], [1.0]] * 3, [0, 0, 1, 1] * 3
    >>> path = RegularizationPath(Classifier(), start=10, ratio=0.1, stop=0.01).fit(X, y, X, y)
    >>> path.l2_.round(3).tolist(), path.best_score_
    ([10.0, 1.0, 0.1, 0.01], 1.0)
    """

    estimator: Any
    start: float = START
    ratio: float = 0.7
    stop: float = STOP
    _: KW_ONLY
    values: Any = None
    cv: Any = None
    patience: int = 3
    train_scores: bool = False
    file: str | os.PathLike[str] | None = None
    callback: Callable[[dict[str, Any]], bool | None] | None = None
    verbose: int = 0

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_dev: Any = None,
        y_dev: Any = None,
        sample_weight: Any = None,
        *,
        resume: bool = False,
    ) -> RegularizationPath:
        """Follow the path.

        Parameters
        ----------
        X, y, sample_weight
            As for the estimator's `fit`.
        X_dev, y_dev
            Labelled data that values are scored on; without them, and without `cv`, no value is the best.
        resume : bool
            Go on with the path in `file`, exactly as if it had not been interrupted; from the start if there is none.
        """
        values = self._checked_values()
        has_dev = X_dev is not None or y_dev is not None
        if has_dev and self.cv is not None:
            raise InputError("values of l2 are scored on dev data or by cv: give one of them")
        if resume and self.file is None:
            raise InputError("resume=True needs file, the path to go on with")
        trained = self._fresh(values[0])
        followed: list[PathRun] = []

        def follow(estimator: Any, problem: Problem, encoder: Any, source: Any) -> tuple[Solver, Solution]:
            run = PathRun(
                [],
                values,
                self.patience,
                n_threads=n_threads(estimator.n_jobs),
                time_limit=estimator.time_limit,
            )
            prepared = Prepared(copy(estimator), encoder, source)
            self._set_lanes(run, prepared, problem, (X_dev, y_dev) if has_dev else None)
            self._follow(run, estimator, resume)
            if not run.points:
                raise KeyboardInterrupt
            followed.append(run)
            self._prepared = prepared
            point = run.points[run.best()]
            return point.solver, point.solution

        follow.by_folds = self.cv is not None  # type: ignore[attr-defined]
        trained._follow = follow
        try:
            trained.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        finally:
            del trained._follow
        self._set_results(trained, followed[0])
        return self

    def _checked_values(self) -> list[float]:
        if not isinstance(self.estimator, StructuredEstimator):
            raise InputError(f"estimator must be one of partwise's, not {self.estimator!r:.60}")
        patience: Any = self.patience
        if isinstance(patience, bool) or not isinstance(patience, (int, np.integer)) or patience < 1:
            raise InputError(f"patience must be an integer of at least 1, not {patience!r:.40}")
        if self.values is not None:
            return checked_values(self.values)
        return geometric_values(self.start, self.stop, self.ratio)

    def _fresh(self, l2: float) -> Any:
        """The estimator as it would be before any fit, at one value."""
        fresh = type(self.estimator)(**self.estimator.get_params(deep=False))
        return with_l2(fresh, l2)

    def _set_lanes(
        self, run: PathRun, prepared: Prepared, problem: Problem, dev: tuple[Any, Any] | None
    ) -> None:
        estimator = prepared.estimator
        if self.cv is not None:
            run.lanes = cross_validated(estimator, problem, self.cv, run)
        else:
            run.lanes = [Lane(copy(estimator), problem)]
        if dev is not None:
            run.lanes[0].score = dev_score(prepared, problem, *dev)
            run.n_examples = n_examples(dev[0] if dev[0] is not None else dev[1])
        if self.train_scores:
            run.train_score = held_out_score(estimator, problem, np.arange(problem.n_examples))

    def _follow(self, run: PathRun, estimator: Any, resume: bool) -> None:
        if self.file is not None:
            kept = PathFile(self.file, estimator)
            run.keep = kept.save
            if resume and os.path.exists(self.file):
                kept.load(run)
                for k in range(len(run.points)):
                    self._tell(run, k)
            else:
                writable_target(self.file)
        run.tell = self._tell
        run.follow()

    def _tell(self, run: PathRun, k: int = -1) -> None:
        point = run.points[k]
        if self.verbose:
            print(one_line(point))
        record = point.record() | {"score_name": run.lanes[0].estimator._score_name}
        if self.callback is not None and self.callback(record):
            run.ended = run.ended or f"stopped by the callback after l2 = {point.l2:g}"

    def _set_results(self, trained: Any, run: PathRun) -> None:
        self._run, points = run, run.points
        self.results_ = [point.record() for point in points]
        self.l2_ = np.array([point.l2 for point in points])
        self.objectives_ = np.array([record["objective"] for record in self.results_])
        self.passes_ = np.array([record["passes"] for record in self.results_])
        self.stop_reason_ = run.ended
        self.dev_scores_ = None
        if points[-1].scores:
            best = points[run.best()]
            self.dev_scores_ = np.array([point.score for point in points])
            self.best_l2_, self.best_score_ = best.l2, best.score
            self.best_estimator_ = with_l2(trained, best.l2)
        if self.cv is not None:
            self.scores_ = run.scores().T.copy()
            set_choice(self.best_estimator_, run)

    # -- afterwards -----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in ("best_estimator_", "best_l2_", "best_score_") and "l2_" in self.__dict__:
            raise AttributeError(f"there is no {name}: values were not scored; give dev data, or cv")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def estimator_at(self, l2: float) -> Any:
        """The fitted estimator at one of the values of the path.

        Parameters
        ----------
        l2 : float
            One of `l2_`.
        """
        self._require_fitted()
        at = int(np.argmin(np.abs(np.log(self.l2_) - np.log(l2)))) if l2 > 0 else 0
        if not np.isclose(self.l2_[at], l2, rtol=1e-6):
            values = ", ".join(f"{each:.6g}" for each in self.l2_)
            raise InputError(f"l2={l2!r:.40} is not on the path, which has {values}")
        point = self._run.points[at]
        return self._prepared.at(point.solver, point.solution)

    def predict(self, X: Any) -> Any:
        """Predictions of the best estimator."""
        self._require_fitted()
        return self.best_estimator_.predict(X)

    def score(self, X: Any, y: Any = None) -> float:
        """The best estimator's `score`."""
        self._require_fitted()
        return self.best_estimator_.score(X, y)

    def plot_path(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """Draw scores, objectives and passes over l2.

        Parameters
        ----------
        path : path, optional
            PNG file to write.

        Returns
        -------
        Picture
            The PNG image as bytes, which notebooks show.
        """
        from partwise.report.path_plot import plot_path

        self._require_fitted()
        return plot_path(self.results_, path, self._prepared.estimator._score_name)

    plot = plot_path

    def to_frame(self) -> Any:
        """The points of the path as a pandas DataFrame: the entries of `results_`."""
        self._require_fitted()
        return frame_of(self.results_)

    def _require_fitted(self) -> None:
        if "l2_" not in self.__dict__:
            raise not_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "l2_" in self.__dict__

    def __getstate__(self) -> dict[str, Any]:
        """Without what is as large as the training data: `estimator_at` is then no longer there."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_run", "_prepared")}


def one_line(point: Point) -> str:
    """A point in words."""
    gap = point.solution.certificate.relative_gap
    score = "" if point.score is None else f"  score {point.score:.4f}"
    return f"l2 {point.l2:<10.4g} objective {point.solution.certificate.primal:<12.7g} gap {gap:.1e}{score}"
