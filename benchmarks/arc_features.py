"""Arc features of a treebank: seconds to learn and to look up, number of features, memory.

    python benchmarks/arc_features.py --data DIR/ud-en-ewt [--templates mcdonald,pos,labels] [--json out.json]

One thread, CPU seconds, compilation not counted; each set of templates in a process of its own.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, in_child, need_data, peak_megabytes, table, write_json


def task_templates(folder: Path, name: str) -> dict[str, Any]:
    from partwise.core.arcs import all_arcs
    from partwise.data import read_dependencies
    from partwise.features.arcs import ArcFeatures

    start = time.process_time()
    corpus = read_dependencies(folder / "train.conllu.gz")
    reading = time.process_time() - start
    other = read_dependencies(folder / "test.conllu.gz")
    ArcFeatures(name).fit_transform(corpus.subset(np.arange(20)))  # compile
    arcs, before = all_arcs(corpus.lengths), peak_megabytes()
    start = time.process_time()
    features = ArcFeatures(name).fit(corpus, arcs)
    learning = time.process_time() - start
    start = time.process_time()
    rows = features.transform(corpus, arcs)
    looking = time.process_time() - start
    start = time.process_time()
    features.transform(other)
    return {
        "templates": name,
        "n_templates": len(features.used_templates),
        "words": corpus.n_words,
        "arcs": len(arcs.head),
        "features": features.n_attributes,
        "reading_s": reading,
        "learning_s": learning,
        "lookup_s": looking,
        "test_lookup_s": time.process_time() - start,
        "ids_per_arc": len(rows.ids) / len(arcs.head),
        "ids_mb": rows.ids.nbytes / 1e6,
        "peak_mb_before": before,
        "peak_mb": peak_megabytes(),
    }


def main() -> None:
    options = arguments(__doc__ or "", more={"--templates": "mcdonald,pos,labels"})
    if options.task:
        settings = json.loads(options.options)
        print(json.dumps(task_templates(Path(settings["data"]), settings["name"])))
        return
    need_data(options.data, "Universal Dependencies English EWT")
    results = [
        in_child(__file__, "templates", name=name, data=options.data) for name in options.templates.split(",")
    ]
    columns = list(results[0])
    rows = [[columns[k], *(_shown(result[columns[k]]) for result in results)] for k in range(len(columns))]
    print(table(rows[1:], rows[0]))
    write_json(options.json, results)


def _shown(value: Any) -> str:
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


if __name__ == "__main__":
    main()
