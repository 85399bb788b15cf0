"""What a solver needs of a problem. Solvers declare it; `check_solver` asks it before training starts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from partwise.core.problem import Problem
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.solvers.base import Solver


@dataclass(frozen=True)
class Needs:
    """Conditions on problems without which a solver would be wrong, not only slow.

    Attributes
    ----------
    loss : {"any", "smooth", "hard"}
        "smooth": finite β; "hard": β = ∞.
    features : bool
        The problem has features, not a kernel function: a visit reads and writes single weights.
    whole_labels : bool
        The true labels are labels, not expectations of labels.
    exact : bool
        Sums and maxima over labellings are exact, and a maximiser is a labelling.
    first_order : bool
        Consistent marginals of parts are always those of a distribution: classes, chains of order 1.
    classes : bool
        A labelling is one label, and labels share no weights (plain classes).
    ridge : bool
        The regulariser has no l1 term.
    partial : bool
        Not a need: labels may be known in part.
    """

    loss: Literal["any", "smooth", "hard"] = "any"
    features: bool = False
    whole_labels: bool = False
    exact: bool = False
    first_order: bool = False
    classes: bool = False
    ridge: bool = False
    partial: bool = False


def both(one: Needs, other: Needs) -> Needs:
    """What two solvers together need."""
    a, b = asdict(one), asdict(other)
    loss = a.pop("loss") if b["loss"] == "any" else b["loss"]
    merged = {name: value or b[name] for name, value in a.items() if name != "loss"}
    return Needs(**{**merged, "loss": loss, "partial": one.partial and other.partial})


NEEDS_FIRST_ORDER = (
    "keeps marginals of classes, or of neighbours in chains of order 1, and this structure has other parts: use an "
    "'eg' solver or 'bcfw'"
)
NEEDS_CLASSES = "is for classes, and this structure has other parts: use an 'eg' solver, 'bcfw' or 'chain-cd'"


def refusal(problem: Problem, needs: Needs) -> str | None:
    """The first need that `problem` does not meet and a remedy, in words; None if it meets all."""
    loss, structure = problem.loss, problem.structure
    has_beta = f"loss={loss.name!r} has beta = {loss.beta:g}"
    unmet = {
        "needs labels that are known whole, and some are not observed (None): use 'auto', 'lbfgs' or 'cg'": (
            problem.certified == "local" and not needs.partial
        ),
        f"needs a smooth loss (finite beta) and {has_beta}: use an 'eg' solver, 'sgd', or Loss(beta, gamma) "
        "with a large beta": needs.loss == "smooth" and loss.is_hard,
        f"needs beta = inf and {has_beta}: use an 'eg' solver or 'bmrm'": needs.loss == "hard"
        and not loss.is_hard,
        "needs features, and this problem has a kernel function in their place: use an 'eg' solver, or 'bcfw' "
        "where beta = inf": needs.features and not problem.has_features,
        NEEDS_FIRST_ORDER: needs.first_order and not structure.is_first_order,
        NEEDS_CLASSES: needs.classes and not structure.n_classes,
        f"works with l2 alone, and this problem has l1 = {problem.l1:g}: use an 'eg' solver, 'lbfgs' where beta is "
        "finite, or 'bcfw' where it is not": needs.ridge and problem.l1 > 0.0,
        "needs true labels, and this problem has expectations of them: use an 'eg' solver or 'bmrm'": (
            needs.whole_labels and problem.batch.gold_amount.size > 0
        ),
        f"needs exact sums over labellings, and this structure's are {_SUMS.get(structure.exactness)}: use an "
        "'eg' solver or 'bmrm'": needs.exact and structure.exactness != "exact",
    }
    return next((words for words, is_unmet in unmet.items() if is_unmet), None)


_SUMS = {"relaxation": "a relaxation", "approximate": "approximate"}


def check_solver(problem: Problem, solver: Solver) -> None:
    """Raise InputError, in one line, if `solver` cannot train `problem` or has invalid settings."""
    words = refusal(problem, solver.needs)
    if words is not None:
        raise InputError(f"solver {solver.name!r} {words}")
    solver.check(problem)
