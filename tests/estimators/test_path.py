"""Paths of l2: warm starts, stopping, going on after a kill, folds that share rows, and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold
from test_answers import FITTED

import partwise
from partwise import CRF, Classifier, InputError, RegularizationPath, SequenceLabeler
from partwise.estimators.regularization_path.values import (
    checked_values,
    geometric_values,
    has_turned,
    spaced_values,
)
from partwise.solvers import Annealing, ExponentiatedGradient, n_restarts, solve, solve_surely
from partwise.storage.model_file import load_model, save_model
from partwise.tasks import estimator_names

RANDOM = np.random.default_rng(3)
CENTRES = RANDOM.normal(size=(3, 6))
Y = RANDOM.integers(3, size=150)
X = CENTRES[Y] + 1.5 * RANDOM.normal(size=(150, 6))
TRAIN, DEV = slice(0, 100), slice(100, 150)


def path(**settings: Any) -> RegularizationPath:
    return RegularizationPath(Classifier(tol=1e-5), **({"values": [10, 3, 1, 0.3], "patience": 9} | settings))


def fitted_path(**settings: Any) -> RegularizationPath:
    return path(**settings).fit(X[TRAIN], Y[TRAIN], X[DEV], Y[DEV])


# -- values ---------------------------------------------------------------------------------------


def test_values_are_geometric_and_include_the_end() -> None:
    assert np.allclose(geometric_values(8, 1, 0.5), [8, 4, 2, 1])
    assert np.allclose(
        geometric_values(1000, 0.274, 0.7), 1000 * 0.7 ** np.arange(24)
    )  # Collins et al., Table 2
    assert np.allclose(spaced_values(100, 1, 3), [100, 10, 1])
    assert checked_values([1, 3.0, "2", 3]) == [3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"values": None, "start": 1, "stop": 10}, "from large to small"),
        ({"values": None, "start": 1, "stop": 1}, "at least two"),
        ({"values": [1, 1.0]}, "at least two"),
        ({"values": [1, 0]}, "finite number > 0, not 0"),
        ({"values": [1, -2]}, "finite number > 0, not -2"),
        ({"values": ["a", 1]}, "must be numbers"),
        ({"values": None, "ratio": 1.5}, "between 0 and 1"),
        ({"values": None, "start": 1e9, "stop": 1e-9, "ratio": 0.999}, "values of l2"),
        ({"patience": 0}, "patience must be"),
        ({"cv": 3}, "give one of them"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        fitted_path(**settings)
    assert "\n" not in str(caught.value)


def test_a_path_turns_when_scores_fall_by_more_than_noise() -> None:
    rising, falling = [[0.7], [0.8], [0.9]], [[0.7], [0.65], [0.6]]
    assert not has_turned(np.array(rising), 100, 2)
    assert has_turned(np.array(rising + falling), 100, 3)
    assert not has_turned(np.array(rising + falling[:2]), 100, 3)
    assert not has_turned(
        np.array([*rising, [0.895], [0.895], [0.895]]), 100, 3
    )  # within the noise of 100 examples
    assert has_turned(np.array([*rising, [0.895], [0.895], [0.895]]), 100_000, 3)
    folds = np.array([[0.9, 0.5, 0.7], [0.89, 0.49, 0.69], [0.89, 0.49, 0.69]])
    assert has_turned(folds, 1, 2)  # every fold falls, however far apart the folds are
    assert not has_turned(np.array([[0.9, 0.5, 0.7], [0.95, 0.4, 0.7], [0.95, 0.4, 0.7]]), 1, 2)


# -- every estimator ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", estimator_names())
def test_every_estimator_has_paths_and_chooses_by_folds(name: str) -> None:
    estimator, X, y = FITTED[name]
    found = RegularizationPath(clone(estimator).set_params(tol=0.05), values=[4, 1]).fit(X, y, X, y)
    alone = clone(estimator).set_params(tol=0.05, l2=4.0).fit(X, y)
    assert found.l2_.tolist() == [4.0, 1.0] and found.best_estimator_.l2 == found.best_l2_
    # The first value has nothing to start from, and so is what fitting alone gives.
    first = found.estimator_at(4.0)
    assert first.objective_ == alone.objective_ and repr(first.predict(X)) == repr(alone.predict(X))
    score = found.estimator_at(found.best_l2_).score(X, y)
    assert found.best_score_ == pytest.approx(score) or name in ("SequenceLabeler", "DependencyParser")
    chosen = clone(estimator).set_params(l2="cv", cv=2, l2s=[4, 1], tol=0.05).fit(X, y)
    assert (
        chosen.l2_ in (4.0, 1.0)
        and chosen.scores_.shape == (2, 2)
        and ((chosen.scores_ >= 0) & (chosen.scores_ <= 1)).all()
    )
    assert (
        chosen.l2s_.tolist() == [4.0, 1.0] and chosen.l2_ == chosen.l2s_[chosen.scores_.mean(axis=0).argmax()]
    )


# -- paths ----------------------------------------------------------------------------------------


def test_points_are_what_fitting_alone_finds_with_fewer_passes() -> None:
    found = fitted_path(train_scores=True)
    for record in found.results_:
        alone = Classifier(tol=1e-5, l2=record["l2"]).fit(X[TRAIN], Y[TRAIN])
        assert record["objective"] == pytest.approx(alone.objective_, rel=1e-4) and record["gap"] <= 1e-5
        model = found.estimator_at(record["l2"])
        assert record["dev_score"] == model.score(X[DEV], Y[DEV])
        assert record["train_score"] == pytest.approx(model.score(X[TRAIN], Y[TRAIN]))
        assert record["active_weights"] == np.count_nonzero(model.coef_) + np.count_nonzero(model.intercept_)
    warm, cold = (Classifier(tol=1e-5, solver="eg-gap", l2=0.3) for _ in range(2))
    started = RegularizationPath(warm, values=[0.4, 0.3]).fit(X[TRAIN], Y[TRAIN])
    assert started.passes_[-1] < cold.fit(X[TRAIN], Y[TRAIN]).n_passes_
    best = int(np.argmax(found.dev_scores_))
    assert found.best_l2_ == found.l2_[best] and found.best_score_ == found.dev_scores_[best]
    assert (found.predict(X) == found.best_estimator_.predict(X)).all()
    assert "all 4 values tried" in found.stop_reason_
    with pytest.raises(InputError, match="not on the path"):
        found.estimator_at(2.0)


def test_without_scores_there_is_no_best() -> None:
    found = path().fit(X, Y)
    assert found.dev_scores_ is None and len(found.results_) == 4 and found.estimator_at(1).score(X, Y) > 0.5
    with pytest.raises(AttributeError, match="give dev data, or cv"):
        found.best_estimator_  # noqa: B018


def test_a_path_stops_early_and_is_cloned() -> None:
    wrong = (Y[DEV] + (X[DEV] @ CENTRES[0] > 0)) % 3  # scores fall as the fit to the truth improves
    found = clone(path(values=list(2.0 ** -np.arange(20.0)), patience=1)).fit(
        X[TRAIN], Y[TRAIN], X[DEV], wrong
    )
    assert len(found.l2_) <= 20
    seen: list[float] = []
    stopped = path(callback=lambda record: seen.append(record["l2"]) or len(seen) == 2)
    stopped.fit(X[TRAIN], Y[TRAIN], X[DEV], Y[DEV])
    assert seen == [10.0, 3.0] and "callback" in stopped.stop_reason_ and stopped.best_l2_ in seen


def test_unknown_labels_of_dev_data_are_named_and_count_as_errors() -> None:
    with pytest.warns(UserWarning, match="not in training.*'Q'"):
        found = path().fit(X[TRAIN], Y[TRAIN].astype(str), X[DEV], ["Q"] * 50)
    assert found.best_score_ == 0.0 and found.best_l2_ == 10.0  # of equal scores the largest l2


def test_a_drop_in_for_crfsuite_gets_its_own_parameter() -> None:
    sequences, labels = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}]] * 4, [["A", "B"], ["B"]] * 4
    found = RegularizationPath(CRF(n_jobs=2), values=[2, 0.5]).fit(sequences, labels, sequences, labels)
    assert found.best_estimator_.c2 == 0.5 * found.best_l2_ and found.estimator_at(0.5).c2 == 0.25


# -- files ----------------------------------------------------------------------------------------


class Killed(Exception):
    pass


def killed_after(n: int, settings: dict[str, Any], *data: Any) -> None:
    count = []

    def callback(record: dict[str, Any]) -> None:
        count.append(record)
        if len(count) == n:
            raise Killed

    with pytest.raises(Killed):
        path(**settings, callback=callback).fit(*data)


@pytest.mark.parametrize("by_folds", [False, True])
def test_a_killed_path_goes_on_bit_for_bit(tmp_path: Path, by_folds: bool) -> None:
    settings: dict[str, Any] = {"cv": 3} if by_folds else {}
    data = (X, Y) if by_folds else (X[TRAIN], Y[TRAIN], X[DEV], Y[DEV])
    whole = path(**settings, file=tmp_path / "whole").fit(*data)
    killed_after(2, settings | {"file": tmp_path / "part"}, *data)
    resumed = path(**settings, file=tmp_path / "part").fit(*data, resume=True)
    for one, other in zip(whole.results_, resumed.results_, strict=True):
        assert {name: one[name] for name in one if "seconds" not in name} == {
            name: other[name] for name in other if "seconds" not in name
        }
        a, b = (each.estimator_at(one["l2"]) for each in (whole, resumed))
        assert (a.coef_ == b.coef_).all() and a.history_[-1]["primal"] == b.history_[-1]["primal"]
    again = path(**settings, file=tmp_path / "whole").fit(*data, resume=True)  # all is there already
    assert (again.objectives_ == whole.objectives_).all() and again.stop_reason_ == whole.stop_reason_


def test_files_of_other_paths_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "path"
    killed_after(2, {"file": file}, X[TRAIN], Y[TRAIN], X[DEV], Y[DEV])
    others = [
        (path(values=[10, 3, 1]), X[TRAIN], Y[TRAIN], "values of l2"),
        (path(), X, Y, "n_examples|structure|features"),
        (RegularizationPath(Classifier(tol=1e-4), values=[10, 3, 1, 0.3]), X[TRAIN], Y[TRAIN], "tol"),
        (
            RegularizationPath(Classifier(loss="hinge", tol=1e-5), values=[10, 3, 1, 0.3]),
            X[TRAIN],
            Y[TRAIN],
            "loss",
        ),
    ]
    for other, x, y, words in others:
        with pytest.raises(InputError, match=f"another ({words})"):
            other.set_params(file=file).fit(x, y, resume=True)
    with pytest.raises(InputError, match="dev data"):
        path(file=file).fit(X[TRAIN], Y[TRAIN], X[DEV], 2 - Y[DEV], resume=True)
    header, arrays = load_model(file)
    for damage in ({**header, "points": []}, {**header, "points": [{}]}, {**header, "ended": 1}):
        save_model(tmp_path / "damaged", damage, arrays)
        with pytest.raises(InputError, match="damaged path file"):
            path(file=tmp_path / "damaged").fit(X[TRAIN], Y[TRAIN], X[DEV], Y[DEV], resume=True)
    save_model(tmp_path / "damaged", header, {k: v for k, v in arrays.items() if not k.startswith("lane")})
    with pytest.raises(InputError, match="damaged path file"):
        path(file=tmp_path / "damaged").fit(X[TRAIN], Y[TRAIN], X[DEV], Y[DEV], resume=True)
    (tmp_path / "cut").write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match="cut"):
        path(file=tmp_path / "cut").fit(X[TRAIN], Y[TRAIN], X[DEV], Y[DEV], resume=True)
    Classifier().fit(X, Y).save(tmp_path / "model")
    with pytest.raises(InputError, match=r"model file.*not a path"):
        path(file=tmp_path / "model").fit(X[TRAIN], Y[TRAIN], X[DEV], Y[DEV], resume=True)
    with pytest.raises(InputError, match="unknown kind"):
        partwise.load(file)
    with pytest.raises(InputError, match="needs file"):
        path().fit(X, Y, resume=True)


def test_only_what_changed_is_stored(tmp_path: Path) -> None:
    sparse = RegularizationPath(Classifier(l1=2.0), values=[1.0, 0.99], file=tmp_path / "sparse").fit(X, Y)
    _, arrays = load_model(tmp_path / "sparse")
    assert "point0.weights" in arrays or "point0.values" in arrays
    assert not any(name.startswith("lane") for name in arrays)  # the path has ended
    assert sparse.results_[0]["active_weights"] < 21


# -- cross-validation -----------------------------------------------------------------------------


def test_folds_score_as_models_of_their_own(tmp_path: Path) -> None:
    folds = KFold(4)
    chosen = Classifier(l2="cv", cv=folds, l2s=[5, 0.5], tol=1e-8).fit(X, Y)
    for k, (train, test) in enumerate(folds.split(X)):
        for j, l2 in enumerate(chosen.l2s_):
            assert chosen.scores_[k, j] == Classifier(l2=l2, tol=1e-8).fit(X[train], Y[train]).score(
                X[test], Y[test]
            )
    assert chosen.l2 == "cv" and clone(chosen).l2 == "cv" and chosen.cv is folds
    assert chosen.objective_ == pytest.approx(
        Classifier(l2=chosen.l2_, tol=1e-8).fit(X, Y).objective_, rel=1e-5
    )
    chosen.save(tmp_path / "model")
    loaded = partwise.load(tmp_path / "model")
    assert loaded.l2 == "cv" and loaded.l2_ == chosen.l2_ and (loaded.predict(X) == chosen.predict(X)).all()


def test_threads_change_nothing() -> None:
    sequences = [[[f"x{k % 7}", f"y{k % 3}"] for k in range(i, i + 6)] for i in range(30)]
    labels = [["ABC"[(k * k) % 3] for k in range(i, i + 6)] for i in range(30)]
    one, two = (
        SequenceLabeler(l2="cv", cv=5, l2s=[3, 1, 0.3], n_jobs=jobs).fit(sequences, labels) for jobs in (1, 2)
    )
    assert (one.scores_ == two.scores_).all() and one.l2_ == two.l2_ and (one.coef_ == two.coef_).all()
    assert one.scores_.shape[0] == 5


@pytest.mark.parametrize(
    ("cv", "words"),
    [(1, "2 to 150 folds"), (151, "2 to 150 folds"), ("five", "makes no folds"), (GroupKFold(3), "groups")],
)
def test_folds_that_cannot_be_are_refused(cv: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Classifier(l2="cv", cv=cv).fit(X, Y)


def test_other_words_than_cv_and_unknown_labels_are_refused() -> None:
    with pytest.raises(InputError, match="l2 must be a finite number"):
        Classifier(l2="CV").fit(X, Y)
    with pytest.raises(InputError, match="all labels are known"):
        SequenceLabeler(l2="cv").fit([[["a"], ["b"]]] * 6, [["A", None]] * 6)


# -- annealing and restarts -------------------------------------------------------------------------


def test_restarts_keep_the_best_dual_and_count_all_passes() -> None:
    found = Classifier(max_passes=1).fit(X, Y)
    problem, solver = (
        found._training.problem,
        ExponentiatedGradient("random", annealing=Annealing(2.0, 1.0, 0.5)),
    )
    settings: dict[str, Any] = {"tol": 1e-9, "max_passes": 2}
    best = solve_surely(problem, solver, 0.2, random_state=5, **settings)
    seeds = np.random.default_rng(5).spawn(3)
    runs = [solve(problem, solver, random_state=seed, **settings) for seed in seeds]
    assert best.certificate.dual == max(run.certificate.dual for run in runs)
    assert best.passes == pytest.approx(sum(run.passes for run in runs))
    assert [n_restarts(delta) for delta in (0.9, 0.5, 0.25, 0.05)] == [1, 1, 2, 5]
    with pytest.raises(InputError, match="between 0 and 1"):
        n_restarts(1.0)
    with pytest.raises(InputError, match="annealing needs"):
        Classifier(solver=ExponentiatedGradient(annealing=Annealing(0.5))).fit(X, Y)
