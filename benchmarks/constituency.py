"""A constituency parser against the grammar that its treebank gives by itself: minutes to a certificate, labelled F1.

    python benchmarks/constituency.py --data SHARED/ptb-sample [--max-length 25] [--tol 1e-2] [--jobs 2] [--words]
        [--loss log] [--l2 1] [--direction right] [--json FILE]

The parser is trained on the sentences of train.mrg.gz up to --max-length words until the relative duality gap is
--tol; the grammars have relative frequencies for weights, with several memories of siblings and parents. Tags are
those of the treebank, for all alike; with --words, tags are part of the parse. F1 is evalb's (COLLINS.prm), on the
sentences of dev.mrg and test.mrg up to --max-length words and on all of them.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from common import ONE_THREAD, need_data, peak_megabytes, table, write_json

os.environ.update(ONE_THREAD)

from partwise import ConstituencyParser
from partwise.data import Tree, read_trees
from partwise.data.treebank import TRACE_TAG
from partwise.scoring.brackets import bracket_scores
from partwise.tasks.constituents.baseline import PCFGParser

FORMS = [("right", 0, 1), ("right", 1, 1), ("right", None, 1), ("right", 1, 2), ("head", 1, 2)]


def n_words(tree: Tree) -> int:
    return sum(tag.label != TRACE_TAG for tag in tree.tags())


def inputs(trees: list[Tree], words: bool) -> list[Any]:
    pairs = [[pair for pair in tree.tagged_words() if pair[1] != TRACE_TAG] for tree in trees]
    return [[word for word, _ in sentence] for sentence in pairs] if words else pairs


def scores(parser: Any, sets: dict[str, list[Tree]], words: bool) -> dict[str, Any]:
    """F1 on every set, the sentences outside the grammar, and CPU milliseconds a sentence on the last set."""
    found: dict[str, Any] = {}
    for name, trees in sets.items():
        start = time.process_time()
        parsed = parser.parse(inputs(trees, words))
        found["milliseconds"] = 1e3 * (time.process_time() - start) / len(trees)
        result = bracket_scores(trees, parsed.trees)
        found[name] = {"f1": result.f1, "exact": result.exact_match, "tags": result.tag_accuracy}
        found[name]["outside"] = int(parsed.fallback.sum())
    return found


def row(name: str, found: dict[str, Any], sets: dict[str, list[Tree]]) -> list[str]:
    cells = [f"{100 * found[each]['f1']:.2f}" for each in sets]
    last = found[list(sets)[-1]]
    tags, outside = f"{100 * last['tags']:.2f}", str(last["outside"])
    return [name, *cells, tags, outside, f"{found['milliseconds']:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None, help="folder with train.mrg.gz, dev.mrg and test.mrg")
    parser.add_argument("--max-length", default=25, type=int)
    parser.add_argument("--tol", default=1e-2, type=float)
    parser.add_argument("--jobs", default=2, type=int)
    parser.add_argument("--loss", default="log")
    parser.add_argument("--l2", default=1.0, type=float)
    parser.add_argument("--direction", default="right")
    parser.add_argument("--words", action="store_true", help="without tags in the input")
    parser.add_argument("--json", default=None, help="file to write all figures to")
    options = parser.parse_args()
    folder = need_data(options.data, "the Penn sample")
    train = [t for t in read_trees(folder / "train.mrg.gz").trees if n_words(t) <= options.max_length]
    sets: dict[str, list[Tree]] = {}
    for name in ("dev", "test"):
        trees = read_trees(folder / f"{name}.mrg").trees
        sets[f"{name} <= {options.max_length}"] = [t for t in trees if n_words(t) <= options.max_length]
        sets[name] = trees
    rows, record = [], {}
    for form in FORMS:
        name = f"PCFG {form[0]}, {'all' if form[1] is None else form[1]} siblings, {form[2]} deep"
        record[name] = scores(PCFGParser(*form).fit(inputs(train, options.words), train), sets, options.words)
        rows.append(row(name, record[name], sets))
    trained = ConstituencyParser(
        options.loss, options.l2, tol=options.tol, n_jobs=options.jobs, verbose=1, direction=options.direction
    )
    wall, cpu = time.perf_counter(), time.process_time()
    trained.fit(inputs(train, options.words), train)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    name = f"ConstituencyParser, {options.loss}"
    record[name] = scores(trained, sets, options.words)
    rows.append(row(name, record[name], sets))
    print(table(rows, ["F1, %", *sets, "tags", "outside", "ms"]))
    print(
        f"{len(train):,} sentences, relative gap {trained.duality_gap_:.2e} after {trained.n_passes_:.1f} passes, "
        f"{wall:.0f} s, {cpu:.0f} CPU s (compiling included), {peak_megabytes():.0f} MB at most"
    )
    facts = {"gap": trained.duality_gap_, "passes": trained.n_passes_, "wall": wall, "cpu": cpu}
    write_json(options.json, {"options": vars(options), "scores": record, "training": facts})


if __name__ == "__main__":
    main()
