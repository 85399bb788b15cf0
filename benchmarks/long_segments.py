"""Time and memory of answers about one long sequence of segments whose scores have factors."""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from partwise.structures import SemiMarkov
from partwise.structures.segments.factored import FactoredSemiMarkov


def answers(length: int, max_length: int, n_labels: int) -> None:
    """CPU seconds and the peak of the process."""
    rng = np.random.default_rng(0)
    scores = (
        rng.normal(size=(length, n_labels)),
        -0.01 * np.arange(max_length)[:, None] + 0.1 * rng.normal(size=(max_length, n_labels)),
        rng.normal(size=(n_labels, n_labels)),
    )
    structure = FactoredSemiMarkov(n_labels, max_length)
    packed = structure._pack(*scores)
    small = structure._pack(scores[0][:50], *scores[1:])
    for name, question in (("log Z", ("sums", 0)), ("marginals", ("sums", 1)), ("best", ("best", 1))):
        small.answers(*question)  # compiles
        start = time.process_time()
        packed.answers(*question)
        print(f"T{length:,} D{max_length:,} L{n_labels} {name}: {time.process_time() - start:.2f} CPU s")
    print(f"peak of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    n, D, L = 2000, 200, 8  # the table of all segments still fits
    position, duration = rng.normal(size=(n, L)), rng.normal(size=(D, L))
    transition = rng.normal(size=(L, L))
    sums = np.vstack([np.zeros(L), position.cumsum(0)])
    table = np.full((n, D, L), -np.inf)
    for k in range(D):
        table[: n - k, k] = sums[k + 1 :] - sums[: n - k] + duration[k]
    by_table, by_factors = SemiMarkov(L, D)._pack(table, transition), FactoredSemiMarkov(L, D)._pack(
        position, duration, transition
    )  # fmt: skip
    for _ in range(2):
        times = []
        for own in (by_table, by_factors):
            start = time.process_time()
            own.answers("sums", 1)
            times.append(time.process_time() - start)
    print(f"T{n:,} D{D} L{L} marginals: table of all segments {times[0]:.3f}, factors {times[1]:.3f} CPU s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=100_000)
    parser.add_argument("--max-length", type=int, default=1000)
    parser.add_argument("--labels", type=int, default=24)
    asked = parser.parse_args()
    answers(asked.length, asked.max_length, asked.labels)
