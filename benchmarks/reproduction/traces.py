"""What a solver does on a small problem: numbers are old once their solver does something else.

A trace is the primal and the dual after each of the first steps of a solver on a fixed problem, to six digits. It is
kept with the numbers that the solver made. A change of the code that leaves the trace as it is leaves the numbers, too;
after one that does not, the page says which numbers were made before. Traces take milliseconds, the experiments hours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

N_STEPS = 6
_DIGITS = 6
Trace = list[float]


def _random() -> np.random.Generator:
    return np.random.default_rng(0)


@cache
def digits() -> Any:
    """A log-linear model of ten classes."""
    from multiclass import problem_of
    from scipy import sparse

    random = _random()
    y = random.integers(0, 10, 60)
    x = (random.random((60, 784)) < 0.02) + 0.5 * (np.arange(784) % 10 == y[:, None])
    return problem_of(sparse.csr_matrix(x.astype(float)), y, 1.0, "log")


@cache
def words() -> Any:
    """A max-margin chain of letters."""
    from ocr_data import Letters, explicit_problem

    random = _random()
    lengths, labels = np.full(12, 5), random.integers(0, 26, 60)
    pixels = (random.random((60, 128)) < 0.2) + (np.arange(128) % 26 == labels[:, None])
    return explicit_problem(Letters(pixels.astype(np.float32), labels, lengths), 10.0)


@cache
def tagged() -> Any:
    """A chain of names with costs."""
    from partwise import Loss, SequenceLabeler

    random = _random()
    y = [[str(each) for each in random.choice(["O", "B-X", "I-X"], 6)] for _ in range(20)]
    x = [[[f"{label}{random.integers(3)}", f"w{random.integers(9)}"] for label in own] for own in y]
    labeler = SequenceLabeler(Loss(1.0, 1.0), solver="perceptron", max_passes=1, tol=1e9)
    return labeler.fit(x, y)._training.problem


def _trees(**settings: Any) -> Any:
    from partwise import DependencyParser
    from partwise.data import corpus_from_sentences

    random, heads, tags = _random(), [], []
    for _ in range(15):
        n = int(random.integers(3, 8))
        heads.append([0, *(int(random.integers(1, m + 1)) for m in range(1, n))])
        tags.append([f"t{random.integers(4)}" for _ in range(n)])
    forms = [[f"{tag}{m % 2}" for m, tag in enumerate(own)] for own in tags]
    corpus = corpus_from_sentences(forms, fine_tags=tags, heads=heads)
    settings = {"labelled": False, "templates": "pos", "prune": None, "non_projective": "skip", **settings}
    return DependencyParser(**settings)._problem_for(corpus)[0]


@cache
def projective(loss: str) -> Any:
    return _trees(structure="projective", loss=loss)


@cache
def spanning(order: int, inference: str = "auto") -> Any:
    from partwise import Loss

    more = {} if inference == "auto" else {"inference": inference}  # a setting that older code has not
    return _trees(structure="spanning", order=order, loss=Loss(1.0, 1.0), **more)


def _makers() -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """By name: the problem, and the solver for it."""
    from partwise import solvers
    from reproduction.bartlett import FixedBatchEG, FixedOnlineEG
    from reproduction.curves import published_eg

    def auto(problem: Any) -> Any:
        return solvers.solver_for(problem, "auto", 1e-7)

    def lbfgs(problem: Any) -> Any:
        return solvers.LBFGS(preconditioner=None)

    problems: dict[str, tuple[Callable[[], Any], dict[str, Callable[[Any], Any]]]] = {
        "digits": (digits, {
            "eg": lambda p: published_eg(), "cyclic eg": lambda p: published_eg("cyclic"),
            "annealed eg": lambda p: published_eg(annealing=solvers.Annealing(10.0, 5.0, 0.7)), "auto": auto,
            "sgd": lambda p: solvers.SGD(0.1), "lbfgs": lbfgs, "preconditioned lbfgs": lambda p: solvers.LBFGS(),
            "cg": lambda p: solvers.ConjugateGradient(),
        }),
        "log-linear trees": (lambda: projective("log"), {
            "eg": lambda p: published_eg(), "auto": auto, "sgd": lambda p: solvers.SGD(0.1), "lbfgs": lbfgs,
            "preconditioned lbfgs": lambda p: solvers.LBFGS(), "cg": lambda p: solvers.ConjugateGradient(),
        }),
        # Without auto: its best trees nearly tie, so that rounding decides its first steps.
        "max-margin trees": (lambda: projective("hinge"), {
            "eg": lambda p: published_eg(), "svm-struct": lambda p: solvers.SVMStruct(),
        }),
        "all trees": (lambda: spanning(1), {
            "mira": lambda p: solvers.MIRA(), "sgd": lambda p: solvers.SGD(0.1), "auto": auto,
        }),
        "second-order trees": (lambda: spanning(2, "loopy"), {
            "mira": lambda p: solvers.MIRA(), "sgd": lambda p: solvers.SGD(0.1),
        }),
        "tags": (tagged, {
            "mira": lambda p: solvers.MIRA(), "sgd": lambda p: solvers.SGD(0.1), "auto": auto, "lbfgs": lbfgs,
        }),
        "letters": (words, {
            "excessive-gap": lambda p: solvers.ExcessiveGap(), "fixed excessive-gap":
            lambda p: solvers.ExcessiveGap("fixed"), "bmrm": lambda p: solvers.BMRM(), "bcfw":
            lambda p: solvers.BlockFrankWolfe(precision="double"), "eg-batch": lambda p: solvers.BatchEG(),
            "fixed eg-batch": lambda p: FixedBatchEG("safe"),
            "fixed eg": lambda p: FixedOnlineEG("random", "safe", start="smoothed", precision="double"),
            "smo": lambda p: solvers.SMO(), "entropy smo": lambda p: solvers.SMO("entropy"),
            "smo, then eg": lambda p: solvers.SMOThenEG(smo=solvers.SMO("entropy")), "auto": auto,
        }),
    }  # fmt: skip
    return {
        f"{solver}, {name}": (problem, make)
        for name, (problem, own) in problems.items()
        for solver, make in own.items()
    }


@cache
def names() -> tuple[str, ...]:
    return tuple(_makers())


@cache
def trace(name: str) -> Trace:
    """Primal and dual after each of the first steps; a dual that is not there is left out."""
    from common import certified_points

    problem, make = _makers()[name]
    built, found = problem(), []
    points = certified_points(built, make(built), 1e9)
    for _, (_, _, primal, dual, *_) in zip(range(N_STEPS), points, strict=False):
        found += [float(f"{each:.{_DIGITS}g}") for each in (primal, dual) if np.isfinite(each)]
    return found


def is_same(one: Trace, other: Trace) -> bool:
    """Whether two traces agree, except for rounding."""
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=1e-4, atol=1e-6))
