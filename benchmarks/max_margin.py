"""Max-margin training by pass, as Figure 4 of Bartlett et al. 2004: `smo`, `eg` from it and without it, and others.

    python benchmarks/max_margin.py --data DIR/conll2002-es [--l2 1] [--sentences 1000] [--solvers smo,smo-eg]

First sentences of named entity data, observed features, tied transitions, loss="hinge". The figures are dual and
primal values after so many passes, with the CPU seconds it took, certificates not counted; one after another, on one
thread. `smo-entropy` is the SMO that gets stuck, as the paper's does, and `smo-entropy-eg` goes on from there.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from common import arguments, need_data, table, write_json

PASSES = (1, 2, 5, 10, 20, 40, 80)
SOLVERS = "eg,eg-gap,smo-entropy,smo-entropy-eg,smo,smo-eg,bcfw,extragradient,bmrm"


def build_problem(folder: Path, n_sentences: int, l2: float) -> Any:
    import numpy as np
    from sequence import read

    from partwise.features.attributes import AttributeExtractor
    from partwise.features.maps import FeatureMap
    from partwise.features.templates import load_template
    from partwise.problem import Problem
    from partwise.structures import Chain

    data = read(folder, "train")
    ptr = data.sequence_ptr[: n_sentences + 1]
    labels, encoded = np.unique(data.labels[: ptr[-1]], return_inverse=True)
    columns = [list(column[: ptr[-1]]) for column in data.columns]
    extractor = AttributeExtractor(load_template("ner").bind(len(columns)))
    rows = extractor.fit_transform(columns, ptr)
    node_map = FeatureMap.build(len(labels), extractor.n_attributes, 0, rows, encoded, "observed")
    return Problem.build(Chain(len(labels)), encoded, np.diff(ptr), node_map, rows, l2=l2, loss="hinge")


def by_pass(problem: Any, solver: Any, marks: tuple[int, ...]) -> list[dict[str, float]]:
    """A record at the first step that reaches each number of passes."""
    import numpy as np

    random, passes, seconds, records = np.random.default_rng(0), 0.0, 0.0, []
    state = solver.init(problem, random)
    for mark in marks:
        while passes < mark:
            start = time.process_time()
            state, info = solver.step(problem, state, random)
            seconds += time.process_time() - start
            passes += info.passes
        _, certificate = solver.certificate(problem, type(state)(*(np.copy(a) for a in state)))
        record = {"passes": passes, "cpu": seconds, "dual": certificate.dual, "primal": certificate.primal}
        records.append(record)
    return records


def main() -> None:
    options = arguments("Max-margin training by pass", l2="1", solvers=SOLVERS, more={"--sentences": "1000"})
    from partwise.solvers import SMO, SMOThenEG
    from partwise.solvers import SOLVERS as REGISTERED

    solvers = {**REGISTERED, "smo-entropy": SMO("entropy"), "smo-entropy-eg": SMOThenEG(smo=SMO("entropy"))}
    folder = need_data(options.data, "named entities")
    problem = build_problem(folder, int(options.sentences), float(options.l2))
    figures = {}
    for name in options.solvers.split(","):
        by_pass(problem, solvers[name], PASSES[:4])  # compiles
        figures[name] = by_pass(problem, solvers[name], PASSES)
    for what in ("dual", "primal", "cpu"):
        rows = [[name, *(f"{record[what]:.1f}" for record in records)] for name, records in figures.items()]
        print(f"\n{what}\n" + table(rows, ["solver", *(f"{mark} passes" for mark in PASSES)]))
    write_json(options.json, figures)


if __name__ == "__main__":
    main()
