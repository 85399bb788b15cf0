"""Constituency parsers without and with anchored rules: their number, memory of data and dual state, CPU s, F1.

    python benchmarks/anchored_rules.py --data SHARED/ptb-sample [--max-length 15] [--tol 1e-2] [--loss log]
        [--json FILE]

Parsers are trained on the sentences of train.mrg.gz up to --max-length words, tags given, one after another in one
process. F1 is evalb's (COLLINS.prm), on the sentences of dev.mrg and test.mrg up to --max-length words together. With
`--loss hinge`, l2 is 10 and the costs of rules and their bound are compared, too.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from common import ONE_THREAD, need_data, table, write_json

os.environ.update(ONE_THREAD)

from partwise import ConstituencyParser
from partwise.data import Tree, read_trees
from partwise.scoring.brackets import bracket_scores
from partwise.solvers.memory import memory_estimate

RULES: dict[str, Any] = {"rule_templates": "default"}
SETTINGS: dict[str, dict[str, Any]] = {
    "no anchored rules": {},
    "anchored, nodes of 1e-3": RULES | {"rule_threshold": 1e-3},
    "anchored, nodes of 1e-4": RULES | {"rule_threshold": 1e-4},
    "anchored, nodes of 1e-5": RULES | {"rule_threshold": 1e-5},
}
COSTS: dict[str, dict[str, Any]] = {
    'no features, cost="rules_bound"': {"cost": "rules_bound"},
    'no features, cost="rules", 1e-4': {"cost": "rules", "rule_threshold": 1e-4},
}


class Watched(ConstituencyParser):
    """Keeps the number of anchored rules and the estimate of memory."""

    def _before_training(self, problem: Any, solver: Any) -> list[str]:
        structure: Any = problem.structure
        self.n_rules = int(structure.n_anchored(problem.scorer.shapes).sum())
        found = memory_estimate(problem, solver)
        self.megabytes = (found.data + found.parts) / 1e6
        return super()._before_training(problem, solver)


def trained(settings: dict[str, Any], train: list[Tree], test: list[Tree]) -> dict[str, Any]:
    start = time.process_time()
    parser = Watched(verbose=1, **settings).fit(None, train)
    middle = time.process_time()
    parsed = parser.parse(test)
    found = {"rules": parser.n_rules, "megabytes": parser.megabytes, "seconds": middle - start}
    found |= {"milliseconds": 1e3 * (time.process_time() - middle) / len(test), "gap": parser.duality_gap_}
    return found | {"f1": bracket_scores(test, parsed.trees).f1}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--data", required=True)
    options.add_argument("--max-length", type=int, default=15)
    options.add_argument("--tol", type=float, default=1e-2)
    options.add_argument("--loss", default="log")
    options.add_argument("--json")
    given = options.parse_args()
    folder = need_data(given.data, "the Penn sample")

    def trees(*names: str) -> list[Tree]:
        found = [tree for name in names for tree in read_trees(folder / name).trees]
        return [tree for tree in found if len(tree.words()) <= given.max_length]

    train, test = trees("train.mrg.gz"), trees("dev.mrg", "test.mrg")
    is_hard = given.loss == "hinge"
    common = {"loss": given.loss, "tol": given.tol, "l2": 10.0 if is_hard else 1.0}
    found = {
        name: trained(common | each, train, test)
        for name, each in (SETTINGS | COSTS if is_hard else SETTINGS).items()
    }
    print(f"{len(train)} sentences of at most {given.max_length} words, F1 on {len(test)}")
    rows = [
        [name, f"{each['rules']:,}", f"{each['megabytes']:.0f}", f"{each['seconds']:.1f}",
         f"{each['milliseconds']:.1f}", f"{100 * each['f1']:.2f}"]
        for name, each in found.items()
    ]  # fmt: skip
    print(table(rows, ["", "anchored rules", "MB", "training, CPU s", "ms a sentence", "F1"]))
    write_json(given.json, found)


if __name__ == "__main__":
    main()
