"""The reranker of the examples: its optimum, its answers, and the labellings that it chooses."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from data_paths import ROOT
from scipy.optimize import minimize

from partwise import Loss


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("reranker", ROOT / "examples" / "reranker.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("loss", ["log", "softmax_margin", Loss(3.0, 0.5)])
def test_the_optimum_is_that_of_the_definition(example: Any, loss: Any) -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(1, 5, 12)
    arrays = [random.normal(size=(n, 3)) for n in sizes]
    lists = [[{f"f{k}": float(v) for k, v in enumerate(row)} for row in each] for each in arrays]
    truths = [int(random.integers(n)) for n in sizes]
    costs = [random.random(n) * (np.arange(n) != t) for n, t in zip(sizes, truths, strict=True)]
    model = example.Reranker(loss, l2=0.5, tol=1e-6).fit(lists, truths, costs)
    beta, gamma = model.solution.problem.loss.beta, model.solution.problem.loss.gamma

    def objective(w: np.ndarray) -> float:
        total = 0.25 * float(w @ w)
        for own, t, cost in zip(arrays, truths, costs, strict=True):
            margins = beta * (own @ w - own[t] @ w + gamma * cost)
            total += float(np.log(np.exp(margins).sum())) / beta
        return total

    best = minimize(objective, np.zeros(3), method="BFGS")
    assert model.solution.certificate.primal == pytest.approx(best.fun, rel=1e-5)
    scores = [own @ best.x for own in arrays]
    for ours, theirs in zip(model.scores(lists), scores, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-2)
    assert model.predict(lists).tolist() == [int(np.argmax(own)) for own in scores]
    for ours, own in zip(model.predict_marginals(lists), scores, strict=True):
        weights = np.exp(beta * (own - own.max()))
        np.testing.assert_allclose(ours, weights / weights.sum(), atol=2e-2)
    ranked = model.predict_kbest(lists, k=2)
    assert [own[0][0] for own in ranked] == model.predict(lists).tolist()


def test_it_improves_the_lists_of_a_chain(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    wrong = {}
    for line in capsys.readouterr().out.splitlines()[1:]:
        name, _, rest = line.partition(": ")
        wrong[name] = int(rest.split()[0])
    assert wrong["best of the list"] <= wrong["reranked"] < wrong["first"]
