"""The tables of the documentation that list solvers, made from what solvers declare.

    python -m partwise.support_table docs/solvers.md

writes each table between its two markers on a page.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.errors import InputError
from partwise.solvers.choice import FRUGAL, TABLE
from partwise.solvers.needs import check_solver
from partwise.solvers.registry import SOLVERS
from partwise.solvers.work_model import PASSES
from partwise.structures import (
    Chain,
    FactorKind,
    Grammar,
    Graph,
    GraphShape,
    Multiclass,
    Projective,
    Selection,
    SemiMarkov,
    Spanning,
    Structure,
)
from partwise.structures.contract import PartLists

LOSSES = [Loss.of("log"), Loss.of("softmax_margin"), Loss(4, 1), Loss.of("hinge"), Loss.of("perceptron")]
_PAIR = GraphShape(np.zeros(2, np.int64), [np.array([[0, 1]])])
# Of each kind one, and the length of an example, or its graph.
STRUCTURES: dict[str, tuple[Structure, int | GraphShape]] = {
    "classes": (Multiclass(2), 1),
    "chain": (Chain(2), 2),
    "chain with edge features": (Chain(2, tied=False), 2),
    "chain of order 2": (Chain(2, order=2), 2),
    "projective tree": (Projective(n_relations=2), 2),
    "spanning tree": (Spanning(), 2),
    "selection": (Selection(), 2),
    "graph": (Graph({"vertex": 2}, [FactorKind("edge", ("vertex", "vertex"))]), _PAIR),
    "semi-Markov chain": (SemiMarkov(2, 2, tokens=True), 2),
    "grammar": (Grammar(2, [(0, 1, 1)], unaries=[(0, 1)]), 2),
}
_OTHER_NEEDS = {
    "features": "features, not a kernel function",
    "whole_labels": "true labels, not expectations of them",
    "exact": "exact sums over labellings, not a relaxation or an approximation",
    "ridge": "l2 alone, without an l1 term",
}
_NOT_MINIMISING = "runs, but what it ends at is not the minimum of the objective"


def tiny_problem(structure: Any, example: int | GraphShape, loss: Loss) -> Problem:
    """One example with one attribute, enough for a solver to say whether it can."""
    is_graph = isinstance(example, GraphShape)
    shapes = structure.shapes_of([example]) if is_graph else structure.shapes([example])
    y = next(iter(structure.labellings(example)))
    parts = np.unique(structure.encode(y, example) if is_graph else structure.encode(y))
    labels = structure.decode_all(PartLists(np.array([0, len(parts)]), parts), shapes)
    own = [kind for kind in structure.kinds if not kind.tied]
    rows = {
        kind.name: RowData(FeatureMap.build(kind.width, 1), _one_attribute(int(count[0])))
        for kind, count in zip(own, structure.row_counts(shapes), strict=True)
    }
    return Problem.build(structure, labels, shapes, rows, loss=loss)


def _one_attribute(n_rows: int) -> AttributeRows:
    return AttributeRows(np.arange(n_rows + 1), np.zeros(n_rows, np.int32), None)


def refusal(solver: str, loss: Loss, structure: str) -> str | None:
    """Why the solver refuses, in words that name neither it nor the loss; None if it works."""
    problem = tiny_problem(*STRUCTURES[structure], loss)
    try:
        check_solver(problem, SOLVERS[solver])
    except InputError as error:
        beta = "beta = inf" if loss.is_hard else "a finite beta"
        reason = str(error).replace(f"loss={loss.name!r} has beta = {loss.beta:g}", f"the loss has {beta}")
        return reason.replace(f"solver {solver!r}", "it")
    return None


def list_of_solvers() -> str:
    """Every solver with its one-line summary and the β of its losses."""
    words = {"any": "any", "smooth": "finite", "hard": "∞"}
    lines = ["| name | what it is | β |", "|---|---|---|"]
    for name, solver in SOLVERS.items():
        lines.append(f"| `{name}` | {SOLVERS.summary(name)} | {words[solver.needs.loss]} |")
    return "\n".join(lines) + "\n"


def choice_of_auto() -> str:
    """The table of "auto": conditions from top to bottom, the solvers that race or the one that runs, the evidence."""
    lines = ["| if | then | evidence |", "|---|---|---|"]
    for row in TABLE:
        names = " or ".join(f"`{solver.name}`" for solver in row.solvers)
        sharpens = row.solvers[0] == FRUGAL[0]
        lines.append(f"| {row.condition} | {names}{', sharpening β' * sharpens} | {row.evidence} |")
    return "\n".join(lines) + "\n"


def forecasts() -> str:
    """Passes that the work model expects, as functions of stiffness."""
    lines = ["| L-BFGS is | passes of `eg-gap` | evaluations of `lbfgs` |", "|---|---|---|"]
    for name, row in PASSES.items():
        cells = [f"{own.least:g} · (1 + s / {own.soft:g})^{own.power:g}" for own in row.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def support_table() -> str:
    """Which solver works for which loss and structure, the reasons its cells refer to, and who needs what else."""
    notes: list[str] = []
    lines = ["| solver | " + " | ".join(_name(loss) for loss in LOSSES) + " |"]
    lines.append("|---" * (1 + len(LOSSES)) + "|")
    for solver in SOLVERS:
        cells = [_cell(solver, loss, notes) for loss in LOSSES]
        lines.append(f"| `{solver}` | " + " | ".join(cells) + " |")
    lines += ["", *textwrap.wrap(f"*all*: {', '.join(STRUCTURES)}.", 105, break_on_hyphens=False), ""]
    for number, note in enumerate(notes, 1):
        lines += textwrap.wrap(f"{number}. {note}", 105, subsequent_indent="   ", break_on_hyphens=False)
    lines += ["", "| and needs | solvers |", "|---|---|"]
    for need, words in _OTHER_NEEDS.items():
        names = [f"`{name}`" for name, solver in SOLVERS.items() if getattr(solver.needs, need)]
        lines.append(f"| {words} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def _name(loss: Loss) -> str:
    return f"`{loss.name}`"


def _cell(solver: str, loss: Loss, notes: list[str]) -> str:
    """ "all", what is left out, or a dash; with the numbers of the notes that say why."""
    reasons = {structure: refusal(solver, loss, structure) for structure in STRUCTURES}
    out = [structure for structure, reason in reasons.items() if reason is not None]
    marks = [reason for reason in reasons.values() if reason is not None]
    if len(out) < len(reasons) and not SOLVERS[solver].minimises:
        marks.append(_NOT_MINIMISING)
    text = "–" if len(out) == len(reasons) else f"all but {', '.join(out)}" if out else "all"
    numbers = [_number(mark, notes) for mark in dict.fromkeys(marks)]
    return " ".join([text, *(f"({number})" for number in numbers)])


def _number(note: str, notes: list[str]) -> int:
    if note not in notes:
        notes.append(note)
    return notes.index(note) + 1


TABLES = {
    "support table": support_table,
    "list of solvers": list_of_solvers,
    "choice of auto": choice_of_auto,
    "forecasts": forecasts,
}


def with_tables(page: str) -> str:
    """The page with the text between the markers of each table replaced."""
    found = 0
    for name, table in TABLES.items():
        head, begin, rest = page.partition(f"<!-- {name} -->")
        _, end, tail = rest.partition(f"<!-- end of {name} -->")
        if begin and end:
            page, found = f"{head}{begin}\n\n{table()}\n{end}{tail}", found + 1
    if not found:
        markers = " or ".join(f"<!-- {name} --> and <!-- end of {name} -->" for name in TABLES)
        raise InputError(f"has no lines {markers} to put a table between")
    return page


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: python -m partwise.support_table PAGE.md [PAGE.md ...]", file=sys.stderr)
        return 2
    for path in map(Path, arguments):
        try:
            path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
        except (OSError, UnicodeDecodeError, InputError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
