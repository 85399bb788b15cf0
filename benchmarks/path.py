"""A path of l2 against its last value trained alone: effective passes and CPU seconds; and choosing l2 by folds.

    python benchmarks/path.py --data DIR [--sets conll2000,conll2002-es] [--last 1] [--ratio 0.7] [--values 9]
                              [--tol 1e-3] [--folds 5] [--jobs 2] [--json out.json] [--plot out.png]

DIR holds conll2000 and conll2002-es. Dev scores are those of test.txt and testa.txt. Reading and encoding are not
counted on either side; every number of the path includes its certificates and its warm starts, not the dev scores.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from common import table, write_json

SETS = {"conll2000": ("test.txt", "chunking"), "conll2002-es": ("testa.txt", "ner")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--last", type=float, default=1.0)
    parser.add_argument("--ratio", type=float, default=0.7)
    parser.add_argument("--values", type=int, default=9)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    found = {}
    for name in options.sets.split(","):
        train, dev = read(options.data / name, SETS[name][0])
        found[name] = (
            by_folds(train, SETS[name][1], options) if options.folds else by_path(name, train, dev, options)
        )
    if options.json:
        write_json(options.json, found)


def read(folder: Path, dev: str) -> tuple[Any, Any]:
    from partwise.data import read_conll

    return read_conll(folder / "train.txt.gz"), read_conll(folder / dev)


def by_path(name: str, train: Any, dev: Any, options: argparse.Namespace) -> dict[str, Any]:
    """The path, and its last value alone, in one process, one after the other."""
    from partwise import RegularizationPath, SequenceLabeler

    labeler = SequenceLabeler(template=SETS[name][1], tol=options.tol, l2=options.last)
    labeler.fit(train)  # what has to be compiled is
    alone = labeler.fit(train)
    values = [options.last / options.ratio**k for k in range(options.values)]
    path = RegularizationPath(labeler, values=values, patience=options.values).fit(train, None, dev)
    if options.plot:
        path.plot(options.plot.with_stem(f"{options.plot.stem}_{name}"))
    cold = {"passes": alone.n_passes_, "cpu_seconds": alone.history_[-1]["cpu_seconds"]}
    along = [{"passes": each["passes"], "cpu_seconds": each["solving_cpu_seconds"]} for each in path.results_]
    rows = [
        [f"{each['l2']:.3g}", f"{each['passes']:.1f}", f"{own['cpu_seconds']:.2f}", f"{each['gap']:.1e}",
         f"{100 * each['dev_score']:.2f}"]
        for each, own in zip(path.results_, along, strict=True)
    ]  # fmt: skip
    total = {key: sum(each[key] for each in along) for key in cold}
    rows.append(["path", f"{total['passes']:.1f}", f"{total['cpu_seconds']:.2f}", "", ""])
    rows.append(
        ["last alone", f"{cold['passes']:.1f}", f"{cold['cpu_seconds']:.2f}", f"{alone.duality_gap_:.1e}", ""]
    )
    ratios = {key: total[key] / cold[key] for key in cold}
    rows.append(["ratio", f"{ratios['passes']:.2f}", f"{ratios['cpu_seconds']:.2f}", "", ""])
    print(f"\n{name}, l2 = {values[-1]:g} to {values[0]:g}")
    print(table(rows, ["l2", "passes", "CPU s", "gap", "dev F1"]))
    return {"points": path.results_, "path": total, "last alone": cold, "ratio": ratios}


def by_folds(train: Any, template: str, options: argparse.Namespace) -> dict[str, Any]:
    """Wall and CPU seconds of choosing l2 and of the model that comes of it."""
    from partwise import SequenceLabeler

    labeler = SequenceLabeler(
        template=template, l2="cv", cv=options.folds, tol=options.tol, n_jobs=options.jobs
    )
    SequenceLabeler(template=template, tol=0.5).fit(train)
    wall, cpu = time.perf_counter(), time.process_time()
    labeler.fit(train)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rows = [
        [f"{l2:.3g}", f"{100 * scores.mean():.2f}", f"{100 * scores.std(ddof=1) / len(scores) ** 0.5:.2f}"]
        for l2, scores in zip(labeler.l2s_, labeler.scores_.T, strict=True)
    ]
    print(table(rows, ["l2", "mean F1", "standard error"]))
    print(
        f"l2 = {labeler.l2_:.3g} chosen in {wall:.1f} s ({cpu:.1f} CPU s), reading not counted, encoding counted"
    )
    return {"l2": labeler.l2_, "l2s": labeler.l2s_.tolist(), "seconds": wall, "cpu_seconds": cpu}


if __name__ == "__main__":
    main()
