"""What a process has to load: scikit-learn and SciPy only for training, compiled code without the compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import partwise
from partwise import (
    Classifier,
    ConstituencyParser,
    DependencyParser,
    GraphLabeler,
    MultilabelClassifier,
    SegmentLabeler,
    SequenceLabeler,
)
from partwise.tasks import tasks_by_command

SENTENCES = [["the", "dog", "barks"], ["a", "cat", "sleeps"]] * 3
TAGS = [["D", "N", "V"]] * 6
# Numba asks SciPy for its version, which loads next to nothing of it. All solvers import `partwise.solvers.base`.
NOT_TO_PREDICT = {"sklearn", "scipy.sparse", "scipy.linalg", "scipy.optimize", "partwise.solvers.base"}
POINTS = np.random.default_rng(0).normal(size=(40, 3))


def modules_after(code: str, *arguments: object) -> set[str]:
    """Names of all modules that a fresh process has loaded at the end of `code`."""
    code = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.strip().splitlines()[-1]))


def test_the_package_loads_nothing_by_itself() -> None:
    loaded = modules_after("import partwise")
    assert loaded & {"numpy", "numba", "sklearn", "scipy", "typer", "rich"} == set()


@pytest.mark.parametrize(
    "command",
    [
        ["predict"],
        ["encode", "sequence"],
        *(["train", command] for command in tasks_by_command()),
    ],
)
def test_help_loads_nothing_heavy(command: list[str]) -> None:
    code = "import sys\nfrom partwise.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass"
    assert modules_after(code, *command, "--help") & {"numpy", "numba", "sklearn", "scipy", "rich"} == set()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of every kind, each used once, so that the code they need is in the cache."""
    folder = tmp_path_factory.mktemp("models")
    trees = [[2, 3, 0]] * 6
    brackets = [f"(S (NP (D {a}) (N {b})) (V {c}))" for a, b, c in SENTENCES]
    fitted = {
        "labeler": SequenceLabeler(template="pos").fit([[[w] for w in each] for each in SENTENCES], TAGS),
        "classifier": Classifier().fit(POINTS, POINTS[:, 0] > 0),
        "classifier of names": Classifier().fit([["a", "b"], ["b"], ["c"]] * 3, ["x", "y", "z"] * 3),
        "parser": DependencyParser().fit(SENTENCES, trees),
        "segments": SegmentLabeler(template="pos").fit(SENTENCES, [[(0, 1, "NP")]] * 6),
        "graphs": GraphLabeler().fit([([[0.0], [1.0]], [(0, 1)])] * 2, [["a", "b"]] * 2),
        "several": MultilabelClassifier().fit(POINTS, POINTS[:, :2] > 0),
        "constituents": ConstituencyParser().fit(SENTENCES, brackets),
    }
    for name, model in fitted.items():
        model.save(folder / name)
    for name, data in DATA.items():
        tagger = partwise.load(folder / name).tagger()
        x = POINTS[0] if data is None else data[0]
        tagger.predict(x), tagger.probabilities(x)
    return folder


DATA = {
    "labeler": [[["the"], ["cat"]]],
    "parser": [["the", "cat", "sleeps"]],
    "segments": [["the", "cat", "sleeps"]],
    "classifier": None,
    "classifier of names": [["a", "c"], []],
    "graphs": [([[0.0], [1.0]], [(0, 1)])],
    "several": None,
    "constituents": [["the", "cat", "sleeps"]],
}
# Whoever imports one of these is told that it is not installed.
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"scipy", "sklearn", "threadpoolctl", "joblib", "typer", "rich"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


def prediction(name: str) -> str:
    """Code that loads a model and predicts, all examples at once and one alone."""
    given = "np.zeros((2, 3))" if DATA[name] is None else repr(DATA[name])
    load = f"import sys, numpy as np, partwise\nmodel, X = partwise.load(sys.argv[1]), {given}"
    return f"{load}\nmodel.predict(X), model.tagger().predict(X[0]), model.tagger().probabilities(X[0])"


@pytest.mark.parametrize("name", DATA)
def test_prediction_loads_no_scikit_learn_and_no_compiler(models: Path, name: str) -> None:
    loaded = modules_after(prediction(name), models / name)
    assert loaded & NOT_TO_PREDICT == set()
    assert "numba.np.linalg" not in loaded  # the compiler's registries: 0.3 CPU seconds


@pytest.mark.parametrize("name", DATA)
def test_prediction_needs_neither_scipy_nor_scikit_learn(models: Path, name: str) -> None:
    assert "partwise.estimators.tagger" in modules_after(WITHOUT + prediction(name), models / name)


def test_evaluating_and_inspecting_load_no_scikit_learn(models: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("the D\ncat N\nbarks V\n\n")
    code = "import sys\nfrom partwise.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass"
    for arguments in (["evaluate", models / "labeler", tmp_path / "data"], ["inspect", models / "labeler"]):
        assert modules_after(code, *arguments) & NOT_TO_PREDICT == set()
