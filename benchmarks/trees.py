"""Microseconds of CPU time a sentence for every question to the tree structures, one thread.

    python benchmarks/trees.py [--lengths 10,20,40,80] [--scale 2] [--json FILE]

*Alone* is one call of the public method per sentence; *list* is one call for a list of 64, per sentence. Scores are
normal with standard deviation --scale. Where ufal.chu_liu_edmonds can be imported (it is no dependency),
its best tree is timed beside ours.
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

from partwise.structures import Projective, Spanning

N_SENTENCES = 64
QUESTIONS: dict[str, dict[str, Any]] = {
    "log_partition": {},
    "marginals": {},
    "entropy": {},
    "argmax": {},
    "kbest": {"k": 5},
    "sample": {"n_samples": 10, "random_state": 0},
}


def microseconds(call: Callable[[], Any], per: int, budget: float = 0.3) -> float:
    """CPU time of one of the `per` things a call does: the best of five rounds that fill `budget` seconds."""
    call()
    start = time.process_time()
    call()
    once = max(time.process_time() - start, 1e-6)
    repeats, best = max(1, int(budget / 5 / once)), float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(repeats):
            call()
        best = min(best, (time.process_time() - start) / repeats)
    return best / per * 1e6


def sentences(n: int, scale: float) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    return [scale * random.normal(size=(n + 1, n + 1)) for _ in range(N_SENTENCES)]


def ours(structure: Any, question: str, n: int, scale: float) -> tuple[float, float]:
    """Alone and in a list."""
    method, options, data = getattr(structure, question), QUESTIONS[question], sentences(n, scale)

    def one_by_one() -> None:
        for scores in data:
            method(scores, **options)

    return (
        microseconds(one_by_one, N_SENTENCES),
        microseconds(lambda: method(data, **options), N_SENTENCES),
    )


def peer(n: int, scale: float) -> float | None:
    try:
        from ufal.chu_liu_edmonds import chu_liu_edmonds
    except ImportError:
        return None
    # Theirs is by [modifier, head], without arcs into the root.
    data = [np.ascontiguousarray(scores.T) for scores in sentences(n, scale)]

    def one_by_one() -> None:
        for scores in data:
            chu_liu_edmonds(scores)

    return microseconds(one_by_one, N_SENTENCES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="10,20,40,80", help="comma-separated numbers of words")
    parser.add_argument("--scale", default=2.0, type=float, help="standard deviation of the scores")
    parser.add_argument("--json", default=None, help="file to write all figures to")
    options = parser.parse_args()
    lengths = [int(n) for n in options.lengths.split(",")]
    rows: list[list[str]] = []
    for structure in [kind(single_root=one) for kind in (Projective, Spanning) for one in (True, False)]:
        for question in QUESTIONS:
            pairs = [ours(structure, question, n, options.scale) for n in lengths]
            rows.append([str(structure), question, *(f"{a:.1f} / {b:.1f}" for a, b in pairs)])
    theirs = [peer(n, options.scale) for n in lengths]
    if theirs[0] is None:
        print("ufal.chu_liu_edmonds is not installed; without it:")
    else:
        rows.append(["ufal.chu_liu_edmonds", "argmax", *(f"{value:.1f}" for value in theirs)])
    print(table(rows, ["structure", "question", *(f"{n} words" for n in lengths)]))
    print("microseconds of CPU time a sentence, alone / in a list of 64")
    write_json(options.json, {"lengths": lengths, "rows": rows})


if __name__ == "__main__":
    main()
