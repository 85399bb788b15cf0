"""The figures and tables of the papers, made again: what was claimed beside what is measured here.

    python benchmarks/reproduce.py --list
    python benchmarks/reproduce.py mnist-path [mnist-gap …] [--data DIR] [--again] [--sentences 1000]
    python benchmarks/reproduce.py all
    python benchmarks/reproduce.py --pages

An experiment writes its numbers to docs/reproduction/, its picture to docs/images/reproduction/ and then makes
docs/reproduction.md again, which says nothing that is not in the numbers. A run that is cut off goes on where it
was; what is there already is kept, unless `--again`. `--pages` only draws and writes, from the numbers.
DIR has the data sets in folders of their own; by default it is ../shared/data.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from common import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

from reproduction import (
    bartlett,
    collins_mnist,
    collins_mnist_rivals,
    collins_parsing,
    globerson,
    martins,
    zhang,
)
from reproduction.experiment import ROOT, UNTRACED, Experiment, Numbers
from reproduction.pages import PAGE, page

MODULES = (collins_mnist, collins_mnist_rivals, collins_parsing, globerson, martins, bartlett, zhang)
EXPERIMENTS: dict[str, Experiment] = {each.name: each for module in MODULES for each in module.EXPERIMENTS}


def run(experiment: Experiment, data: Path, again: bool, sentences: int | None) -> None:
    for name in experiment.data:
        if not (data / name).is_dir():
            raise SystemExit(f"{experiment.name} needs the data set {name}; --data {data} has no such folder")
    numbers = Numbers(experiment.json_file, again, sentences, experiment.solvers)
    experiment.run(data, numbers)
    numbers.finish(experiment.name)


def draw(experiment: Experiment) -> None:
    from reproduction.pictures import save

    numbers = experiment.numbers()
    if numbers is not None:
        print(save(experiment.draw(numbers), experiment, numbers).relative_to(ROOT), flush=True)


def standing(experiment: Experiment) -> str:
    if experiment.numbers() is None:
        return "-"
    changed = [name for names in experiment.changed_since().values() for name in names]
    return "untraced" if set(changed) == {UNTRACED} else "older" if changed else "measured"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, or all")
    parser.add_argument(
        "--list", action="store_true", help="what there is, what is measured, and what by older solvers"
    )
    parser.add_argument("--pages", action="store_true", help="pictures and page from the numbers there are")
    parser.add_argument("--again", action="store_true", help="measure again what is there")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sentences", type=int, help="train on the first so many only, for a quick look")
    options = parser.parse_args()
    names = list(EXPERIMENTS) if options.names == ["all"] else options.names
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; --list shows what there is")
    if not (names or options.list or options.pages):
        parser.error("name experiments, or use --list or --pages")
    if options.list:
        for name, each in EXPERIMENTS.items():
            print(f"{name:20} {standing(each):10} {each.source}")
    for name in names:
        run(EXPERIMENTS[name], options.data, options.again, options.sentences)
        draw(EXPERIMENTS[name])
    if options.pages:
        for each in EXPERIMENTS.values():
            draw(each)
    if names or options.pages:
        PAGE.write_text(page(EXPERIMENTS), encoding="utf-8")
        print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
