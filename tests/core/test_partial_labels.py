"""Labels unobserved at some positions: the loss sums over them, and training ends where it is stationary."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from toy_sequences import LABELS, X, Y, sequences

from partwise import CRF, Classifier, InputError, KernelClassifier, Loss, SegmentLabeler, SequenceLabeler
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
            allowed = [{a} if isinstance(a, str) else a for a in labels]
            wrong = sum(a is not None and b not in a for a, b in zip(allowed, labelling, strict=True))
            every.append(loss.beta * (score + loss.gamma * wrong))
            if not wrong:
                consistent.append(loss.beta * score)
        total += float(np.logaddexp.reduce(every) - np.logaddexp.reduce(consistent)) / loss.beta
    return total


def several(y: list, seed: int = 0) -> list:
    """Some labels as sets with another one, some hidden."""
    random = np.random.default_rng(seed)

    def one(label: str) -> object:
        draw = random.random()
        return {label, LABELS[random.integers(len(LABELS))]} if draw < 0.4 else None if draw < 0.5 else label

    return [[one(label) for label in labels] for labels in y]


def votes(y: list, seed: int = 0) -> list:
    """Some labels as counts of votes, most of them for the label."""
    random = np.random.default_rng(seed)

    def one(label: str) -> object:
        other = LABELS[random.integers(len(LABELS))]
        return {"B": 0, other: 1} | {label: 2} if random.random() < 0.5 else label

    return [[one(label) for label in labels] for labels in y]


def problem_of(y: list, x: list = X, **settings: object) -> PartialProblem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = SequenceLabeler(max_passes=1, **settings).fit(x, y)._training.problem  # type: ignore[arg-type]
    assert isinstance(problem, PartialProblem)
    return problem


@pytest.mark.parametrize("loss", [Loss(1.0, 0.0), Loss(2.0, 0.5)])
@pytest.mark.parametrize(("solver", "targets"), [("auto", HIDDEN), ("lbfgs", HIDDEN), ("auto", several(Y))])
def test_the_objective_is_that_of_enumeration(loss: Loss, solver: str, targets: list) -> None:
    few, y = [X[i] for i in SHORT], [targets[i] for i in SHORT]
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


# -- sets of labels, and distributions over labels --------------------------------------------------------------------


def expected_objective(model: SequenceLabeler, X: list, y: list) -> float:
    """log Σ_y exp s − Σ_y q(y) s + regulariser, labelling by labelling, where q are dicts or labels."""
    total = 0.5 * model.l2 * float(model.coef_ @ model.coef_)
    for x, targets in zip(X, y, strict=True):
        q = [{target: 1.0} if isinstance(target, str) else target for target in targets]
        scores, expected = [], 0.0
        for labelling in itertools.product(LABELS, repeat=len(x)):
            scores.append(model.explain(x, labelling).score)
            share = [own.get(label, 0) / sum(own.values()) for own, label in zip(q, labelling, strict=True)]
            expected += float(np.prod(share)) * scores[-1]
        total += float(np.logaddexp.reduce(scores)) - expected
    return total


@pytest.mark.parametrize("settings", [{}, {"solver": "lbfgs"}, {"order": 2}])
def test_distributions_have_the_expected_loss_with_its_certificate(settings: dict) -> None:
    few, y = [X[i] for i in SHORT], [votes(Y)[i] for i in SHORT]
    model = SequenceLabeler(tol=1e-5, **settings).fit(few, y)
    assert model.converged_ and model.certificate_kind_ == "exact"
    assert model.objective_ == pytest.approx(expected_objective(model, few, y), rel=1e-6)
    assert model.dual_objective_ <= model.objective_ <= model.dual_objective_ * (1 + 2e-5)


def test_edges_with_own_attributes_have_the_expected_loss() -> None:
    template = "columns: word\nword[0]\nedge: word[0]"
    words = [[["a"], ["b"], ["a"]], [["b"], ["b"]]]
    y = [["A", {"B": 1, "C": 3}, {"A": 1, "B": 1}], [{"C": 2, "A": 1}, "B"]]
    model = SequenceLabeler(template=template, tol=1e-6).fit(words, y)
    assert model.objective_ == pytest.approx(expected_objective(model, words, y), rel=1e-6)
    sets = [[set(each) for each in own] for own in y]
    model = SequenceLabeler(template=template, tol=1e-4).fit(words, sets)
    loss = Loss(1.0, 0.0)
    assert model.objective_ == pytest.approx(objective_by_enumeration(model, words, sets, loss), rel=1e-5)


def test_sets_and_distributions_that_say_what_a_label_says() -> None:
    same = [[{label} if i % 2 else {label: 3.0} for i, label in enumerate(own)] for own in Y]
    np.testing.assert_array_equal(SequenceLabeler().fit(X, same).coef_, SequenceLabeler().fit(X, Y).coef_)
    everything = [[set(LABELS) if label is None else label for label in own] for own in HIDDEN]
    np.testing.assert_array_equal(
        SequenceLabeler().fit(X, everything).coef_, SequenceLabeler().fit(X, HIDDEN).coef_
    )
    # Repetition is a distribution: half of the votes for each of two labels, and both labellings with half the weight.
    one, other = ["A"], ["B"]
    halves = SequenceLabeler(tol=1e-6).fit([X[0][:1]] * 2, [one, other], sample_weight=[0.5, 0.5])
    both = SequenceLabeler(tol=1e-6).fit([X[0][:1]], [[{"A": 1, "B": 1}]])
    assert both.objective_ == pytest.approx(halves.objective_, rel=1e-5)


def test_costs_of_sets_are_those_of_the_cheapest_label() -> None:
    cost = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 3.0], [1.0, 5.0, 0.0]])
    problem = problem_of([[{"A", "B"}, "C"]], [X[0][:2]], loss="softmax_margin", cost=cost)
    np.testing.assert_array_equal(problem.cost[:6], [0.0, 0.0, 3.0, 1.0, 5.0, 0.0])


def test_sets_obey_schemes_and_teach_transitions() -> None:
    y = [["O", {"B-X", "O"}, {"I-X", "B-X"}][: len(x)] + ["O"] * (len(x) - 3) for x in X]
    model = SequenceLabeler(scheme="IOB2", tol=1e-2).fit(X, y)
    assert all(b != "I-X" or a != "O" for own in model.predict(X) for a, b in itertools.pairwise(["O", *own]))
    model = SequenceLabeler(transitions="observed").fit([X[0][:2]], [[{"A", "B"}, {"B", "C"}]])
    assert model._model.structure.allowed.tolist() == [[False, True, True]] * 2 + [[False] * 3]


def test_added_sequences_keep_their_sets_and_distributions() -> None:
    half = len(X) // 2
    for targets in (several(Y), votes(Y)):
        whole = SequenceLabeler(tol=1e-5, pairs="all").fit(X, targets)
        grown = SequenceLabeler(tol=1e-5, pairs="all").partial_fit(X[:half], targets[:half], classes=LABELS)
        grown.partial_fit(X[half:], targets[half:])
        assert grown.objective_ == pytest.approx(whole.objective_, rel=3e-5)
    mixed = [*several(Y)[:half], *votes(Y)[half:]]
    values = [SequenceLabeler(solver=s, tol=1e-5).fit(X, mixed).objective_ for s in ("auto", "lbfgs")]
    np.testing.assert_allclose(values, values[0], rtol=2e-5)


def class_objective(model: Classifier, X: np.ndarray, y: list) -> float:
    total = 0.5 * model.l2 * float((model.coef_**2).sum() + (model.intercept_**2).sum())
    names = model.classes_.tolist()
    for scores, target in zip(X @ model.coef_.T + model.intercept_, y, strict=True):
        if isinstance(target, dict):
            shares = np.array([target.get(name, 0.0) for name in names])
            total += float(np.logaddexp.reduce(scores) - shares @ scores / shares.sum())
        elif target is not None:
            own = [names.index(each) for each in ([target] if isinstance(target, str) else target)]
            total += float(np.logaddexp.reduce(scores) - np.logaddexp.reduce(scores[own]))
    return total


@pytest.mark.parametrize("solver", ["auto", "eg"])
def test_classes_have_sets_and_distributions(solver: str) -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(60, 3))
    truth = [LABELS[k] for k in points.argmax(axis=1)]
    [sets], [shares] = several([truth]), votes([truth])
    weight = random.integers(0, 3, 60)
    repeated = [i for i, n in enumerate(weight) for _ in range(n)]
    for targets, kind in ((sets, "local"), (shares, "exact"), ([*sets[:30], *shares[30:]], "local")):
        model = Classifier(solver=solver, tol=1e-5).fit(points, targets)
        assert model.certificate_kind_ == kind and model.score(points, truth) > 0.8
        assert model.objective_ == pytest.approx(class_objective(model, points, targets), rel=1e-5)
        weighted = Classifier(solver=solver, tol=1e-5).fit(points, targets, weight)
        again = Classifier(solver=solver, tol=1e-5).fit(points[repeated], [targets[i] for i in repeated])
        assert weighted.objective_ == pytest.approx(again.objective_, rel=3e-5)
    words = [[f"w{k}" for k in np.round(row).astype(int)] for row in points]
    assert Classifier(pairs="observed", solver=solver).fit(words, sets).converged_


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (set(), "sequence 0, position 0: the set allows no label"),
        ({"A", None}, "the set holds None, which cannot be a label"),
        ({"A": -1.0}, "the weight of 'A' is -1.0; it must be at least 0"),
        ({"A": 0.0}, "add up to 0"),
        ({"A": "x"}, "the weight of 'A' is 'x'"),
    ],
)
def test_wrong_sets_and_distributions_are_named(target: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        SequenceLabeler().fit(X, [[target, *Y[0][1:]], *Y[1:]])


def test_what_sets_and_distributions_cannot_do() -> None:
    sets, shares = several(Y), votes(Y)
    cases = [
        (SequenceLabeler("hinge"), sets, "needs a finite beta"),
        (SequenceLabeler("hinge"), shares, "no expectation that is linear"),
        (SequenceLabeler("softmax_margin"), shares, "without costs"),
        (SequenceLabeler(l2="cv"), sets, "None, sets or dicts"),
        (SequenceLabeler(l2="cv"), shares, "None, sets or dicts"),
        (SequenceLabeler(), [[{"A", "B"}, {"A": 1, "B": 1}], *shares[1:]], "use one of them in a sequence"),
        (SequenceLabeler(scheme="IOB2"), [[{"O": 1, "B-X": 1}] * len(x) for x in X], "do not obey a scheme"),
        (SequenceLabeler(scheme="IOB2"), [[{"I-X", "I-Y"}, *"O" * (len(x) - 1)] for x in X], "rule out"),
        (Classifier("hinge"), [{"a", "b"}, "a"], "needs a finite beta"),
        (Classifier(class_weight="balanced"), [{"a", "b"}, "a"], "use sample_weight"),
        (KernelClassifier(), [{"a", "b"}, "a"], "needs every class"),
        (SegmentLabeler(), [[{"B-X", "O"}] * len(x) for x in X], "a SegmentLabeler needs one label"),
    ]
    for model, targets, words in cases:
        x = [[0.0], [1.0]] if "Classifier" in type(model).__name__ else X
        if len(targets) == len(X) and len(targets[0]) != len(X[0]):
            targets[0] = [*targets[0], *Y[0]][: len(X[0])]
        with pytest.raises(InputError, match=words):
            model.fit(x, targets)  # type: ignore[attr-defined]
