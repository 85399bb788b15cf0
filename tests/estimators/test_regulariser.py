"""The documentation's table of regularisers: equal models from other libraries at the strengths it gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
import pytest
from data_paths import ROOT
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from partwise import CRF, Classifier, SequenceLabeler

PAGE = (ROOT / "docs/migrating.md").read_text(encoding="utf-8")
L2 = 20.0  # strong enough for SVMs to depend on it


def strength(row: str) -> float:
    """What the table has for `row`: "C = 2 / l2" is 0.1, "c2 = l2 / 2" is 10."""
    found = re.search(rf"^\| {re.escape(row)} \| (?:C|c2) = ([\w /]+?)(?:;.*)? \|$", PAGE, re.MULTILINE)
    assert found is not None, f"the page has no row {row!r}"
    over = re.fullmatch(r"(\d) / l2|l2 / (\d)", found[1])
    assert over is not None, found[1]
    return int(over[1]) / L2 if over[1] else L2 / int(over[2])


def points(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Every point comes with its negative in the opposite class where there are two: intercepts are then zero."""
    random = np.random.default_rng(n_classes)
    X = random.normal(size=(60, 3))
    if n_classes == 2:
        return np.concatenate([X + 0.5, -X - 0.5]), np.repeat([1, 0], 60)
    return X, (X @ random.normal(size=(3, n_classes)) + random.normal(size=(60, n_classes))).argmax(axis=1)


TIGHT: dict[str, Any] = {"fit_intercept": False, "tol": 1e-10, "max_iter": 1_000_000}
ROWS: list[tuple[str, int, str, Callable[[float], Any]]] = [
    (
        "scikit-learn: `C` of LogisticRegression, three classes or more", 3, "log",
        lambda C: LogisticRegression(C=C, **TIGHT),
    ),
    (
        "scikit-learn: `C` of LogisticRegression, two classes", 2, "log",
        lambda C: LogisticRegression(C=C, **TIGHT),
    ),
    (
        'scikit-learn: `C` of LinearSVC(multi_class="crammer_singer")', 3, "hinge",
        lambda C: LinearSVC(multi_class="crammer_singer", C=C, **TIGHT),
    ),
    (
        'scikit-learn: `C` of LinearSVC(multi_class="crammer_singer")', 2, "hinge",
        lambda C: LinearSVC(multi_class="crammer_singer", C=C, **TIGHT),
    ),
    (
        'scikit-learn: `C` of LinearSVC(loss="hinge") and SVC, two classes', 2, "hinge",
        lambda C: LinearSVC(loss="hinge", C=C, **TIGHT),
    ),
    (
        'scikit-learn: `C` of LinearSVC(loss="hinge") and SVC, two classes', 2, "hinge",
        lambda C: SVC(kernel="linear", C=C, tol=1e-8),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("row", "n_classes", "loss", "theirs"), ROWS)
def test_scikit_learn(row: str, n_classes: int, loss: str, theirs: Callable[[float], Any]) -> None:
    X, y = points(n_classes)
    other = theirs(strength(row)).fit(X, y)
    ours = Classifier(loss, l2=L2, fit_intercept=False, tol=1e-8, max_passes=5000).fit(X, y)
    assert ours.converged_
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(X), atol=1e-3)
    wrong = theirs(1.3 * strength(row)).fit(X, y)
    assert np.abs(ours.decision_function(X) - wrong.decision_function(X)).max() > 1e-2


def test_crfsuite(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = [[str(label) for label in random.integers(3, size=random.integers(2, 6))] for _ in range(40)]
    X = [
        [[f"a{random.integers(4)}", f"b{label}"[: random.integers(1, 3)]] for label in labels] for labels in y
    ]
    c2 = strength("CRFsuite, python-crfsuite: `c2`")
    trainer = pycrfsuite.Trainer(verbose=False, algorithm="lbfgs")
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(tokens, labels)
    trainer.set_params({
        "c1": 0.0, "c2": c2, "max_iterations": 2000, "epsilon": 1e-9, "delta": 1e-12,
        "feature.possible_transitions": 1, "feature.possible_states": 1,
    })  # fmt: skip
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    ours = SequenceLabeler(l2=L2, pairs="all", tol=1e-9, solver="lbfgs").fit(X, y)
    for tokens, marginals in zip(X, ours.predict_marginals(X), strict=True):
        tagger.set(tokens)
        for t, token in enumerate(marginals):
            for label, probability in token.items():
                assert probability == pytest.approx(tagger.marginal(label, t), abs=1e-4)
    assert ours.objective_ == pytest.approx(trainer.logparser.last_iteration["loss"], rel=1e-6)
    row = "sklearn_crfsuite: `c2` (1 by default)"
    drop_in = CRF(c2=strength(row), all_possible_states=True, all_possible_transitions=True).fit(X, y)
    assert drop_in.objective_ == pytest.approx(ours.objective_, rel=1e-3)
    assert CRF().l2 == 2.0
