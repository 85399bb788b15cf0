"""MIRA, k-best MIRA and the perceptron against their closed forms, label by label."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import model_point, optimum, problem_of
from problems import WrittenOut, small, soft_maximum
from scipy.optimize import minimize

from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers import MIRA, SOLVERS, ExactMIRA, KBestMIRA, Perceptron, solve
from partwise.solvers.dual.simplex_qp import simplex_qp
from partwise.solvers.primal.mira_pass import exchange

ONLINE = ("mira", "kbest-mira", "exact-mira", "perceptron")


class InTurn:
    """Stands for a random generator; examples come in their own order."""

    def permutation(self, n: int) -> np.ndarray:
        return np.arange(n)


class Only(InTurn):
    """The same, for a pass that visits one example only."""

    def __init__(self, example: int):
        self.example = example

    def permutation(self, n: int) -> np.ndarray:
        return np.array([self.example])


def start(problem: Problem, solver: Any, seed: int = 0) -> Any:
    """A state away from zero weights, where all wrong labels tie."""
    state = solver.init(problem, np.random.default_rng(0))
    state.weights[:] = weights_that_exist(problem, seed)
    return state


def weights_that_exist(problem: Problem, seed: int) -> np.ndarray:
    """Small random weights where the feature map has any."""
    point = problem.at_weights(np.zeros(problem.n_weights), 1.0)
    noise = np.random.default_rng(seed).normal(size=problem.n_weights)
    return 0.1 * noise * (point.v != 0.0)


def explicit_step(written: WrittenOut, weights: np.ndarray, i: int) -> np.ndarray:
    """w − min(c/l2, ℓ/‖g‖²) g, and α of the model there."""
    problem = written.problem
    alpha = model_point(written, weights)[i]
    gradient = alpha @ written.features[i] - written.features[i][written.gold[i]]
    loss = soft_maximum(written.margins(weights, i), problem.loss.beta)
    norm = float(gradient @ gradient)
    largest = written.weight[i] / problem.l2
    return weights - (largest if norm * largest <= loss else loss / norm) * gradient


# -- mira --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.05, 2.0])
@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin", "between"])
@pytest.mark.parametrize("case", ["multiclass", "tied", "untied", "order2", "masked"])
def test_steps_follow_the_closed_form(case: str, loss: str, l2: float) -> None:
    """Visit after visit, with the average of all iterates summed up one by one."""
    data = problem_of(case, loss)
    problem, written = data.problem.with_l2(l2), WrittenOut(data)
    written.problem = problem
    state, total = MIRA().init(problem, np.random.default_rng(0)), np.zeros(problem.n_weights)
    state.weights[:] = state.moments[:] = weights = weights_that_exist(problem, 1)  # as if visit 1 led there
    for passes in range(1, 4):
        state, info = MIRA().step(problem, state, InTurn())  # type: ignore[arg-type]
        for i in range(problem.n_examples):
            weights = explicit_step(written, weights, i)
            total += weights
        assert info.passes == 1.0
        np.testing.assert_allclose(state.weights, weights, atol=1e-9)
        np.testing.assert_allclose(state.average(), total / (passes * problem.n_examples), atol=1e-9)


@pytest.mark.parametrize("l2", [0.05, 2.0, 20.0])
@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_a_step_minimises_the_linearised_problem(loss: str, l2: float) -> None:
    """(l2/2)‖w' − w‖² + c max(0, ℓ + g·(w' − w)) is smallest where the solver goes from w (Martins et al. eq. 13).

    By the conditions of optimality: w' = w − t g with t in [0, c/l2], and the linearised loss is 0 where t is
    less than c/l2, and not negative where it is c/l2. Then no point along g or near w' is better.
    """
    data = problem_of("tied", loss)
    problem, written = data.problem.with_l2(l2), WrittenOut(data)
    for seed in range(5):
        i, random = seed, np.random.default_rng(seed)
        state = start(problem, MIRA(), seed)
        weights, largest = state.weights.copy(), written.weight[i] / l2
        alpha = model_point(written, weights)[i]
        gradient = alpha @ written.features[i] - written.features[i][written.gold[i]]
        value = soft_maximum(written.margins(weights, i), problem.loss.beta)
        state, _ = MIRA().step(problem, state, Only(i))  # type: ignore[arg-type]
        new, norm = state.weights.copy(), float(gradient @ gradient)
        assert value > 0.0 and norm > 0.0

        def objective(
            point: np.ndarray,
            weights: np.ndarray = weights,
            gradient: Any = gradient,
            value: float = value,
            i: int = i,
        ) -> float:
            move = point - weights
            return 0.5 * l2 * float(move @ move) + written.weight[i] * max(
                0.0, value + float(gradient @ move)
            )

        step = float(gradient @ (weights - new)) / norm
        np.testing.assert_allclose(new, weights - step * gradient, atol=1e-10)
        left = value - step * norm
        assert -1e-10 <= step <= largest * (1 + 1e-10)
        assert left == pytest.approx(0.0, abs=1e-9) if step < largest * (1 - 1e-9) else left >= -1e-9
        others = [weights - t * largest * gradient for t in np.linspace(0, 1, 201)]
        others += [new + 10.0**-k * random.normal(size=len(new)) for k in range(1, 6) for _ in range(10)]
        assert objective(new) <= min(map(objective, others)) + 1e-10


# -- k best ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["multiclass", "tied", "untied", "order2", "masked"])
def test_one_best_is_mira(case: str) -> None:
    problem = problem_of(case, "hinge").problem
    plain, one = MIRA(), KBestMIRA(k=1)
    a, b = start(problem, plain), start(problem, one)
    for _ in range(4):
        a, _ = plain.step(problem, a, InTurn())  # type: ignore[arg-type]
        b, _ = one.step(problem, b, InTurn())  # type: ignore[arg-type]
        for ours, theirs in zip(b, a, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("labels", ["augmented", "predicted"])
@pytest.mark.parametrize("case", ["multiclass", "tied", "masked"])
def test_k_best_solves_its_quadratic_programme(case: str, labels: Any) -> None:
    """Against simplex_qp over the k best of all labellings and the true one, which holds the unused slack."""
    data, k = problem_of(case, "hinge"), 3
    problem, written = data.problem, data.written_out
    solver = KBestMIRA(k=k, labels=labels)
    state = start(problem, solver)
    weights = state.weights.copy()
    state, _ = solver.step(problem, state, InTurn())  # type: ignore[arg-type]
    for i in range(problem.n_examples):
        margins = written.margins(weights, i)
        ranked = margins if labels == "augmented" else written.features[i] @ weights
        rows = [*np.argsort(-ranked, kind="stable")[:k], written.gold[i]]
        moves = written.features[i][written.gold[i]] - written.features[i][rows]
        largest = written.weight[i] / problem.l2
        qp = simplex_qp(
            largest * moves @ moves.T, -margins[rows], [len(rows)], tol=1e-12, max_iterations=50_000
        )
        weights = weights + largest * qp.alpha @ moves
    np.testing.assert_allclose(state.weights, weights, atol=2e-4)


@pytest.mark.parametrize("seed", range(10))
def test_exchanging_pairs_agrees_with_enumerating_the_faces(seed: int) -> None:
    """The optimum is where one face's stationary point is feasible and highest."""
    random, m, scale = np.random.default_rng(seed), 5, 0.7
    moves = random.normal(size=(m, 6 if seed % 2 else 3))  # the second kind is singular
    moves[0] = 0.0
    gram, linear = moves @ moves.T, np.append(0.0, random.uniform(0, 3, m - 1))
    share, slope = np.eye(m)[0].copy(), linear.copy()
    left = exchange(gram, scale, slope, share, m, 1e-13, 100_000)
    assert left <= 1e-9
    assert share.min() >= 0.0
    assert share.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(slope, linear - scale * gram @ share, atol=1e-10)

    def value(point: np.ndarray) -> float:
        return float(linear @ point - 0.5 * scale * point @ gram @ point)

    highest = -np.inf
    for size in range(1, m + 1):
        for face in combinations(range(m), size):
            system = np.ones((size + 1, size + 1))
            system[:size, :size], system[size, size] = scale * gram[np.ix_(face, face)], 0.0
            solution = np.linalg.lstsq(system, np.append(linear[list(face)], 1.0), rcond=None)[0][:size]
            point = np.zeros(m)
            point[list(face)] = solution
            if solution.min() >= 0 and abs(solution.sum() - 1) < 1e-9:
                highest = max(highest, value(point))
    assert value(share) == pytest.approx(highest, rel=1e-9)


def test_more_labels_than_there_are() -> None:
    """Four classes have four labels, and asking for more changes nothing."""
    problem = problem_of("multiclass", "hinge").problem
    found, all_four = (solve(problem, KBestMIRA(k=k), max_passes=2) for k in (50, 4))
    np.testing.assert_array_equal(found.weights, all_four.weights)
    assert np.abs(found.weights).max() > 0.0


# -- exact steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin", "between"])
@pytest.mark.parametrize("case", ["multiclass", "tied", "masked"])
def test_exact_steps_minimise_the_loss_near_the_weights(case: str, loss: str) -> None:
    """Against a general optimiser over all weights, or for β = ∞ a quadratic programme over all labels; and below
    what `mira` finds."""
    data = problem_of(case, loss)
    problem, written = data.problem, data.written_out
    exact, plain = ExactMIRA(tolerance=1e-10), MIRA()
    states = [start(problem, each) for each in (exact, plain)]
    for i in range(4):
        weights = states[0].weights.copy()
        states[1].weights[:] = weights
        largest = written.weight[i] / problem.l2

        def objective(
            w: np.ndarray, i: int = i, weights: np.ndarray = weights, largest: float = largest
        ) -> float:
            near = 0.5 * float((w - weights) @ (w - weights))
            return near + largest * soft_maximum(written.margins(w, i), problem.loss.beta)

        one = np.array([i])
        exact._visit(problem, states[0], one, states[0].v.copy())
        plain._visit(problem, states[1], one, states[1].v.copy())
        found = objective(states[0].weights)
        features = written.features[i]
        if problem.loss.is_hard:
            moves = features[written.gold[i]] - features
            margins = written.margins(weights, i)
            qp = simplex_qp(
                largest * moves @ moves.T, -margins, [len(moves)], tol=1e-12, max_iterations=50_000
            )
            best = largest * -qp.value
        else:
            best = minimize(objective, weights, method="BFGS", options={"gtol": 1e-9}).fun
        assert found == pytest.approx(best, rel=1e-6, abs=1e-9)
        assert found <= objective(states[1].weights) + 1e-9


def test_one_half_space_is_mira() -> None:
    for loss in ("log", "hinge", "between"):
        problem = problem_of("tied", loss).problem
        states = []
        for each in (MIRA(), ExactMIRA(k=1)):
            state = start(problem, each)
            for _ in range(3):
                state, _ = each.step(problem, state, InTurn())  # type: ignore[arg-type]
            states.append(state)
        for ours, theirs in zip(*states, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


# -- perceptron --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["log", "hinge", "perceptron"])
@pytest.mark.parametrize("case", ["multiclass", "tied", "masked"])
def test_perceptron_follows_its_plain_form(case: str, loss: str) -> None:
    """Plain predictions whatever the loss."""
    data = problem_of(case, loss) if loss != "perceptron" else small(kind=case, loss=loss)
    problem, written = data.problem, data.written_out
    state = start(problem, Perceptron())
    weights = state.weights.copy()
    state, _ = Perceptron().step(problem, state, InTurn())  # type: ignore[arg-type]
    for i in range(problem.n_examples):
        features, gold = written.features[i], written.gold[i]
        wrong = int(np.argmax(features @ weights))
        weights = weights + written.weight[i] * (features[gold] - features[wrong])
    np.testing.assert_allclose(state.weights, weights, atol=1e-9)


def test_perceptron_stops_moving_on_separable_data() -> None:
    """Few examples, many attributes: no mistakes in the end, so the weights stand still."""
    data = small("tied", Loss(np.inf, 0.0), features="real", n=4)
    state, random = Perceptron().init(data.problem, np.random.default_rng(0)), np.random.default_rng(0)
    for _ in range(60):
        before = state.weights.copy()
        state, _ = Perceptron().step(data.problem, state, random)
    np.testing.assert_array_equal(state.weights, before)
    loss, _ = data.problem.losses(state.weights)
    np.testing.assert_allclose(loss, 0.0, atol=1e-9)


# -- certificates, resuming, refusals ------------------------------------------------------------------


@pytest.mark.parametrize("passes", [1, 5])
@pytest.mark.parametrize(
    ("name", "loss"),
    [
        (name, loss)
        for name in ONLINE
        for loss in ("log", "hinge", "between")
        if name != "kbest-mira" or loss == "hinge"
    ],
)
@pytest.mark.parametrize("case", ["multiclass", "tied", "order2"])
def test_certificate_is_honest(case: str, name: str, loss: str, passes: int) -> None:
    data, best = problem_of(case, loss), optimum(case, loss)
    found = solve(data.problem, SOLVERS[name], tol=1e-9, max_passes=passes)
    assert found.passes == passes
    assert found.certificate.primal == pytest.approx(data.written_out.primal(found.weights), rel=1e-9)
    assert 0.0 <= found.certificate.dual <= best * (1 + 1e-9)
    assert found.certificate.primal >= best * (1 - 1e-9)
    np.testing.assert_array_equal(found.weights, found.state.average())
    if not data.problem.loss.is_hard:
        truth, model = data.written_out.true_labels(), model_point(data.written_out, found.weights)
        shares = np.linspace(0, 1, 1001)
        mixtures = ([(1 - s) * t + s * m for t, m in zip(truth, model, strict=True)] for s in shares)
        highest = max(data.written_out.dual(mixture) for mixture in mixtures)
        assert found.certificate.dual <= highest * (1 + 1e-9)
        # The entropy of a mixture is at least s times that of the model: what is left is a parabola in s.
        v = data.written_out.v(model)
        norm = float(v @ v) / (2 * data.problem.l2)
        linear = data.written_out.dual(model) + norm
        parabola = (shares * linear - shares**2 * norm).max()
        assert found.certificate.dual == pytest.approx(parabola, rel=1e-5)
        assert found.certificate.dual >= parabola * (1 - 1e-9)
    elif name != "perceptron" and passes > 1:
        assert found.certificate.dual > 0.0


@pytest.mark.parametrize("name", ONLINE)
def test_untouched_state_can_be_certified(name: str) -> None:
    problem = problem_of("tied", "hinge").problem
    _, certificate = SOLVERS[name].certificate(problem, SOLVERS[name].init(problem, np.random.default_rng(0)))
    assert certificate.gap >= 0.0


@pytest.mark.parametrize("name", ONLINE)
def test_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    problem, file = problem_of("tied", "hinge").problem, tmp_path / "run"
    whole = solve(problem, SOLVERS[name], tol=1e-12, max_passes=9)
    solve(problem, SOLVERS[name], tol=1e-12, max_passes=4, checkpoint=file)
    again = solve(
        problem, SOLVERS[name], tol=1e-12, max_passes=9, checkpoint=file, resume=True, random_state=7
    )
    for ours, theirs in zip(again.state, whole.state, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("solver", "loss", "word"),
    [
        (KBestMIRA(), "log", "needs beta = inf .*: use"),
        (KBestMIRA(k=0), "hinge", "k must"),
        (ExactMIRA(k=0), "log", "k must"),
        (ExactMIRA(tolerance=-1.0), "log", "tolerance must"),
        (KBestMIRA(k=True), "hinge", "k must"),
        (KBestMIRA(labels="best"), "hinge", "labels must"),  # type: ignore[arg-type]
    ],
)
def test_refusals_say_what_to_use(solver: Any, loss: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        solve(problem_of("tied", loss).problem, solver)


def test_perceptron_asks_for_best_labels_whatever_the_loss() -> None:
    """On a problem that nothing else has asked for them."""
    problem = small("multiclass", "log", seed=3).problem
    found = solve(problem, SOLVERS["perceptron"], max_passes=2)
    assert found.certificate.primal == pytest.approx(problem.primal(found.weights), rel=1e-12)
