"""Sections of a report: facts about the model, scores, the confusion matrix, reliability, the worst examples."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.report.summary import Summary
from partwise.scoring.reliability import reliability
from partwise.tasks.page import Evidence
from partwise.tasks.task import Task

_MOST_CONFUSED = 30
_OTHERS = "(others)"


def model_section(name: str, summary: Summary) -> dict[str, Any]:
    """A model in tables. Files are named without their folders: pages are given to others."""
    training = dict(summary.training)
    if "data" in training:
        training["data"] = os.path.basename(training["data"])
    return {
        "name": os.path.basename(name),
        "kind": summary.kind,
        "settings": summary.settings,
        "sizes": summary.sizes,
        "certificate": summary.certificate,
        "training": training,
        "features": [[str(label), attribute, weight] for attribute, label, weight in summary.top_features],
        "transitions": [
            [str(before), str(after), weight] for before, after, weight in summary.top_transitions
        ],
    }


def score_section(evidence: Evidence) -> dict[str, Any]:
    """Scores, the confusion matrix and reliability, for a page."""
    found: dict[str, Any] = {
        "scores": evidence.scores,
        "labels": [list(row) for row in evidence.labels],
        "types": [list(row) for row in evidence.types],
        "notes": list(evidence.missing),
    }
    if evidence.confusion is not None:
        found["confusion"] = _fewer(*evidence.confusion)
    if evidence.every is None or evidence.predicted is None:
        found["notes"].append(
            "no reliability diagram: the loss has beta = inf, so the model has no probabilities"
        )
    else:
        found["reliability"] = {
            "predicted": reliability(*evidence.predicted).as_dict(),
            "every": reliability(*evidence.every).as_dict(),
        }
    return found


def _fewer(labels: list[str], matrix: np.ndarray) -> dict[str, Any]:
    """A matrix that fits on a page: labels with few errors are merged into one."""
    if len(labels) <= _MOST_CONFUSED:
        return {"labels": labels, "matrix": matrix.tolist()}
    wrong = matrix.sum(0) + matrix.sum(1) - 2 * matrix.diagonal()
    kept = np.sort(np.argsort(-wrong, kind="stable")[:_MOST_CONFUSED])
    group = np.full(len(labels), len(kept))
    group[kept] = np.arange(len(kept))
    small = np.zeros((len(kept) + 1,) * 2, np.int64)
    np.add.at(small, (group[:, None], group[None, :]), matrix)
    return {
        "labels": [labels[k] for k in kept] + [_OTHERS],
        "matrix": small.tolist(),
        "note": f"the {len(kept)} of {len(labels)} labels with the most errors; all others are merged into one",
    }


def example_section(
    task: Task,
    inputs: Any,
    truths: Any,
    evidence: Evidence,
    most: int,
    told: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """The examples with the most errors, worst first, each with its answer.

    Parameters
    ----------
    most : int
        How many.
    told : callable (number done) to None
        Called after every example.
    """
    order = np.argsort(-evidence.errors, kind="stable")[:most].tolist()
    examples = []
    for done, i in enumerate(order, 1):
        x, truth = task.pick(inputs, truths, i)
        answer = task.answer(x, truth)
        examples.append({"number": i + 1, "errors": int(evidence.errors[i]), **answer})
        told(done)
    return {"kind": task.kind, "total": len(evidence.errors), "examples": examples}
