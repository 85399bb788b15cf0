"""Every answer of structures, in microseconds, for one or several source trees side by side.

    python benchmarks/structure_answers.py [SRC ...] [--only chain] [--repeats 15]

Each SRC is a folder with the package, such as ``src`` of another checkout. Each gets a process of its own, and these
take turns on every question, so that a busy machine slows all of them alike. Printed is the smallest processor time
of all turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HOME = Path(__file__).resolve().parents[1] / "src"
LEAST = 2e-3  # seconds that a turn takes at least: enough calls for the clock


def scores_of(generator: np.random.Generator, scale: float, *shape: int) -> np.ndarray:
    return scale * generator.normal(size=shape)


def answers(structure: Any, scores: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """The questions about one example."""
    return {
        "log_partition": lambda: structure.log_partition(*scores),
        "marginals": lambda: structure.marginals(*scores),
        "entropy": lambda: structure.entropy(*scores),
        "argmax": lambda: structure.argmax(*scores),
        "kbest 1": lambda: structure.kbest(*scores, k=1),
        "kbest 10": lambda: structure.kbest(*scores, k=10),
        "sample 1": lambda: structure.sample(*scores, n_samples=1, random_state=0),
        "sample 100": lambda: structure.sample(*scores, n_samples=100, random_state=0),
    }


def passes(structure: Any, length: int, scale: float) -> dict[str, Callable[[], Any]]:
    """What a pass of training asks, for 20 examples."""
    from partwise.structures.packed import Packed

    shapes = structure.shapes([length] * 20)
    size = int(structure.n_parts(shapes)[0])
    scores = scores_of(np.random.default_rng(1), scale, 20 * size + 8)
    packed = Packed(structure, structure.specification(), shapes, np.arange(21) * size, scores, False)
    return {
        "20 × sums": lambda: packed.answers("sums"),
        "20 × log-partitions": lambda: packed.answers("sums", 0),
        "20 × best": lambda: packed.answers("best"),
    }


def cases(only: str) -> dict[str, Callable[[], Any]]:
    """All questions by name."""
    from partwise.structures import (
        Chain,
        Grammar,
        Graph,
        Multiclass,
        Projective,
        SecondOrderProjective,
        SemiMarkov,
        Spanning,
    )

    generator, found = np.random.default_rng(0), {}
    grammar = [(a, b, c) for a in range(12) for b in range(12) for c in range(12) if (a + b + c) % 7 == 0]
    mask = np.random.default_rng(1).random((9, 9)) < 0.8
    makers: dict[str, Callable[[float], tuple[Any, int, tuple[Any, ...]]]] = {
        "classes of 20": lambda s: (Multiclass(20), 1, (scores_of(generator, s, 20),)),
        "chain of 9": lambda s: (Chain(9), 25, (scores_of(generator, s, 25, 9), scores_of(generator, s, 9, 9))),
        "chain of 9, masked": lambda s: (
            Chain(9, allowed=mask), 25, (scores_of(generator, s, 25, 9), scores_of(generator, s, 9, 9)),
        ),
        "chain of 50": lambda s: (Chain(50), 25, (scores_of(generator, s, 25, 50), scores_of(generator, s, 50, 50))),
        "chain of 9, untied": lambda s: (
            Chain(9, tied=False), 25, (scores_of(generator, s, 25, 9), scores_of(generator, s, 24, 9, 9)),
        ),
        "chain of 6, order 2": lambda s: (
            Chain(6, order=2), 25, (scores_of(generator, s, 25, 6), scores_of(generator, s, 7, 7, 6)),
        ),
        "chain of 3, order 3": lambda s: (
            Chain(3, order=3), 25, (scores_of(generator, s, 25, 3), scores_of(generator, s, 4, 4, 4, 3)),
        ),
        "segments of 4 × 8": lambda s: (
            SemiMarkov(4, 8), 25, (scores_of(generator, s, 25, 8, 4), scores_of(generator, s, 4, 4)),
        ),
        "segments of 12 × 5": lambda s: (
            SemiMarkov(12, 5), 25, (scores_of(generator, s, 25, 5, 12), scores_of(generator, s, 12, 12)),
        ),
    }  # fmt: skip

    makers["grammar of 12"] = lambda s: (
        Grammar(12, grammar), 10, (scores_of(generator, s, 10, 12), scores_of(generator, s, len(grammar))),
    )  # fmt: skip
    makers["projective trees of 20 words"] = lambda s: (Projective(), 20, (scores_of(generator, s, 21, 21),))
    makers["spanning trees of 20 words"] = lambda s: (Spanning(), 20, (scores_of(generator, s, 21, 21),))
    makers["second-order trees of 10 words"] = lambda s: (
        SecondOrderProjective(), 10, tuple(scores_of(generator, s, *(11,) * axes) for axes in (2, 3, 3)),
    )  # fmt: skip
    vertex = np.arange(36).reshape(6, 6)
    across, down = (vertex[:, :-1], vertex[:, 1:]), (vertex[:-1], vertex[1:])
    grid = np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in (across, down)])
    makers["grid of 6 × 6"] = lambda s: (
        Graph(), 0, (scores_of(generator, s, 36, 2), grid, scores_of(generator, s, len(grid), 2, 2)),
    )  # fmt: skip
    for name, make in makers.items():
        for scale, size in ((1.0, ""), (1e4, ", large scores")):
            if only in name:
                structure, length, scores = make(scale)
                questions = answers(structure, scores)
                if length:  # Shapes of graphs are more than a length.
                    questions |= passes(structure, length, scale)
                found.update({f"{name}{size}: {what}": ask for what, ask in questions.items()})
    return found


def serve(only: str) -> None:
    """Print the names; then for each name read, the processor seconds that a call takes."""
    questions = cases(only)
    for ask in questions.values():
        ask()  # compiles
    print(json.dumps(list(questions)), flush=True)
    for line in sys.stdin:
        ask, calls, taken = questions[line.strip()], 1, 0.0
        while taken < LEAST:
            begun = time.thread_time()
            for _ in range(calls):
                ask()
            taken, calls = time.thread_time() - begun, 2 * calls
        print(2 * taken / calls, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="*", default=[str(HOME)])
    parser.add_argument("--only", default="", help="structures whose names contain this")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.only)
    workers = []
    for source in given.sources:
        command = [sys.executable, __file__, "--serve", "--only", given.only]
        environment = {**os.environ, "PYTHONPATH": str(Path(source).resolve()), "OMP_NUM_THREADS": "1"}
        workers.append(
            subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
    for worker in workers:
        names = json.loads(worker.stdout.readline())  # type: ignore[union-attr]
    for name in names:
        least = [np.inf] * len(workers)
        for _ in range(given.repeats):
            for i, worker in enumerate(workers):
                print(name, file=worker.stdin, flush=True)
                least[i] = min(least[i], float(worker.stdout.readline()))  # type: ignore[union-attr]
        columns = "".join(f"{1e6 * seconds:11.1f}" for seconds in least)
        print(f"{name:50}{columns}{least[-1] / least[0]:8.2f}", flush=True)
    return None


if __name__ == "__main__":
    main()
