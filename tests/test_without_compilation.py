"""Everything small also runs as plain Python: what the compiled kernels mean can be stepped through."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
from partwise.structures import Brute, Chain, Multiclass, Projective, Spanning

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
print("ran")
"""


def test_structures_run_without_compilation() -> None:
    assert _output_of(SCRIPT, {**os.environ, "NUMBA_DISABLE_JIT": "1"}) == "ran\n"


def test_importing_partwise_does_not_import_numba() -> None:
    script = "import sys, partwise, partwise.structures; print('numba' in sys.modules)"
    assert _output_of(script, dict(os.environ)) == "False\n"


def _output_of(script: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout or done.stderr
