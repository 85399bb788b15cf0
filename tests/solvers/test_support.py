"""The table of docs/solvers.md: it is what solvers say now, and what they say is true."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from contract_solvers import (
    CASES,
    GRAPH_CASES,
    MORE_LOSSES,
    SELECTION_CASES,
    TREE_CASES,
    optimum,
    problem_of,
)
from data_paths import ROOT

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.solvers import SOLVERS, solve
from partwise.structures import (
    Brute,
    Candidates,
    FactorGraph,
    SecondOrderProjective,
    SecondOrderSpanning,
    Structure,
)
from partwise.support_table import LOSSES, STRUCTURES, main, refusal, with_tables

PAGE = ROOT / "docs" / "solvers.md"
CASES_OF = {
    "classes": ["multiclass"],
    "chain": ["tied", "masked"],
    "chain with edge features": ["untied"],
    "chain of order 2": ["order2"],
    "projective tree": ["projective"],
    "spanning tree": ["spanning"],
    "selection": ["selection"],
    "graph": ["graph"],
    "semi-Markov chain": ["segments"],
    "grammar": ["grammar"],
}
LOSS_NAMES = {Loss.of(loss): name for name, loss in MORE_LOSSES.items()}


@pytest.mark.parametrize("name", ["solvers.md"])
def test_pages_are_up_to_date(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert text == with_tables(text), f"run: python -m partwise.support_table docs/{name}"


def test_every_solver_has_a_paragraph() -> None:
    text = PAGE.read_text(encoding="utf-8")
    described = {
        name for heading in re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE) for name in heading.split(", ")
    }
    assert described == {f"`{name}`" for name in SOLVERS}


def test_every_structure_and_case_is_in_the_table() -> None:
    import partwise.structures

    exported = (getattr(partwise.structures, name) for name in partwise.structures.__all__)
    kinds = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Structure)}
    # Relaxations, lists of candidates, and what takes long to compile are trained in tests of their own.
    elsewhere = {Candidates, FactorGraph, SecondOrderProjective, SecondOrderSpanning}
    assert {type(structure) for structure, _ in STRUCTURES.values()} == kinds - {Structure, Brute} - elsewhere
    assert set(CASES_OF) == set(STRUCTURES)
    assert sorted(case for cases in CASES_OF.values() for case in cases) == sorted(
        CASES | TREE_CASES | SELECTION_CASES | GRAPH_CASES
    )


def in_double_precision(solver: Any) -> Any:
    """So that nothing is compiled for this test alone."""
    precise = "precision" in {field.name for field in fields(solver)}
    return replace(solver, precision="double") if precise else solver


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_cells_are_true(name: str, loss: Loss) -> None:
    """What is refused is refused on real problems too; what is not comes close to the optimum.

    The scale of errors is the optimum of the hinge loss, since that of the perceptron is zero.
    """
    solver = in_double_precision(SOLVERS[name])
    for structure, cases in CASES_OF.items():
        for case in cases:
            problem = problem_of(case, LOSS_NAMES[loss]).problem
            if refusal(name, loss, structure) is not None:
                with pytest.raises(InputError):
                    solve(problem, solver)
                continue
            minimises = solver.minimises
            found = solve(problem, solver, tol=2e-3, max_passes=600 if minimises else 20)
            best, scale = optimum(case, LOSS_NAMES[loss]), optimum(case, "hinge")
            assert found.certificate.dual <= best + 1e-6 * scale
            assert found.certificate.primal >= best - 1e-6 * scale
            if minimises:
                assert found.certificate.primal - best <= 0.03 * scale, (case, found.stop_reason)
                assert best - found.certificate.dual <= 0.03 * scale, (case, found.stop_reason)


def test_command_writes_between_the_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- support table -->\nold\n<!-- end of support table -->\nbelow\n")
    assert main([str(page)]) == 0
    text = page.read_text()
    assert text.startswith("above\n") and text.endswith("\nbelow\n") and "old" not in text
    assert "| `smo` |" in text
    (tmp_path / "bare.md").write_text("nothing\n")
    for arguments, words in (
        ([str(tmp_path / "bare.md")], "has no lines"),
        ([str(tmp_path / "none.md")], "No such file"),
        ([], "usage"),
    ):
        assert main(arguments) == 2
        assert words in capsys.readouterr().err
