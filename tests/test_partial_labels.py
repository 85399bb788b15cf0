"""Labels unobserved at some positions: the loss sums over them, and falls round by round."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from test_sequence_labeler import LABELS, X, Y, sequences

from partwise import InputError, Loss, SequenceLabeler
from partwise.estimators.base import n_threads
from partwise.estimators.sequence.latent import fit_marginalised


def hide(y: list, share: float, seed: int = 0) -> list:
    random = np.random.default_rng(seed)
    return [[None if random.random() < share else label for label in labels] for labels in y]


HIDDEN = hide(Y, 0.4)


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


@pytest.mark.parametrize("loss", [Loss(1.0, 0.0), Loss(1.0, 1.0), Loss(2.0, 0.5)])
@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_the_marginalised_objective_falls_round_by_round(loss: Loss, solver: str) -> None:
    model = SequenceLabeler(loss, tol=1e-4, solver=solver).fit(X, HIDDEN)
    rounds = {record["round"]: record["objective"] for record in model.history_}
    values = list(rounds.values())
    assert model.converged_ and len(values) > 2
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(values[:-1]))
    assert model.objective_ == pytest.approx(min(values))
    short = [i for i, x in enumerate(X) if len(x) <= 4][:25]
    part = SequenceLabeler(loss, tol=1e-3, solver=solver).fit(
        [X[i] for i in short], [HIDDEN[i] for i in short]
    )
    expected = objective_by_enumeration(part, [X[i] for i in short], [HIDDEN[i] for i in short], loss)
    assert part.objective_ == pytest.approx(expected, rel=1e-5)
    passes = [record["passes"] for record in model.history_]
    assert passes == sorted(passes) and model.n_passes_ == passes[-1]


def test_with_nothing_hidden_it_is_the_supervised_fit() -> None:
    supervised = SequenceLabeler(tol=1e-5).fit(X, Y)
    problem = supervised._training.problem
    codes = supervised._training.source.codes
    same = fit_marginalised(supervised, problem, codes)
    assert same.converged
    assert same.objective == pytest.approx(supervised.objective_, rel=2e-5)
    assert same.dual_objective == pytest.approx(supervised.dual_objective_, rel=2e-5)
    np.testing.assert_allclose(same.weights, supervised._training.weights, atol=5e-3)
    assert n_threads(None) == 1


def test_partial_labels_teach_more_than_leaving_sequences_out() -> None:
    many, truth = sequences(150, seed=5)
    hidden = hide(truth, 0.7)
    test_X, test_y = sequences(200, seed=6)
    # At tol = 1e-3 rounds end so early that rounding decides on a hundredth of the score.
    partial = SequenceLabeler(tol=1e-4).fit(many, hidden).score(test_X, test_y)
    whole = [i for i, labels in enumerate(hidden) if None not in labels]
    only = SequenceLabeler(tol=1e-3).fit([many[i] for i in whole], [hidden[i] for i in whole])
    assert partial > only.score(test_X, test_y) - 0.01
    assert partial > 0.7


def test_solvers_agree_and_masks_hold_in_completions() -> None:
    fits = [
        SequenceLabeler(solver=s, tol=1e-3, pairs="all").fit(X, HIDDEN)
        for s in ("eg", "eg-cyclic", "lbfgs", "cg")
    ]
    values = [fit.objective_ for fit in fits]
    np.testing.assert_allclose(values, values[0], rtol=1e-3)
    names = {"A": "O", "B": "B-X", "C": "I-X"}
    y = [[names[label] if label != "C" else None for label in labels] for labels in Y]
    y[0][0] = "B-X"
    y[1] = ["B-X", "I-X", *[None] * 9][: len(y[1])]
    model = SequenceLabeler(scheme="IOB2", tol=1e-2, pairs="all").fit(X, y)
    for labels in model.predict(X):
        assert all(b != "I-X" or a != "O" for a, b in itertools.pairwise(["O", *labels]))
    assert model.influential_examples(X[0], n=2)


def test_losses_and_solvers_that_cannot_are_named() -> None:
    with pytest.raises(InputError, match=r"unobserved labels .* finite beta: 'log', 'softmax_margin'"):
        SequenceLabeler("hinge").fit(X, HIDDEN)
    with pytest.raises(InputError, match="solver 'bcfw' cannot train on; those that can are eg"):
        SequenceLabeler(solver="bcfw").fit(X, HIDDEN)
