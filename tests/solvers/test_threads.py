"""Several threads: the same optimum from every solver, equal rounds bit for bit; predictions from many at once."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from problems import small

from partwise import Classifier, SequenceLabeler
from partwise.compiled.dispatch import entry
from partwise.compiled.lock import acquire, release
from partwise.core.problem import Problem
from partwise.solvers import SOLVERS, BlockFrankWolfe, ExponentiatedGradient, solve, solver_for, threads
from partwise.solvers.combining import BLOCK, combine_pass
from partwise.solvers.threads import Threads, n_worthwhile, pieces_of, shares_of


@pytest.fixture(autouse=True)
def threads_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if waking a thread cost nothing and many were as good as two: the problems here are far too small."""
    monkeypatch.setattr(threads, "_A_THREAD", 0.0)
    monkeypatch.setattr(threads, "_MOST_IN_ROUNDS", 100)


@pytest.fixture
def sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if visits touched few weights."""
    monkeypatch.setattr(threads, "_MOST_TOUCHED", np.inf)
    monkeypatch.setattr(threads, "_FEWEST_AT_ONCE", 2)


BLOCKWISE = {
    "log": ["eg", "eg-cyclic", "eg-gap", "sdca", "auto"],
    "hinge": ["eg-gap", "bcfw", "crammer-singer", "smo", "smo-eg"],
}
PROBLEMS: dict[str, dict[str, Any]] = {
    "multiclass": {"kind": "multiclass", "features": "dense", "n": 64},
    "tied": {"kind": "tied", "features": "binary", "pairs": "observed", "weighted": True, "n": 64},
    "spanning": {"kind": "spanning", "features": "binary", "n": 64},
}
PAIRS = [
    *(("multiclass", loss, name) for loss, names in BLOCKWISE.items() for name in names),
    *(("tied", loss, name) for loss, name in (("log", "eg-gap"), ("hinge", "bcfw"), ("hinge", "smo"))),
    ("spanning", "log", "eg-gap"),
    ("spanning", "hinge", "bcfw"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "loss", "name"), PAIRS)
def test_same_optimum_whatever_the_number_of_threads(case: str, loss: str, name: str) -> None:
    _check_optimum(case, loss, name)


@pytest.mark.usefixtures("sharing")
@pytest.mark.parametrize(
    ("case", "loss", "name"),
    [("multiclass", "log", "eg"), ("multiclass", "hinge", "eg-gap"), ("multiclass", "log", "sdca")]
    + [(case, "log", "eg-gap") for case in PROBLEMS],
)
def test_same_optimum_where_threads_share_weights(case: str, loss: str, name: str) -> None:
    _check_optimum(case, loss, name)


def _check_optimum(case: str, loss: str, name: str) -> None:
    tol = 1e-2 if loss == "hinge" and "eg" in name else 1e-4
    found = {}
    for n_jobs in (1, 2, 3, 100):  # at last more than there are examples
        data = small(loss=loss, n_jobs=n_jobs, **PROBLEMS[case])
        found[n_jobs] = solve(data.problem, solver_for(data.problem, name, tol), tol=tol, max_passes=3000)
        assert found[n_jobs].converged, n_jobs
        primal = data.written_out.primal(found[n_jobs].weights)
        assert found[n_jobs].certificate.primal == pytest.approx(primal, rel=1e-7)
    best = max(each.certificate.dual for each in found.values())
    for each in found.values():
        assert each.certificate.dual - 1e-9 <= best <= each.certificate.primal + 1e-9
        assert each.certificate.primal <= best * (1 + 1.1 * tol)


@pytest.mark.usefixtures("sharing")
@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_shared_weights_are_those_of_the_dual_variables_and_the_dual_rises(lean: bool, l1: float) -> None:
    """Before any certificate repairs them, and though steps are tried and undone from the first pass on."""
    problem = small("tied", "log", features="real", n=200, n_jobs=4, weighted=True, l1=l1).problem
    solver = ExponentiatedGradient("gap", "newton", precision="double", acceleration=None, lean=lean)
    state, random = solver.init(problem, np.random.default_rng(0)), np.random.default_rng(0)
    assert Threads(problem, may_share=True).is_sharing and Threads(problem, may_share=True).n_threads == 4
    dual = -np.inf
    for _ in range(6):
        state, info = solver.step(problem, state, random)
        assert info.dual >= dual - 1e-9 * abs(dual)
        dual = info.dual
        _, certificate = solver.certificate(problem, type(state)(*(np.copy(array) for array in state)))
        if not lean:  # whose bytes are rounded anew, which is what the certificate is of
            assert certificate.drift <= 1e-9 * abs(certificate.primal)
            assert dual == pytest.approx(certificate.dual, rel=1e-9)


@pytest.mark.usefixtures("sharing")
def test_pieces_cover_the_order_and_get_shorter() -> None:
    random = np.random.default_rng(0)
    order = random.permutation(500)[:300]
    pieces = pieces_of(order, 500, 3)
    assert np.array_equal(np.concatenate(pieces), order)
    assert np.all(np.diff([len(piece) for piece in pieces[:-1]]) <= 0) and len(pieces[-1]) <= 3
    again = random.integers(50, size=200)
    owners = [set(piece) for piece in pieces_of(again, 500, 3)]
    assert len(owners) == 3 and sum(map(len, owners)) == len(set(again))


def test_a_lock_lets_one_thread_in_at_a_time() -> None:
    lock, total = np.zeros(1, np.int64), np.zeros(100)
    threads = [threading.Thread(target=_add_ones, args=(lock, total, 2000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (total == 8000.0).all() and lock[0] == 0


@entry
def _add_ones(lock, total, n):  # type: ignore
    for _ in range(n):
        acquire(lock)
        for j in range(total.size):
            total[j] += 1.0
        release(lock)


@pytest.mark.parametrize("name", ["eg", "eg-gap", "sdca", "bcfw", "crammer-singer", "smo"])
def test_equal_seeds_and_threads_give_equal_bits(name: str) -> None:
    loss = "hinge" if name in ("bcfw", "crammer-singer", "smo") else "log"
    runs = [
        solve(
            small("multiclass", loss, features="real", n=60, n_jobs=3, seed=4).problem, SOLVERS[name],
            tol=1e-4, max_passes=15, random_state=7,
        )
        for _ in range(3)
    ]  # fmt: skip
    for other in runs[1:]:
        assert other.passes == runs[0].passes
        assert np.array_equal(other.weights, runs[0].weights)


def test_l1_has_the_same_optimum() -> None:
    found = []
    for n_jobs in (1, 3):
        problem = small("tied", "log", features="real", n=64, n_jobs=n_jobs, l1=1.5).problem
        found.append(solve(problem, ExponentiatedGradient("gap", "newton", precision="double"), tol=1e-6))
        assert found[-1].converged
        assert (found[-1].weights == 0.0).mean() > 0.2
    np.testing.assert_allclose(found[0].weights, found[1].weights, atol=2e-3)


def test_what_is_kept_of_v_is_that_of_the_dual_variables() -> None:
    """After each step, before any certificate repairs it."""
    problem = small("tied", "hinge", features="real", n=64, n_jobs=3, weighted=True).problem
    solver, random = BlockFrankWolfe(precision="double"), np.random.default_rng(0)
    state = solver.init(problem, random)
    for _ in range(4):
        state, info = solver.step(problem, state, random)
        kept = state.v.copy(), float(state.norm[0])
        _, certificate = solver.certificate(problem, type(state)(*(np.copy(array) for array in state)))
        assert certificate.drift <= 1e-9 * abs(certificate.primal)
        assert info.dual == pytest.approx(certificate.dual, rel=1e-9)
        assert kept[1] == pytest.approx(float(kept[0] @ kept[0]))


def test_an_interrupted_run_goes_on_with_threads_as_if_it_had_not_been(tmp_path: Any) -> None:
    problem, solver = small("tied", "log", n=50, n_jobs=2).problem, ExponentiatedGradient("gap", "newton")
    whole = solve(problem, solver, tol=1e-9, max_passes=6)
    path = tmp_path / "run"
    solve(problem, solver, tol=1e-9, max_passes=6, checkpoint=path, callback=lambda at: at.passes > 2.5)
    again = solve(problem, solver, tol=1e-9, max_passes=6, checkpoint=path, resume=True)
    assert np.array_equal(again.weights, whole.weights)


# -- rounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_combining_is_what_it_says(dtype: Any) -> None:
    random = np.random.default_rng(0)
    n, sigma, l1 = 2 * BLOCK + 37, 1.7, 0.3
    v, copies = random.normal(size=n).astype(dtype), random.normal(size=(3, n)).astype(dtype)
    change = (copies.astype(float) - v) / sigma
    expected, sums = v + change.sum(axis=0), np.zeros(3)
    for first, last in ((0, 1000), (1000, n)):
        combine_pass(v, copies, 1 / sigma, l1, first, last, np.empty(BLOCK), sums)
    np.testing.assert_allclose(v, expected, atol=1e-5 if dtype == np.float32 else 1e-12)
    shrunk = expected - np.clip(expected, -l1, l1)
    known = (change.sum(axis=0) ** 2).sum(), (change**2).sum(), (shrunk**2).sum()
    np.testing.assert_allclose(sums, known, rtol=1e-5)


def test_shares_are_even_and_keep_repeated_examples_together() -> None:
    random = np.random.default_rng(0)
    sizes, order = random.integers(1, 50, 300), random.integers(300, size=500)
    shares = shares_of(order, sizes, 4)
    assert sorted(np.concatenate(shares)) == sorted(order)
    owners = [set(share) for share in shares]
    assert sum(len(own) for own in owners) == len(set().union(*owners))
    even = shares_of(random.permutation(300), sizes, 4)
    assert max(sizes[share].sum() for share in even) <= sizes.sum() / 4 + 50
    assert [len(share) for share in shares_of(np.array([5]), sizes, 3)].count(0) == 2


def test_an_error_in_a_thread_is_raised_when_all_have_ended() -> None:
    problem = small("tied", "log", n=60, n_jobs=3).problem
    state = ExponentiatedGradient().init(problem, np.random.default_rng(0))
    ended = []

    def fail(batch: Any, here: np.ndarray, point: Any, scratch: Any) -> None:
        ended.append(threading.get_ident())
        raise ValueError("no")

    before = threading.active_count()
    with pytest.raises(ValueError, match="no"), Threads(problem) as own:
        own.visit(np.arange(60), state.point(), fail)
    assert len(set(ended)) == 3 and threading.active_count() == before


def test_sigma_is_what_examples_that_share_all_need() -> None:
    """Copies of one example pull the same way: threads must count on each other's whole change."""

    def run(batch: Any, here: np.ndarray, point: Any, scratch: Any) -> None:
        point.v[:] += batch.example_weight[here] @ direction[here]

    problem = small("multiclass", "log", n=40, n_jobs=2).problem
    point = ExponentiatedGradient(precision="double").init(problem, np.random.default_rng(0)).point()
    needed = []
    for same in (True, False):
        direction = np.zeros((40, problem.n_weights))
        direction[np.arange(4), 0 if same else np.arange(4)] = 1.0
        with Threads(problem) as own:
            own.visit(np.arange(4), point, run)
            needed.append(own.sigma)
    assert needed[0] == 2.0 and needed[1] == pytest.approx(1.1)
    assert point.v[0] == pytest.approx(5.0)  # σ is taken out again: all four, and the first once more


def test_threads_that_would_have_nothing_to_do_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small("tied", "log", n=100, n_jobs=4).problem
    assert n_worthwhile(problem) == 4
    assert n_worthwhile(small("tied", "log", n=45, n_jobs=4).problem) == 2
    monkeypatch.setattr(threads, "_A_THREAD", 2e5)
    assert n_worthwhile(problem) == 1


# -- predictions from many threads and processes -------------------------------------------------


def _sequences() -> tuple[list[Any], list[Any]]:
    random = np.random.default_rng(3)
    words = [[f"w{k}" for k in random.integers(30, size=random.integers(1, 15))] for _ in range(200)]
    return [[{"word": w} for w in own] for own in words], [
        [str(int(w[1:]) % 4) for w in own] for own in words
    ]


@pytest.fixture(scope="module")
def labeler() -> Any:
    return SequenceLabeler(tol=1e-2, n_jobs=2).fit(*_sequences())


def _everything(model: Any, X: list[Any]) -> tuple[Any, Any]:
    return model.predict(X), np.concatenate(model.predict_marginals_array(X))


def test_predictions_from_many_threads_at_once(labeler: Any) -> None:
    X = _sequences()[0]
    parts = [X[k::7] for k in range(7)]
    alone = [_everything(labeler, part) for part in parts]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: _everything(labeler, parts[k % 7]), range(70)))
    for k, (labels, marginals) in enumerate(found):
        assert labels == alone[k % 7][0]
        assert np.array_equal(marginals, alone[k % 7][1])


def _in_child(labeler: Any, X: list[Any], results: Any) -> None:
    results.put(_everything(labeler, X)[0] == labeler.expected)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_predictions_and_fits_in_forked_workers(labeler: Any) -> None:
    """After a fit with threads in the parent: nothing that a child needs may have stayed behind in one of them."""
    X, y = _sequences()
    labeler.expected = labeler.predict(X)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=_in_child, args=(labeler, X, results)) for _ in range(3)]
    children.append(context.Process(target=_fit_in_child, args=(X, y, results)))
    for child in children:
        child.start()
    assert [results.get(timeout=120) for _ in children] == [True] * len(children)
    for child in children:
        child.join(timeout=60)
        assert child.exitcode == 0


def _fit_in_child(X: list[Any], y: list[Any], results: Any) -> None:
    results.put(bool(SequenceLabeler(tol=1e-2, n_jobs=2).fit(X, y).converged_))


def test_fits_of_one_kind_from_several_threads_at_once() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 5))
    y = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 2] > 0)
    alone = Classifier(n_jobs=2, random_state=0).fit(X, y)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: Classifier(n_jobs=2, random_state=0).fit(X, y), range(8)))
    assert all(np.array_equal(model.coef_, alone.coef_) for model in found)


def test_visits_on_threads_are_heard_of() -> None:
    heard = []

    class Watched(Problem):
        def visited(self, n_visits: int) -> None:
            heard.append(n_visits)

    plain = small("tied", "log", n=40, n_jobs=2).problem
    problem = Watched(*plain._parts())
    solver = ExponentiatedGradient("permuted")
    solver.step(problem, solver.init(problem, np.random.default_rng(0)), np.random.default_rng(0))
    assert sum(heard) == 40 and len(heard) >= 10
