"""Everything small also runs as plain Python: what compiled code means can be stepped through."""

from __future__ import annotations

import os
import subprocess
import sys

from data_paths import SUPPORT

SCRIPT = """
import numpy as np
from partwise.structures import Brute, Chain, FactorGraph, Grammar, Graph, Implication, Knapsack, Multiclass
from partwise.structures import Projective, Selection, SemiMarkov, Spanning, Tree
from partwise.structures import SecondOrderProjective, SecondOrderSpanning

generator = np.random.default_rng(0)
scores = generator.normal(size=4)
assert abs(Multiclass(4).log_partition(scores) - Brute(Multiclass(4)).log_partition(scores)) < 1e-12
for order, tied, scale in ((1, True, 1), (1, False, 1), (2, True, 1), (1, True, 1e5), (2, True, 1e5)):
    structure = Chain(3, order=order, tied=tied)
    brute = Brute(structure, 4)
    shape = (4, 4, 3) if order == 2 else (3, 3) if tied else (3, 3, 3)
    node, edge = generator.normal(size=(4, 3)) * scale, generator.normal(size=shape) * scale
    assert np.isclose(structure.log_partition(node, edge), brute.log_partition(node, edge), rtol=1e-12)
    for ours, theirs in zip(structure.marginals(node, edge), brute.marginals(node, edge)):
        assert np.abs(ours - theirs).max() < 1e-8
    assert (structure.argmax(node, edge) == brute.argmax(node, edge)).all()
    assert np.isclose(structure.entropy(node, edge), brute.entropy(node, edge), atol=1e-8)
    for (y, a), (z, b) in zip(structure.kbest(node, edge), brute.kbest(node, edge)):
        assert (y == z).all() and np.isclose(a, b)
    assert structure.sample(node, edge, 3, 0).shape == (3, 4)
for kind in (Projective, Spanning):
    for single_root, scale in ((True, 1), (False, 1), (True, 1e5)):
        structure, scores = kind(single_root=single_root), generator.normal(size=(4, 4)) * scale
        brute = Brute(structure, 3)
        assert np.isclose(structure.log_partition(scores), brute.log_partition(scores), rtol=1e-12)
        assert np.abs(structure.marginals(scores) - brute.marginals(scores)).max() < 1e-8
        assert (structure.argmax(scores) == brute.argmax(scores)).all()
        for (y, a), (z, b) in zip(structure.kbest(scores), brute.kbest(scores)):
            assert (y == z).all() and np.isclose(a, b)
        assert structure.sample(scores, n_samples=3, random_state=0).shape == (3, 3)
for single_root, scale in ((True, 1), (False, 1), (True, 1e5)):
    structure = SecondOrderProjective(single_root=single_root)
    scores, brute = [generator.normal(size=(4,) * k) * scale for k in (2, 3, 3)], Brute(structure, 3)
    assert np.isclose(structure.log_partition(*scores), brute.log_partition(*scores), rtol=1e-12)
    for ours, theirs in zip(structure.marginals(*scores), brute.marginals(*scores)):
        assert np.abs(ours - theirs).max(initial=0.0) < 1e-8
    assert (structure.argmax(*scores) == brute.argmax(*scores)).all()
    assert structure.sample(*scores, n_samples=3, random_state=0).shape == (3, 3)
    relaxed = SecondOrderSpanning(single_root=single_root)
    exact = Brute(relaxed, 3).log_partition(*scores)
    assert relaxed.log_partition(*scores) >= exact - 1e-9 * abs(exact)
for scale in (1, 1e5):
    structure, brute = Selection(), Brute(Selection(), 5)
    scores = generator.normal(size=5) * scale, generator.normal(size=4) * scale, scale * 0.3
    assert np.isclose(structure.log_partition(*scores), brute.log_partition(*scores), rtol=1e-12)
    for ours, theirs in zip(structure.marginals(*scores), brute.marginals(*scores)):
        assert np.abs(ours - theirs).max() < 1e-8
    assert (structure.argmax(*scores) == brute.argmax(*scores)).all()
    assert structure.sample(*scores, n_samples=3, random_state=0).shape == (3, 5)
    structure, scores = SemiMarkov(2, 2), (generator.normal(size=(4, 2, 2)) * scale, generator.normal(size=(2, 2)))
    brute = Brute(structure, 4)
    assert np.isclose(structure.log_partition(*scores), brute.log_partition(*scores), rtol=1e-12)
    for ours, theirs in zip(structure.marginals(*scores), brute.marginals(*scores)):
        assert np.abs(ours - theirs).max() < 1e-8
    for (y, a), (z, b) in zip(structure.kbest(*scores), brute.kbest(*scores)):
        assert (y == z).all() and np.isclose(a, b)
    assert len(structure.sample(*scores, n_samples=3, random_state=0)) == 3
for scale in (1, 1e5):
    edges = np.array([[0, 1], [2, 1], [0, 2], [2, 3]])
    scores = generator.normal(size=(4, 3)) * scale, edges, generator.normal(size=(4, 3, 3)) * scale
    structure, brute = Graph(), Brute(Graph(), [3, 3, 3, 3])
    assert np.isclose(structure.log_partition(*scores), brute.log_partition(*scores), rtol=1e-12)
    p = brute.probabilities(*scores)
    expected = [[sum(p[[y[v] == label for y in brute.labellings]]) for label in range(3)] for v in range(4)]
    assert np.abs(structure.marginals(*scores).vertex - expected).max() < 1e-8
    assert (structure.argmax(*scores) == brute.argmax(*scores)).all()
    for (y, a), (z, b) in zip(structure.kbest(*scores), brute.kbest(*scores)):
        assert (y == z).all() and np.isclose(a, b)
    assert structure.sample(*scores, n_samples=3, random_state=0).shape == (3, 4)
    bound = FactorGraph().log_partition(*scores)
    assert bound >= structure.log_partition(*scores) - 1e-9 * scale
    assert (FactorGraph().argmax(*scores) == brute.argmax(*scores)).all()
    assert FactorGraph(engine="loopy").log_partition(*scores) < bound + 1e-9 * scale
for rule in (Knapsack((0, 1, 3), (2, 1, 3), 4), Implication(2, 0), Tree(2), Tree(2, projective=True)):
    vertex, structure = generator.normal(size=(4, 2)), FactorGraph()
    values = [structure.score(y, vertex, rules=[rule]) for y in Brute(Graph(), [2] * 4).labellings]
    assert np.isclose(structure.log_partition(vertex, rules=[rule]), np.log(np.exp(values).sum()))
    assert np.isclose(structure.best_labelling(vertex, rules=[rule]).score, max(values))
for size, splits, scale in ((2, False, 1), (2, True, 1), (6, True, 1), (2, False, 1e5)):  # dense and sparse
    structure = Grammar(size, [(0, 1, 0), (0, 0, 1), (1, 1, 1)], unaries=[(0, 1), (1, 0)], splits=splits)
    brute, shapes = Brute(structure, 3), ((3, size), (5,), (3, 3, size))
    scores = [generator.normal(size=shape) * scale for shape in shapes]
    assert np.isclose(structure.log_partition(*scores), brute.log_partition(*scores), rtol=1e-12)
    for ours, theirs in zip(structure.marginals(*scores), brute.marginals(*scores)):
        assert np.abs(ours - theirs).max() < 1e-8
    assert structure.argmax(*scores) == brute.argmax(*scores)
    for (y, a), (z, b) in zip(structure.kbest(*scores), brute.kbest(*scores)):
        assert y == z and np.isclose(a, b)
    assert len(structure.sample(*scores, n_samples=3, random_state=0)) == 3
print("ran")
"""

# Wide and narrow attributes, masks, real values and rows of more than one vector (3 × 3 labels on an edge) are
# among these. Objectives are compared with enumeration, so that wrong sums fail as crashes do.
FITS = """
import sys
sys.path[:0] = sys.argv[1:]
import numpy as np
from problems import KINDS, small
from partwise.solvers import SOLVERS, solve, solver_for

for kind in KINDS:
    for loss in ("log", "hinge"):
        for features, pairs in (("binary", "all"), ("real", "observed")):
            data = small(kind, loss, features=features, pairs=pairs, n=4)
            batch = solve(data.problem, SOLVERS["eg-batch"], tol=1e-2, max_passes=5)
            auto = solve(data.problem, solver_for(data.problem), tol=1e-2, max_passes=100)
            assert auto.converged, (kind, loss, auto.certificate)
            for found in (batch, auto):
                primal = data.written_out.primal(found.weights)
                assert np.isclose(found.certificate.primal, primal, rtol=1e-9), (kind, loss, primal)
for name in ("bcfw", "svm-struct", "mira", "bmrm"):  # labellings of one example with different numbers of parts
    data = small("selection", "hinge", n=4)
    found = solve(data.problem, SOLVERS[name], tol=1e-2, max_passes=10)
    primal = data.written_out.primal(found.weights)
    assert np.isclose(found.certificate.primal, primal, rtol=1e-9), (name, primal)
print("fitted")
"""
EDGES = """
from partwise import SequenceLabeler

X = [[("a", "p"), ("b", "q"), ("a", "q")], [("b", "p"), ("a", "p")], [("a", "q")]] * 3
y = [["A", "B", "C"], ["B", "A"], ["C"]] * 3
template = "U0:%x[0,0]\\nB\\nB1:%x[0,1]\\n"
for loss in ("log", "hinge"):
    model = SequenceLabeler(loss=loss, template=template, l2=0.1, pairs="all").fit(X, y)
    assert model.predict(X) == y == [model.tagger().tag(x) for x in X]
    if loss == "log":
        assert abs(model.predict_edge_marginals(X)[0].sum() - 2) < 1e-9
print("predicted")
"""
UNCOMPILED = {**os.environ, "NUMBA_DISABLE_JIT": "1"}


def test_structures_run_without_compilation() -> None:
    assert _output_of(SCRIPT, UNCOMPILED) == "ran\n"


def test_every_structure_trains_without_compilation() -> None:
    assert _output_of(FITS, UNCOMPILED) == "fitted\n"


def test_edge_features_predict_without_compilation() -> None:
    assert _output_of(EDGES, UNCOMPILED) == "predicted\n"


def test_importing_partwise_does_not_import_numba() -> None:
    script = "import sys, partwise, partwise.structures; print('numba' in sys.modules)"
    assert _output_of(script, dict(os.environ)) == "False\n"


def _output_of(script: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-W", "ignore", "-c", script, str(SUPPORT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout or done.stderr
