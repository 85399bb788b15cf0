"""Microseconds of CPU time of inference on graphs, one thread, beside the times of other libraries.

    python benchmarks/graphs.py [--only junction-tree,messages,tree-factor] [--json FILE]

*junction-tree*: a random pairwise 3-tree with 50 vertices, 144 edges, 5 states and N(0, 1) potentials. All marginals of
vertices and edges, as one call of the public method on arrays, the junction tree being there from the call before.

*messages*: the same graph by message passing. An iteration renews all messages once: the difference between a run of 50
and one of 10, divided by 40, acceleration included. Then whole answers to a change of 1e-10, with their iterations, and
how far the two engines are apart.

*tree-factor*: a sentence of 20 words with 8 or 9 candidate heads a word, a factor TREE over its arcs and a table for
every pair of arcs with the same head or one below the other.

Times of other libraries were measured once on such problems, with their trees built before; they are not run here.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from common import ONE_THREAD, table, write_json

os.environ.update(ONE_THREAD)

import numpy as np

from partwise.structures import FactorGraph, Graph, Tree
from partwise.structures.graphs.junction_tree.programme import junction_tree_programme
from partwise.structures.graphs.scores import read_scores

# Microseconds.
JUNCTION_TREE_OF_OTHERS = {"libDAI": 980.0, "pyAgrum": 17_900.0, "pgmpy": 20e6}
JUNCTION_TREE_BAR = 500.0
ITERATION_OF_OTHERS = {"PGMax": 49.0, "libDAI": 260.0}
ITERATION_BAR = 40.0


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


def an_iteration(engine: Any, arguments: tuple[Any, ...]) -> float:
    """Microseconds in which all messages are renewed once."""
    times = [
        microseconds(
            partial(FactorGraph(engine=engine, max_iterations=n, tolerance=1e-99).log_partition, *arguments)
        )
        for n in (10, 50)
    ]
    return (times[1] - times[0]) / 40


def messages() -> list[list[str]]:
    scores = three_tree()
    rows = [
        ["an iteration, loopy", f"{an_iteration('loopy', scores):.0f}", f"{ITERATION_BAR:.0f}"],
        ["an iteration, tree-reweighted", f"{an_iteration('tree-reweighted', scores):.0f}", ""],
    ]
    rows += [[f"an iteration, {name}", f"{time:,.0f}", ""] for name, time in ITERATION_OF_OTHERS.items()]
    found, exact = FactorGraph().diagnose(*scores), Graph().marginals(*scores).vertex
    for engine, iterations in (
        ("loopy", found.loopy_iterations),
        ("tree-reweighted", found.tree_reweighted_iterations),
    ):
        structure: Any = FactorGraph(engine=engine)
        wrong = np.abs(structure.marginals(*scores).vertex - exact).max()
        what = f"marginals, {engine}, {iterations} iterations, off by at most {wrong:.2f}"
        rows.append([what, f"{microseconds(partial(structure.marginals, *scores)):,.0f}", ""])
    value = Graph().log_partition(*scores)
    rows.append(
        [f"log-partition {value:.2f}: loopy {found.loopy:.2f}, bound {found.tree_reweighted:.2f}", "", ""]
    )
    return [["messages", *row] for row in rows]


def tree_factor() -> list[list[str]]:
    random, n = np.random.default_rng(0), 20
    arcs = [(0, m) for m in range(1, n + 1)]
    for m in range(1, n + 1):
        others = [h for h in range(1, n + 1) if h != m]
        arcs += [(int(h), m) for h in random.choice(others, 8, replace=False)]
    arcs.sort(key=lambda arc: (arc[1], arc[0]))
    pairs = [
        (a, b)
        for a, (head, modifier) in enumerate(arcs)
        for b, (other, _) in enumerate(arcs)
        if (a < b and head == other) or modifier == other
    ]
    vertex, tables = np.zeros((len(arcs), 2)), np.zeros((len(pairs), 2, 2))
    vertex[:, 1], tables[:, 1, 1] = 2 * random.normal(size=len(arcs)), 0.5 * random.normal(size=len(pairs))
    arguments = vertex, np.array(pairs), tables, [Tree(n, arcs=arcs)]
    rows = [["tree-factor", f"{len(arcs)} arcs, {len(pairs)} pairs", "", ""]]
    found = FactorGraph().diagnose(*arguments)
    for engine, iterations in (
        ("loopy", found.loopy_iterations),
        ("tree-reweighted", found.tree_reweighted_iterations),
    ):
        structure: Any = FactorGraph(engine=engine)
        time = microseconds(partial(structure.marginals, *arguments))
        rows.append(["tree-factor", f"marginals, {engine}, {iterations} iterations", f"{time:,.0f}", ""])
    return rows


BENCHMARKS: dict[str, Callable[[], list[list[str]]]] = {
    "junction-tree": junction_tree,
    "messages": messages,
    "tree-factor": tree_factor,
}


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
