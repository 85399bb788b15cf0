"""A path on disk: every point as what changed since the one before, and the state to go on from.

The container is that of model files (`storage/model_file.py`): arrays and JSON with a checksum, nothing that can
execute, written whole or not at all. While a path is under way the file also holds the dual variables of every lane,
so that a path that was killed goes on where it was, bit for bit; the last write leaves them out.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.regularization_path.run import PathRun, Point
from partwise.solvers import Certificate, Record, Solution, StopReason, WarmStart
from partwise.solvers.checkpoint import copied, state_like, with_present_names
from partwise.solvers.driver import with_precision
from partwise.solvers.fingerprint import fingerprint
from partwise.storage.checks import expect_array
from partwise.storage.model_file import load_model, save_model

KIND = "RegularizationPath"
_DENSE = 0.5  # share of changed weights above which all of them take less room than numbers and values


class PathFile:
    """Where a path is kept.

    Parameters
    ----------
    path : path
    estimator : StructuredEstimator
        The one that is trained along the path.
    """

    def __init__(self, path: str | os.PathLike[str], estimator: Any):
        self.path, self.estimator = path, estimator

    def made_with(self, run: PathRun) -> dict[str, Any]:
        """What must be the same for a path to go on."""
        known = fingerprint(run.lanes[0].problem)
        del known["l2"]
        settings = {name: getattr(self.estimator, name) for name in ("tol", "max_passes", "random_state")}
        return {
            **known,
            "solver": repr(self.estimator.solver),
            **{name: repr(value) for name, value in settings.items()},
            "values of l2": [float(each) for each in run.values],
            "patience": run.patience,
            "folds": [fingerprint(lane.problem)["features"] for lane in run.lanes[1:]],
        }

    def save(self, run: PathRun) -> None:
        """Write all points, and the state of the lanes unless the path has ended."""
        arrays: dict[str, np.ndarray] = {}
        before = np.zeros(len(run.points[0].solution.weights), np.float32)
        for k, point in enumerate(run.points):
            weights = point.solution.weights.astype(np.float32)
            changed = np.flatnonzero(weights.view(np.int32) != before.view(np.int32))
            if len(changed) > _DENSE * len(weights):
                arrays[f"point{k}.weights"] = weights
            else:
                arrays[f"point{k}.places"], arrays[f"point{k}.values"] = changed, weights[changed]
            before = weights
        if not run.ended:
            for j, lane in enumerate(run.lanes):
                assert lane.before is not None
                arrays |= {
                    f"lane{j}.{name}": np.asarray(a) for name, a in lane.before.state._asdict().items()
                }
        header = {
            "estimator": KIND,
            "made_with": self.made_with(run),
            "points": [_plain(point) for point in run.points],
            "results": [point.record() for point in run.points],
            "ended": run.ended,
        }
        save_model(self.path, header, arrays)

    def load(self, run: PathRun) -> None:
        """Bring `run` to where the file is; InputError where it belongs to something else, or is damaged."""
        header, arrays = load_model(self.path)
        if header.get("estimator") != KIND:
            raise InputError(
                f"this is a model file ({header.get('estimator')!r:.40}), not a path to go on with", self.path
            )
        made_with = header.get("made_with")
        for name, value in self.made_with(run).items():
            if not isinstance(made_with, dict) or with_present_names(made_with.get(name)) != value:
                raise InputError(
                    f"this path was made with another {name}: use the same data and settings, or another file",
                    self.path,
                )
        try:
            self._restore(run, header, arrays)
        except InputError as error:
            raise InputError(f"damaged path file: {error}", self.path) from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"damaged path file ({type(error).__name__}: {error!s:.80})", self.path
            ) from None
        self._check_scores(run)

    def _restore(self, run: PathRun, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        problem, points = run.lanes[0].problem, []
        weights = np.zeros(problem.n_weights, np.float32)
        if not 0 < len(header["points"]) <= len(run.values):
            raise InputError("it has no points, or too many")
        for k, (l2, stored) in enumerate(zip(run.values, header["points"], strict=False)):
            weights = _weights(arrays, k, weights)
            points.append(self._point(stored, problem.with_l2(l2), weights.astype(np.float64)))
        ended = header["ended"]
        if not isinstance(ended, str):
            raise InputError("it does not say whether it ended")
        l2 = points[-1].l2
        for j, lane in enumerate(run.lanes if not ended else []):
            there = lane.problem.with_l2(l2)
            solver = with_precision(self.estimator._solver_for(there), self.estimator.tol)
            own = {n.removeprefix(f"lane{j}."): a for n, a in arrays.items() if n.startswith(f"lane{j}.")}
            # Arrays of files are views of it.
            lane.before = WarmStart(there, copied(state_like(solver.template(there, own.keys()), own)))
        run.points, run.ended = points, ended

    def _point(self, stored: dict[str, Any], problem: Any, weights: np.ndarray) -> Point:
        certificate = Certificate(**stored["certificate"], weights=weights)
        history = [Record(**each) for each in stored["history"]]
        reason = StopReason[stored["stop_reason"]]
        solution = Solution(problem, weights, None, certificate, history, reason, float(stored["passes"]))
        return Point(
            self.estimator._solver_for(problem),
            solution,
            tuple(float(each) for each in stored["scores"]),
            None if stored["train_score"] is None else float(stored["train_score"]),
            float(stored["seconds"]),
            float(stored["cpu_seconds"]),
            float(stored["solving_cpu_seconds"]),
        )

    def _check_scores(self, run: PathRun) -> None:
        """The first lane's score of the last point must come out as it did: else the dev data are others."""
        score, last = run.lanes[0].score, run.points[-1]
        if (score is None) != (len(last.scores) != 1) and len(run.lanes) == 1:
            raise InputError("this path was made with dev data, or without: use the same", self.path)
        if score is not None and not np.isclose(score(last.solver, last.solution), last.scores[0], atol=1e-4):
            raise InputError(
                "this path was made with other dev data: use the same, or another file", self.path
            )


def _plain(point: Point) -> dict[str, Any]:
    certificate = point.solution.certificate
    return {
        "certificate": {
            name: getattr(certificate, name)
            for name in ("primal", "dual", "drift", "kind", "negative_losses", "rounding", "noise")
        },
        "history": [record.as_dict() for record in point.solution.history],
        "stop_reason": point.solution.stop_reason.name,
        "passes": point.solution.passes,
        "scores": list(point.scores),
        "train_score": point.train_score,
        "seconds": point.seconds,
        "cpu_seconds": point.cpu_seconds,
        "solving_cpu_seconds": point.solving_cpu_seconds,
    }


def _weights(arrays: dict[str, np.ndarray], k: int, before: np.ndarray) -> np.ndarray:
    """Of point k, from those of the point before."""
    if f"point{k}.weights" in arrays:
        return expect_array(arrays, f"point{k}.weights", np.float32, shape=before.shape)
    places = expect_array(arrays, f"point{k}.places", np.int64, low=0, high=len(before))
    result = before.copy()
    result[places] = expect_array(arrays, f"point{k}.values", np.float32, shape=places.shape)
    return result
