"""The files of a report: model files, checkpoints, records of runs and of paths, whole or damaged.

Damaged files are read as far as possible: the training curve of a model may be there although its weights are damaged.
`note` says in one line what is wrong.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.storage.header import restored
from partwise.storage.model_file import estimator_from, load_model

_PATH_KIND = "RegularizationPath"
_LARGEST = 1 << 30  # bytes of a record that is read as JSON
_POINT = ("passes", "seconds", "primal", "dual", "gap", "relative_gap")
PATH_POINT = ("l2", "objective", "gap", "passes", "seconds", "dev_score")


@dataclass
class Given:
    """One file of a report.

    Attributes
    ----------
    name : str
        The path as it was given.
    kind : {"model", "checkpoint", "record", "path", "damaged"}
    history : list of dict
        Certified points of the run, with finite ``passes``; see `partwise.solvers.base.Record`.
    path : list of dict
        Points of a regularisation path: ``l2``, ``objective``, ``gap``, ``passes``, ``seconds``, ``dev_score``.
    tol : float or None
    model : estimator or None
    header : dict
        Of the model file.
    note : str
        What is wrong, or not finished, in one line.
    """

    name: str
    kind: str
    history: list[dict[str, float]] = field(default_factory=list)
    path: list[dict[str, float]] = field(default_factory=list)
    tol: float | None = None
    model: Any = None
    header: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return self.model is None and not self.history and not self.path

    def run(self) -> dict[str, Any]:
        """The run for a page."""
        points = [[point.get(key) for key in ("passes", "seconds", "relative_gap")] for point in self.history]
        bounds = [[point.get(key) for key in ("passes", "primal", "dual")] for point in self.history]
        name = os.path.basename(self.name)
        trained = self.header.get("training")
        estimates = trained.get("estimates") if isinstance(trained, dict) else None
        return {
            "name": name, "points": points, "bounds": bounds, "estimates": _triples(estimates), "tol": self.tol,
            "note": self.note,
        }  # fmt: skip


def read_given(path: str) -> Given:
    """Read one file; its note says what is wrong with it.

    Parameters
    ----------
    path : str
        A model file, a checkpoint of a run, or JSON: what ``partwise train --json`` printed, or a path.
    """
    try:
        start = _first_bytes(path)
        if start.startswith(b"PK"):
            return _checkpoint(path)
        if start.lstrip()[:1] in (b"{", b"["):
            return _record(path)
        return _model(path)
    except InputError as error:
        return Given(path, "damaged", note=error.message)


def _first_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read(64)
    except IsADirectoryError:
        raise InputError("this is a directory; a model or a run is a file", path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path) from None


# -- models -----------------------------------------------------------------------------------------


def _model(path: str) -> Given:
    try:
        header, arrays = load_model(path)
        if header.get("estimator") == _PATH_KIND:
            return _path_file(path, header)
        model = estimator_from(header, arrays, path)
    except InputError as error:
        return _salvaged(path, error)
    given = Given(
        path, "model", clean_history(model.history_), tol=float(model.tol), model=model, header=header
    )
    if not model.converged_:
        given.note = f"not finished: {model.stop_reason_}"
    return given


def _salvaged(path: str, error: InputError) -> Given:
    """The curve of a model that cannot be loaded, if its header can be read."""
    header = _header_of(path)
    if isinstance(header.get("results"), list):
        found = _path(path, header["results"])
        found.note = f"{error.message}; its points are shown as the file has them"
        return found
    record, parameters = (header.get(key) for key in ("record", "parameters"))
    history = clean_history(record.get("history")) if isinstance(record, dict) else []
    tol = parameters.get("tol") if isinstance(parameters, dict) else None
    note = error.message
    if history:
        note += "; its curve is shown as the file has it, nothing else is"
    return Given(path, "damaged", history, tol=_finite(tol), note=note)


def _path_file(path: str, header: dict[str, Any]) -> Given:
    """The file of ``partwise path --path FILE``."""
    results = header.get("results")
    found = _path(path, results if isinstance(results, list) else [])
    if not header.get("ended"):
        found.note = found.note or f"not finished: {len(found.path)} points of the path so far"
    return found


def _header_of(path: str) -> dict[str, Any]:
    """The header of a model file, even if its arrays are damaged; empty if it cannot be read."""
    try:
        with open(path, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            front = json.loads(handle.read(min(length, _LARGEST)))
        header = json.loads(front["__metadata__"]["header"])
        record = restored({key: header.get(key) for key in ("record", "parameters", "results")}, {})
    except (OSError, ValueError, KeyError, TypeError, RecursionError, MemoryError, InputError):
        return {}
    return record if isinstance(record, dict) else {}


# -- checkpoints and records ----------------------------------------------------------------------------


def _checkpoint(path: str) -> Given:
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes())
        history, run = clean_history(header["history"]), header["run"]
        passes, seconds = float(run[0]), float(run[1])
    except Exception:  # a damaged archive can raise almost any exception
        raise InputError("is not a whole partwise checkpoint", path) from None
    note = f"not finished: a checkpoint after {passes:.1f} passes and {seconds:.1f} s"
    return Given(path, "checkpoint", history, note=note)


def _record(path: str) -> Given:
    value = _read_json(path)
    points = value.get("path") if isinstance(value, dict) else value
    if (
        isinstance(points, list)
        and points
        and all(isinstance(each, dict) and "l2" in each for each in points)
    ):
        found = _path(path, points)
        if isinstance(value, dict):  # holds the curve of the model that was kept
            found.history = clean_history(value.get("history"))
        return found
    if not isinstance(value, dict) or not isinstance(value.get("history"), list):
        raise InputError('JSON of a run has "history", JSON of a path is a list of objects with "l2"', path)
    history = clean_history(value["history"])
    note = (
        ""
        if value.get("converged") is True
        else f"not finished: {value.get('stop_reason') or 'no reason given'!s}"
    )
    if not history:
        note = 'no point of its "history" has numbers'
    return Given(path, "record", history, note=note)


def _read_json(path: str) -> Any:
    if os.path.getsize(path) > _LARGEST:
        raise InputError("is too large for the record of a run", path)
    with open(path, "rb") as handle:
        data = handle.read()
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"damaged record: not JSON ({error!s:.80})", path) from None


def _path(path: str, points: list[Any]) -> Given:
    dicts = [point for point in points if isinstance(point, Mapping)]
    kept = [{key: _finite(point.get(key)) for key in PATH_POINT} for point in dicts]
    kept = [point for point in kept if point["l2"] is not None and point["l2"] > 0]
    lost = len(points) - len(kept)
    note = f"{lost} of {len(points)} points have no l2 above 0 and are left out" if lost else ""
    ordered = sorted(kept, key=lambda point: -(point["l2"] or 0.0))
    return Given(path, "path", path=ordered, note=note)  # type: ignore[arg-type]


def clean_history(history: Any) -> list[dict[str, float]]:
    """Points with a finite number of passes, in order, without other values that are not finite."""
    points: list[dict[str, float]] = []
    for record in history if isinstance(history, list) else []:
        if isinstance(record, Mapping):
            named = {key: _finite(record.get(key)) for key in _POINT}
            point = {key: value for key, value in named.items() if value is not None}
            if "relative_gap" not in point:
                point |= _relative_gap(point)
            if "passes" in point:
                points.append(point)
    return sorted(points, key=lambda point: point["passes"])


def _relative_gap(point: Mapping[str, float]) -> dict[str, float]:
    if "primal" not in point or "dual" not in point or not point["primal"]:
        return {}
    return {"relative_gap": (point["primal"] - point["dual"]) / abs(point["primal"])}


def _triples(values: Any) -> list[list[float]]:
    """The rows of three finite numbers among some values."""
    rows = [
        [_finite(x) for x in row]
        for row in (values if isinstance(values, list) else [])
        if isinstance(row, (list, tuple)) and len(row) == 3
    ]
    return [row for row in rows if None not in row]  # type: ignore[misc]


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
