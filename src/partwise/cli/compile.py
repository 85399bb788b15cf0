"""`partwise compile`: compile code before the first training, for container images and CI."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Annotated, Any, NamedTuple

import typer

from partwise.compiled.clock import seconds_compiling, telling

_LOSSES = ("log", "hinge")
_WORDS = [[["the", "D"], ["old", "A"], ["dog", "N"], ["barks", "V"]], [["cats", "N"], ["sleep", "V"]]] * 3
_CHUNKS = [["B-NP", "I-NP", "I-NP", "O"], ["B-NP", "O"]] * 3
_EDGES = "columns: word tag\nword[0]\nedge: tag[0]"
_FEWEST_PASSES = 3  # enough for every solver to run all of its code


class Item(NamedTuple):
    """A small problem whose training and predictions compile one kind of code.

    Attributes
    ----------
    name : str
    estimator : class
    parameters : dict
        But loss and solver.
    X, y : what it is fitted to
    answers : tuple of str
        Methods called with X after training, on the estimator as a model file brings it back.
    """

    name: str
    estimator: Any
    parameters: dict[str, Any]
    X: Any
    y: Any
    answers: tuple[str, ...]

    def make(self, loss: str, solver: Any) -> Any:
        return self.estimator(loss=loss, solver=solver, max_passes=_FEWEST_PASSES, **self.parameters)


def compile_ahead(
    all: Annotated[
        bool,
        typer.Option("--all", help="Every structure, loss, solver and precision, not only the usual ones."),
    ] = False,
) -> None:
    """Compile ahead, so that the first training on this machine starts at once.

    Code is compiled when it is first used, and kept on disk: beside the package, or in NUMBA_CACHE_DIR if that is
    set. This command runs small problems that compile the code of `train` and `predict`, with log and hinge loss.
    """
    from partwise.report.output import error_console

    console = error_console()
    assert console is not None
    begin = seconds_compiling()
    runs = list(_every_run() if all else _usual_runs())
    for number, (item, loss, solver) in enumerate(runs, 1):
        name = f"{item.name}, {loss} loss, {_solver_name(solver)}"
        before = seconds_compiling()
        with telling(None, name):
            was_possible = _run(item, loss, solver)
        took = f"{seconds_compiling() - before:5.1f} s" if was_possible else "not possible"
        console.print(f"{number:>4} of {len(runs)}  {took}  {name}", highlight=False, soft_wrap=True)
    total = seconds_compiling() - begin
    console.print(f"{total:.1f} s of compiling and of loading what had been compiled", highlight=False)


def _run(item: Item, loss: str, solver: Any) -> bool:
    """Train, save, load and predict; False if the solver cannot train the problem."""
    import tempfile
    from pathlib import Path

    import partwise
    from partwise.errors import InputError

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", UserWarning)
        try:
            estimator = item.make(loss, solver).fit(item.X, item.y)
        except InputError:
            if solver == "auto":  # auto finds a solver for every problem
                raise
            return False
        estimator.save(Path(folder) / "model")
        loaded = partwise.load(Path(folder) / "model")
        for answer in item.answers:
            # Losses with beta = inf have no probabilities, and say so.
            try:
                getattr(loaded, answer)(item.X)
            except (InputError, AttributeError):
                continue
    return True


def _usual_runs() -> Iterator[tuple[Item, str, Any]]:
    for item in _usual_items():
        for loss in _LOSSES:
            yield item, loss, "auto"


def _every_run() -> Iterator[tuple[Item, str, Any]]:
    """The usual ones first, then all others; the same solver may come in two precisions."""
    from partwise.solvers import SOLVERS

    yield from _usual_runs()
    for item in [*_usual_items(), *_unusual_items()]:
        any_solver = item.estimator._has_weights
        solvers = [each for each in SOLVERS.values() if any_solver or not each.needs.features]
        for loss in _LOSSES:
            for each in solvers:
                for solver in _precisions(each):
                    yield item, loss, solver


def _precisions(solver: Any) -> list[Any]:
    if "precision" not in [field.name for field in fields(solver)]:
        return [solver]
    return [replace(solver, precision=precision) for precision in ("single", "double")]


def _solver_name(solver: Any) -> str:
    if isinstance(solver, str):
        return f"solver {solver}"
    precision = getattr(solver, "precision", None)
    return f"solver {solver.name}" + (f" in {precision} precision" if precision else "")


def _usual_items() -> list[Item]:
    from partwise import Classifier, ConstituencyParser, DependencyParser, SequenceLabeler

    sentences = _sentences()
    trees = [([3, 3, 4, 0], ["det", "mod", "subj", "root"]), ([2, 0], ["subj", "root"])] * 3
    table, classes = _table()
    labelling = ("predict", "predict_marginals")
    return [
        Item("sequences", SequenceLabeler, {"template": "chunking"}, _WORDS, _CHUNKS, labelling),
        Item("classes", Classifier, {}, table, classes, ("predict", "predict_proba")),
        Item("dependency trees", DependencyParser, {}, sentences, trees, labelling),
        Item("pruned dependency trees", DependencyParser, {"prune": 2}, sentences, trees, labelling),
        Item("constituents", ConstituencyParser, {}, *_constituents(), labelling),
    ]


def _unusual_items() -> list[Item]:
    from partwise import (
        ConstituencyParser,
        DependencyParser,
        GraphLabeler,
        KernelClassifier,
        KernelSequenceLabeler,
        MultilabelClassifier,
        SequenceLabeler,
    )

    sentences = _sentences()
    trees = [[3, 3, 4, 0], [2, 0]] * 3
    points, (table, classes) = [[[0.0, 1.0], [1.0, 0.5], [0.5, 0.0]], [[1.0, 1.0], [0.0, 0.5]]] * 3, _table()
    labels = [["a", "b", "a"], ["b", "a"]] * 3
    graphs = [(each, [(k, k + 1) for k in range(len(each) - 1)]) for each in points]
    labelling = ("predict", "predict_marginals", "predict_kbest", "sample", "predict_edge_marginals")
    parsing = ("predict", "predict_marginals", "predict_kbest")
    return [
        Item("sequences with k best", SequenceLabeler, {"template": "chunking"}, _WORDS, _CHUNKS, labelling),
        Item("sequences of vectors", SequenceLabeler, {}, points, labels, labelling),
        Item("sequences with edge features", SequenceLabeler, {"template": _EDGES}, _WORDS, _CHUNKS, labelling),
        Item("second-order sequences", SequenceLabeler, {"template": "pos", "order": 2}, _WORDS, _CHUNKS, labelling),
        Item("projective trees", DependencyParser, {"structure": "projective"}, sentences, trees, parsing),
        Item("spanning trees", DependencyParser, {}, sentences, trees, parsing),
        Item("constituents", ConstituencyParser, {"split_templates": "default"}, *_constituents(), parsing),
        Item(
            "second-order trees", DependencyParser, {"structure": "projective", "order": 2}, sentences, trees, parsing
        ),
        Item("kernel sequences", KernelSequenceLabeler, {}, points, labels, ("predict", "predict_marginals")),
        Item("kernel edges", KernelSequenceLabeler, {"edges": "kernel"}, points, labels, ("predict",)),
        Item("kernel classes", KernelClassifier, {}, table, classes, ("predict",)),
        Item("graphs", GraphLabeler, {}, graphs, labels, (*parsing, "predict_edge_marginals")),
        Item("relaxed graphs", GraphLabeler, {"inference": "tree-reweighted"}, graphs, labels, parsing[:2]),
        Item("sets of labels", MultilabelClassifier, {}, table, table > 0, ("predict", "predict_proba")),
    ]  # fmt: skip


def _sentences() -> list[list[dict[str, str]]]:
    return [[{"form": word, "coarse_tag": tag, "fine_tag": tag} for word, tag in each] for each in _WORDS]


def _constituents() -> tuple[list[Any], list[str]]:
    trees = ["(S (NP (D the) (A old) (N dog)) (V barks))", "(S (NP (N cats)) (V sleep))"] * 3
    return [[(word, tag) for word, tag in each] for each in _WORDS], trees


def _table() -> tuple[Any, Any]:
    import numpy as np

    return np.random.default_rng(0).normal(size=(12, 2)), ["a", "b", "c"] * 4
