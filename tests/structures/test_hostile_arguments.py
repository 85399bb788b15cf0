"""Arguments of structures that make no sense, or ask for more than there is, are refused in one line."""

from __future__ import annotations

import numpy as np
import pytest

from partwise import InputError
from partwise.structures import Chain, Graph, Projective, SemiMarkov

HUGE = 10**18
RANKED = {
    "chain": (Chain(3), lambda n: (np.zeros((n, 3)), np.zeros((3, 3))), 27, 3),
    "segments": (SemiMarkov(2, 2), lambda n: (np.zeros((n, 2, 2)), np.zeros((2, 2))), 16, 3),
    "trees": (Projective(), lambda n: (np.zeros((n + 1, n + 1)),), 7, 3),
    "graph": (Graph(), lambda n: (np.zeros((n, 2)), np.array([(k, k + 1) for k in range(n - 1)])), 8, 3),
}


@pytest.mark.parametrize("name", RANKED)
def test_lists_of_the_best_are_as_long_as_there_are_labellings(name):
    structure, scores, n_labellings, length = RANKED[name]
    given = scores(length) if name != "graph" else (*scores(length), np.zeros((length - 1, 2, 2)))
    assert len(structure.kbest(*given, k=HUGE)) == n_labellings
    long = scores(80) if name != "graph" else (*scores(80), np.zeros((79, 2, 2)))
    with pytest.raises(InputError, match="GB of memory: ask for fewer"):
        structure.kbest(*long, k=HUGE)
