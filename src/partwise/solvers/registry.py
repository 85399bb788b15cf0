"""All solvers by name. Help texts, tables of the documentation and lists in errors are made from this list."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.solvers.base import Solver


class Entry(NamedTuple):
    """A solver that is imported when it is first used.

    Attributes
    ----------
    module, kind : str
        Its module in this folder, and its class.
    settings : tuple
        Arguments of the class.
    summary : str
        One line for tables.
    """

    module: str
    kind: str
    settings: tuple[Any, ...]
    summary: str


@cache
def _loaded(entry: Entry) -> Solver:
    module = import_module(f"partwise.solvers.{entry.module}")
    solver: Solver = getattr(module, entry.kind)(*entry.settings)
    return solver


_METHODS = ("check", "init", "step", "certificate")  # that tell a solver object from anything else


class Registry(MutableMapping[str, "Solver"]):
    """Solvers by name; listing the names imports no solver. ``SOLVERS["mine"] = Mine()`` adds one.

    A former name finds its solver but is not listed.
    """

    def __init__(self, entries: dict[str, Entry], former: dict[str, str]):
        self._known: dict[str, Entry | Solver] = dict(entries)
        self._former = former

    def __getitem__(self, name: str) -> Solver:
        found = self._known[self._former.get(name, name)]
        return _loaded(found) if isinstance(found, Entry) else found

    def __setitem__(self, name: str, solver: Solver) -> None:
        self._known[name] = solver

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._former

    def summary(self, name: str) -> str:
        """One line that says what the solver is."""
        found = self._known[name]
        if isinstance(found, Entry):
            return found.summary
        return (found.__doc__ or "").strip().partition("\n")[0].rstrip(".")


_EG = "dual.exponentiated_gradient", "ExponentiatedGradient"
_ENTRIES = {
    "eg": Entry(*_EG, ("random",), "online exponentiated gradient on the dual, examples drawn at random"),
    "eg-cyclic": Entry(*_EG, ("cyclic",), "the same, in a fixed order"),
    "eg-permuted": Entry(*_EG, ("permuted",), "the same, in a new order every pass"),
    "eg-gap": Entry(
        *_EG, ("gap", "newton"), "the same, those first that have most to gain, with steps from the curvature seen"
    ),
    "sdca": Entry(
        *_EG, ("gap", "newton", "arithmetic"),
        "dual coordinate ascent along mixtures; the same as `eg-gap` if a labelling has several parts",
    ),
    "eg-batch": Entry("dual.batch_gradient", "BatchEG", (), "exponentiated gradient on all examples at once"),
    "eg-primal": Entry(
        "dual.batch_gradient", "PrimalEG", (), "the same, with one vector in place of dual variables"
    ),
    "bcfw": Entry("dual.block_coordinate", "BlockFrankWolfe", (), "block-coordinate Frank–Wolfe"),
    "chain-cd": Entry(
        "dual.chain_cd", "ChainCoordinateAscent", (),
        "dual coordinate ascent on the pair marginals of chains; like `smo` not for every structure",
    ),
    "crammer-singer": Entry(
        "dual.crammer_singer", "CrammerSinger", (),
        "exact coordinate ascent on all labels of one example after another; for classes",
    ),
    "extragradient": Entry(
        "saddle.extragradient", "Extragradient", (), "weights and labels as two players of a game"
    ),
    "excessive-gap": Entry(
        "saddle.excessive_gap", "ExcessiveGap", (),
        "accelerated: gap below a constant / (passes)², in memory independent of the data's size",
    ),
    "lbfgs": Entry("primal.lbfgs", "LBFGS", (), "limited-memory BFGS in the primal"),
    "lbfgs-sharpened": Entry(
        "primal.sharpened_lbfgs", "SharpenedLBFGS", (), "the same on sharper and sharper losses, for few attributes"
    ),
    "cg": Entry("primal.gradient", "ConjugateGradient", (), "nonlinear conjugate gradient in the primal"),
    "sgd": Entry("primal.sgd", "SGD", (), "stochastic gradient descent in the primal"),
    "smo": Entry(
        "dual.smo", "SMO", (), "moves between two labellings, on marginals; not for chains of order 2 or more"
    ),
    "smo-eg": Entry(
        "dual.smo_eg", "SMOThenEG", (), "the same for five passes, then online exponentiated gradient"
    ),
    "mira": Entry("primal.mira", "MIRA", (), "passive-aggressive visits, averaged"),
    "kbest-mira": Entry("primal.mira", "KBestMIRA", (), "the same, against the k best labellings"),
    "exact-mira": Entry("primal.exact_mira", "ExactMIRA", (), "the same, every step solved exactly"),
    "perceptron": Entry("primal.mira", "Perceptron", (), "perceptron visits, averaged"),
    "svm-struct": Entry(
        "bundle.cutting_plane", "SVMStruct", (), "cutting planes, a working set per example"
    ),
    "bmrm": Entry("bundle.cutting_plane", "BMRM", (), "cutting planes, one bundle for the whole loss"),
}  # fmt: skip
SOLVERS = Registry(_ENTRIES, former={"segments": "chain-cd"})


def check_known(solver: Any) -> None:
    """Raise InputError unless `solver` is "auto", a known name or a solver object."""
    if isinstance(solver, str):
        if solver != "auto" and solver not in SOLVERS:
            raise InputError(f"unknown solver {solver!r:.60}; there are auto, {', '.join(SOLVERS)}")
    elif isinstance(solver, type) or not all(callable(getattr(solver, name, None)) for name in _METHODS):
        hint = f"{solver.__name__}()" if isinstance(solver, type) else "partwise.solvers.LBFGS()"
        raise InputError(f"solver must be a name or a solver object such as {hint}, not {solver!r:.60}")
