"""Labels unobserved at some positions: the loss sums over them, and training ends where it is stationary."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from toy_sequences import LABELS, X, Y, sequences

from partwise import CRF, InputError, Loss, SequenceLabeler
from partwise.core.partial import PartialProblem
from partwise.solvers import MixtureAscent, solve, solver_for
from partwise.solvers.base import evaluate_model, model_primal


def hide(y: list, share: float, seed: int = 0) -> list:
    random = np.random.default_rng(seed)
    return [[None if random.random() < share else label for label in labels] for labels in y]


HIDDEN = hide(Y, 0.4)
SHORT = [i for i, x in enumerate(X) if len(x) <= 4][:20]


def objective_by_enumeration(model: SequenceLabeler, X: list, y: list, loss: Loss) -> float:
    """(1/β)[log Σ_y exp β(s + γ e) − log Σ_consistent exp β s] + regulariser, labelling by labelling."""
    total = 0.5 * model.l2 * float(model.coef_ @ model.coef_)
    for x, labels in zip(X, y, strict=True):
        every, consistent = [], []
        for labelling in itertools.product(LABELS, repeat=len(x)):
            score = model.explain(x, labelling).score
            wrong = sum(a is not None and a != b for a, b in zip(labels, labelling, strict=True))
            every.append(loss.beta * (score + loss.gamma * wrong))
            if not wrong:
                consistent.append(loss.beta * score)
        total += float(np.logaddexp.reduce(every) - np.logaddexp.reduce(consistent)) / loss.beta
    return total


def problem_of(y: list, x: list = X, **settings: object) -> PartialProblem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = SequenceLabeler(max_passes=1, **settings).fit(x, y)._training.problem  # type: ignore[arg-type]
    assert isinstance(problem, PartialProblem)
    return problem


@pytest.mark.parametrize("loss", [Loss(1.0, 0.0), Loss(2.0, 0.5)])
@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_the_objective_is_that_of_enumeration(loss: Loss, solver: str) -> None:
    few, y = [X[i] for i in SHORT], [HIDDEN[i] for i in SHORT]
    y[0] = [None] * len(y[0])
    model = SequenceLabeler(loss, solver=solver).fit(few, y)
    assert model.converged_ and model.certificate_kind_ == "local"
    assert model.objective_ == pytest.approx(objective_by_enumeration(model, few, y, loss), rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"loss": "softmax_margin", "order": 2}, {"loss": Loss(3.0, 0.2)}])
def test_the_gradient_is_that_of_differences(settings: dict) -> None:
    problem = problem_of(HIDDEN, pairs="all", **settings)
    random = np.random.default_rng(1)
    weights = random.normal(size=problem.n_weights)
    gradient = problem.l2 * weights - evaluate_model(problem, weights).v
    for k in np.flatnonzero(np.abs(evaluate_model(problem, 0 * weights).v) > 0)[::7][:12]:
        nudge = np.zeros(problem.n_weights)
        nudge[k] = 1e-5
        values = [
            model_primal(problem, w, evaluate_model(problem, w)) for w in (weights - nudge, weights + nudge)
        ]
        assert (values[1] - values[0]) / 2e-5 == pytest.approx(gradient[k], rel=1e-5, abs=1e-5)
        assert problem.primal(weights) == pytest.approx(0.5 * sum(values), rel=1e-8)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_every_route_ends_at_the_same_objective(share: float) -> None:
    y = hide(Y, share, seed=3)
    y[2] = [None] * len(y[2])
    exact = SequenceLabeler(solver="lbfgs", tol=1e-7, max_passes=2000, pairs="all").fit(X, y).objective_
    for solver, tol in (("auto", 1e-2), ("eg-cyclic", 1e-3), ("cg", 1e-4), ("sdca", 1e-5), ("auto", 1e-7)):
        found = SequenceLabeler(solver=solver, tol=tol, pairs="all").fit(X, y)
        assert found.converged_ and found.duality_gap_ <= tol
        assert abs(found.objective_ - exact) <= tol * exact


def test_weak_l2_takes_few_passes() -> None:
    many, truth = sequences(300, seed=5)
    problem = problem_of(hide(truth, 0.4), many, l2=1e-3, pairs="all")
    # Without acceleration, 100 passes do not suffice.
    found = solve(problem, MixtureAscent(), tol=1e-3, max_passes=100)
    assert found.converged
    exact = solve(problem, solver_for(problem, "lbfgs"), tol=1e-5, max_passes=3000).certificate.primal
    assert abs(found.certificate.primal - exact) <= 2e-3 * exact


def test_nothing_random_leads_to_a_better_optimum() -> None:
    problem = problem_of(HIDDEN)
    ours = solve(problem, MixtureAscent(), tol=1e-4).certificate.primal
    random = np.random.default_rng(0)
    from partwise.solvers import LBFGS, WarmStart

    for _ in range(5):
        solver = LBFGS()
        state = solver.init(problem, random)._replace(weights=random.normal(size=problem.n_weights))
        again = solve(problem, solver, tol=1e-5, max_passes=1000, warm_start=WarmStart(problem, state))
        assert ours <= again.certificate.primal * (1 + 1e-4)


def test_the_gap_is_zero_only_where_the_objective_is_stationary() -> None:
    """Recomputed from the state: weights optimal for the completions, and these the model's own."""
    problem = problem_of(HIDDEN, loss="softmax_margin")
    solution = solve(problem, MixtureAscent(), tol=1e-9, max_passes=1000)
    weights, state = solution.weights, solution.state
    assert solution.converged
    point = evaluate_model(problem, weights)
    assert np.abs(problem.l2 * weights - point.v).max() < 1e-3
    np.testing.assert_allclose(state.balance, problem.balance(weights), atol=1e-3)
    v, _ = problem.at_balance(state.balance)
    np.testing.assert_allclose(v, problem.l2 * weights, atol=1e-3)
    early = solve(problem, MixtureAscent(), tol=1e-9, max_passes=2)
    assert early.certificate.gap > 0 and not early.converged


def test_where_all_is_known_it_is_the_supervised_optimum() -> None:
    supervised = SequenceLabeler(tol=1e-5).fit(X, Y)
    first = [*Y, [None, None]]
    more = SequenceLabeler(tol=1e-5).fit([*X, X[0][:2]], first)
    assert more.objective_ == pytest.approx(supervised.objective_, rel=2e-5)
    assert more.dual_objective_ == pytest.approx(supervised.dual_objective_, rel=2e-5)
    np.testing.assert_allclose(more.coef_, supervised.coef_, atol=5e-3)


def test_partial_labels_teach_more_than_leaving_sequences_out() -> None:
    many, truth = sequences(150, seed=5)
    hidden = hide(truth, 0.7)
    test_X, test_y = sequences(200, seed=6)
    partial = SequenceLabeler().fit(many, hidden).score(test_X, test_y)
    whole = [i for i, labels in enumerate(hidden) if None not in labels]
    only = SequenceLabeler().fit([many[i] for i in whole], [hidden[i] for i in whole])
    assert partial > only.score(test_X, test_y) - 0.01
    assert partial > 0.7


def test_limits_hold_for_the_whole_run_with_one_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped at max_passes") as caught:
        model = SequenceLabeler(l2=0.01, max_passes=3, tol=1e-6).fit(X, HIDDEN)
    assert len(caught) == 1 and model.n_passes_ == 3 and not model.converged_
    seen = []
    SequenceLabeler(l2=0.01, tol=1e-6, callback=lambda progress: seen.append(progress.passes)).fit(X, HIDDEN)
    assert seen == sorted(seen) and len(seen) > 3
    with pytest.warns(ConvergenceWarning, match="stopped at the time limit"):
        SequenceLabeler(l2=0.01, tol=1e-9, time_limit=1e-4).fit(X, HIDDEN)


def test_a_run_goes_on_from_its_checkpoint_and_from_another_l2(tmp_path) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(HIDDEN)
    file = tmp_path / "run.npz"
    settings = {"tol": 1e-6, "certificate_every": 2}
    whole = solve(problem, MixtureAscent(), **settings)
    solve(problem, MixtureAscent(), **settings, max_passes=4, checkpoint=file)
    resumed = solve(problem, MixtureAscent(), **settings, checkpoint=file, resume=True)
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    with pytest.raises(InputError, match="was made with another true labels"):
        solve(problem_of(hide(Y, 0.4, 1)), MixtureAscent(), checkpoint=file, resume=True)
    model = SequenceLabeler(tol=1e-4, warm_start=True).fit(X, HIDDEN)
    first = model.n_passes_
    model.set_params(l2=1.1).fit(X, HIDDEN)
    afresh = SequenceLabeler(l2=1.1, tol=1e-6).fit(X, HIDDEN)
    assert model.objective_ == pytest.approx(afresh.objective_, rel=2e-4)
    assert model.fit(X, HIDDEN).n_passes_ < first


def test_l1_masks_weights_and_matrices() -> None:
    values = [
        SequenceLabeler(l1=0.3, solver=s, tol=1e-4).fit(X, HIDDEN).objective_ for s in ("auto", "lbfgs")
    ]
    np.testing.assert_allclose(values, values[0], rtol=2e-4)
    weight = np.random.default_rng(0).uniform(0, 2, len(X)) * (np.arange(len(X)) % 3 > 0)
    settings = {"tol": 1e-4, "pairs": "all"}
    values = [
        SequenceLabeler(solver=s, **settings).fit(X, HIDDEN, weight).objective_ for s in ("auto", "lbfgs")
    ]
    np.testing.assert_allclose(values, values[0], rtol=2e-4)
    names = {"A": "O", "B": "B-X", "C": "I-X"}
    y = [[names[label] if label != "C" else None for label in labels] for labels in Y]
    y[0][0] = "B-X"
    y[1] = ["B-X", "I-X", *[None] * 9][: len(y[1])]
    model = SequenceLabeler(scheme="IOB2", tol=1e-2, pairs="all").fit(X, y)
    for labels in model.predict(X):
        assert all(b != "I-X" or a != "O" for a, b in itertools.pairwise(["O", *labels]))
    random = np.random.default_rng(0)
    dense = [random.normal(size=(len(x), 5)) * [1.0, 3.0, 0.1, 2.0, 1.0] for x in X]
    values = [SequenceLabeler(solver=s, tol=1e-4).fit(dense, HIDDEN).objective_ for s in ("auto", "eg")]
    np.testing.assert_allclose(values, values[0], rtol=2e-4)
    whole = problem_of(HIDDEN, loss="softmax_margin")
    halves = [whole.shard(np.arange(k, len(X), 2)) for k in (0, 1)]
    at = random.normal(size=whole.n_weights)
    assert sum(half.losses(at)[0].sum() for half in halves) == pytest.approx(whole.losses(at)[0].sum())


@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_shares_of_training_sequences_add_up_to_scores(solver: str) -> None:
    model = SequenceLabeler(solver=solver, tol=1e-7, max_passes=1000).fit(X, HIDDEN)
    shares = model.influential_examples(X[0], n=None)
    score = model.explain(X[0], model.predict([X[0]])[0]).score
    assert sum(each.contribution for each in shares) == pytest.approx(score, abs=1e-2)


def test_what_cannot_be_is_said_in_a_line() -> None:
    with pytest.raises(InputError, match=r"unobserved labels .* finite beta: 'log', 'softmax_margin'"):
        SequenceLabeler("hinge").fit(X, HIDDEN)
    for solver in ("sgd", "eg-batch", "eg-primal"):
        with pytest.raises(InputError, match=r"some are not observed .* use 'auto', 'lbfgs' or 'cg'"):
            SequenceLabeler(solver=solver).fit(X, HIDDEN)
    with pytest.raises(InputError, match="y has no labels at all"):
        SequenceLabeler().fit(X[:2], [[None] * len(x) for x in X[:2]])
    model = SequenceLabeler().partial_fit(X, HIDDEN, classes=[*LABELS, "never seen"])
    assert model.converged_ and "never seen" not in itertools.chain(*model.predict(X))
    with pytest.warns(UserWarning, match="leave nothing to be proved"):
        CRF(c1=0.1, c2=0.0, tol=1e-2).fit(X, HIDDEN)
    loaded_words = SequenceLabeler().fit(X, HIDDEN).stop_reason_
    assert loaded_words.startswith("converged: the objective, summed over unobserved labels, is within tol")
