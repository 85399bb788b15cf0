"""What `dependency.py` runs in a process of its own, one training run; and treebanks as benchmarks read them.

Not to be called by hand: `python benchmarks/dependency_tasks.py --task NAME --options JSON` prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from common import peak_megabytes

FILES = {
    "ud-en-ewt": ("train.conllu.gz", "dev.conllu.gz", "test.conllu.gz"),
    "ptb-sample": ("train.dp", "dev.dp", "test.dp"),
    "cdt-da": ("train.conll.gz", "dev.conll.gz", "test.conll.gz"),
    "conll2007-es": ("esp.train.gz", None, "esp.test"),
}
HELD_OUT = 500  # last training sentences that are dev where a data set has none
PROJECTIVE = ("ptb-sample", "conll2007-es")
WARM_UP = 30  # sentences on which everything is compiled, or loaded, before the clock starts


def read(folder: str, part: int, limit: int | None = None, held_out: int = HELD_OUT) -> Any:
    """Train, dev or test (0, 1, 2), or the first `limit` sentences of it."""
    import numpy as np

    from partwise.data import read_dependencies

    names = FILES[Path(folder).name]
    corpus = read_dependencies(Path(folder) / (names[part] or names[0]))
    first, last = 0, corpus.n_sentences
    if names[1] is None and part == 0:
        last -= held_out
    if names[part] is None:
        first = last - held_out
    if limit is not None:
        last = min(last, first + limit)
    whole = (first, last) == (0, corpus.n_sentences)
    return corpus if whole else corpus.subset(np.arange(first, last))


def parser_for(folder: str, **settings: Any) -> Any:
    from partwise import DependencyParser, Loss

    structure = "projective" if Path(folder).name in PROJECTIVE else "spanning"
    loss = settings.pop("loss", "log")
    if isinstance(loss, list):
        loss = Loss(*map(float, loss))
    own = {"structure": structure, "non_projective": "skip"}
    return DependencyParser(loss=loss, **own | settings)


def scores(parser: Any, corpus: Any) -> dict[str, Any]:
    """Attachment in percent, with and without punctuation, and the speed of parsing."""
    from partwise.scoring.attachment import attachment_scores

    start = time.process_time()
    parsed = parser.parse(corpus)
    seconds = time.process_time() - start
    whole, bare = (
        attachment_scores(corpus, parsed.heads, parsed.relations, punctuation=counted)
        for counted in (True, False)
    )
    return {
        "uas": 100 * whole.uas,
        "las": None if whole.las is None else 100 * whole.las,
        "uas_bare": 100 * bare.uas,
        "las_bare": None if bare.las is None else 100 * bare.las,
        "words_per_second": corpus.n_words / seconds,
        "n_words": corpus.n_words,
    }


def task_accuracy(folder: str, limit: int | None = None, **settings: Any) -> dict[str, Any]:
    """Train as a user would, and score on dev and test."""
    warnings.simplefilter("ignore")
    train = read(folder, 0, limit)
    parser_for(folder, **settings).fit(read(folder, 0, WARM_UP))
    parser = parser_for(folder, **settings)
    start = time.process_time()
    parser.fit(train)
    result: dict[str, Any] = {
        "cpu": time.process_time() - start,
        "solver_cpu": parser.history_[-1]["cpu_seconds"],
        "passes": parser.n_passes_,
        "relative_gap": parser.duality_gap_,
        "objective": parser.objective_,
        "megabytes": peak_megabytes(),
        "n_sentences": train.n_sentences,
    }
    for part, name in ((1, "dev"), (2, "test")):
        corpus = read(folder, part)
        result[name] = scores(parser, corpus)
        recall = parser.pruning_recall(corpus)
        result[name]["pruning_recall"] = None if recall is None else 100 * recall.recall
    return result


def main() -> None:
    task, settings = sys.argv[sys.argv.index("--task") + 1], json.loads(sys.argv[-1])
    print(json.dumps(globals()[f"task_{task}"](**settings)))


if __name__ == "__main__":
    main()
