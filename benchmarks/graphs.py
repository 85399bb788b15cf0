"""Microseconds of CPU time of inference on graphs, one thread, beside the times of other libraries.

    python benchmarks/graphs.py [--only junction-tree] [--json FILE]

*junction-tree*: a random pairwise 3-tree with 50 vertices, 144 edges, 5 states and N(0, 1) potentials. All marginals of
vertices and edges, as one call of the public method on arrays, the junction tree being there from the call before.

Times of other libraries were measured once on such problems, with their trees built before; they are not run here.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

from common import ONE_THREAD, table, write_json

os.environ.update(ONE_THREAD)

import numpy as np

from partwise.structures import Graph
from partwise.structures.graphs.programme import junction_tree_programme
from partwise.structures.graphs.scores import read_scores

# Microseconds.
JUNCTION_TREE_OF_OTHERS = {"libDAI": 980.0, "pyAgrum": 17_900.0, "pgmpy": 20e6}
JUNCTION_TREE_BAR = 500.0


def microseconds(call: Callable[[], Any], budget: float = 1.0) -> float:
    """CPU time of a call: the best of twenty rounds that fill `budget` seconds."""
    call()
    start = time.process_time()
    call()
    once = max(time.process_time() - start, 1e-6)
    repeats, best = max(1, int(budget / 20 / once)), float("inf")
    for _ in range(20):
        start = time.process_time()
        for _ in range(repeats):
            call()
        best = min(best, (time.process_time() - start) / repeats)
    return best * 1e6


def three_tree(
    n_vertices: int = 50, n_labels: int = 5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertex scores, edges and edge scores of a random 3-tree: each vertex joins three that are joined already."""
    random = np.random.default_rng(seed)
    cliques = [[0, 1, 2, 3]]
    edges = [(a, b) for b in range(4) for a in range(b)]
    for v in range(4, n_vertices):
        chosen = random.choice(cliques[random.integers(len(cliques))], 3, replace=False).tolist()
        edges += [(u, v) for u in chosen]
        cliques.append([*chosen, v])
    vertex, edge = (n_vertices, n_labels), (len(edges), n_labels, n_labels)
    return random.normal(size=vertex), np.array(edges), random.normal(size=edge)


def junction_tree() -> list[list[str]]:
    scores, structure = three_tree(), Graph()
    layout = read_scores(*scores).graphs[0].layout()
    rows = [
        [
            "marginals",
            f"{microseconds(lambda: structure.marginals(*scores)):.0f}",
            f"{JUNCTION_TREE_BAR:.0f}",
        ],
        ["log-partition", f"{microseconds(lambda: structure.log_partition(*scores)):.0f}", ""],
        ["best labelling", f"{microseconds(lambda: structure.argmax(*scores)):.0f}", ""],
        ["building the tree", f"{microseconds(lambda: junction_tree_programme(layout, 2**24)):.0f}", ""],
    ]
    others = [[f"marginals, {name}", f"{time:,.0f}", ""] for name, time in JUNCTION_TREE_OF_OTHERS.items()]
    return [["junction-tree", *row] for row in rows + others]


BENCHMARKS: dict[str, Callable[[], list[list[str]]]] = {"junction-tree": junction_tree}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="comma-separated benchmarks")
    parser.add_argument("--json", default=None, help="file to write all figures to")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    rows = [row for name in names for row in BENCHMARKS[name]()]
    print(table(rows, ["benchmark", "what", "µs", "at most"]))
    write_json(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
