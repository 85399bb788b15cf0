"""Tagging with models that CRFsuite trained: python-crfsuite beside partwise, with the same model file.

    python benchmarks/crfsuite_models.py --data DIR [--limit 3000] [--iterations 50] [--json out.json]

DIR has the folders conll2000 and conll2002-es. CRFsuite trains on the first sentences, with the features of
python-crfsuite's tutorial. Then both libraries label all test sentences with the same file, in turn, sentence by
sentence, through the same interface (`Tagger.tag`; `set` and `marginal` for probabilities). Times are CPU time.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import arguments, need_data, table, write_json
from single_sentence import tutorial_features

FILES = {"conll2000": ("train.txt.gz", "test.txt"), "conll2002-es": ("train.txt.gz", "testb.txt")}
WARM_UP = 30  # sentences labelled before those that count


def main() -> None:
    options = arguments(__doc__.split("\n")[0], data=None, more={"--limit": "3000", "--iterations": "50"})
    rows = []
    for name, files in FILES.items():
        folder = need_data(os.path.join(options.data or "", name), name)
        train, test = (sentences(Path(folder) / each) for each in files)
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "model")
            learn(path, train[: int(options.limit)], int(options.iterations))
            rows += compared(name, path, [x for x, _ in test])
    print(table([shown(row) for row in rows], ["data", "what", "unit", "CRFsuite", "partwise", "ratio"]))
    write_json(options.json, {"rows": rows})


def sentences(path: Path) -> list[tuple[list[dict[str, Any]], list[str]]]:
    """Features and labels."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    blocks = text.strip().split("\n\n")
    rows = [[line.split() for line in block.split("\n")] for block in blocks]
    return [(tutorial_features([(r[0], r[1]) for r in each]), [r[-1] for r in each]) for each in rows]


def learn(path: str, data: list[Any], iterations: int) -> None:
    import pycrfsuite

    settings = {"c1": 0.1, "c2": 0.1, "max_iterations": iterations, "feature.possible_transitions": True}
    trainer = pycrfsuite.Trainer("lbfgs", settings, verbose=False)
    for x, y in data:
        trainer.append(x, y)
    trainer.train(path)


def compared(name: str, path: str, X: list[Any]) -> list[dict[str, Any]]:
    """Rows of the table, and that the answers are equal."""
    import pycrfsuite

    import partwise.crfsuite

    ours, theirs = partwise.crfsuite.Tagger(), pycrfsuite.Tagger()
    opening = [min(seconds(lambda t=t: t.open(path)) for _ in range(3)) for t in (theirs, ours)]
    different = sum(ours.tag(x) != theirs.tag(x) for x in X)
    assert not different, f"{different} sentences are labelled differently"
    labels, apart = theirs.labels(), 0.0
    for x in X[:200]:
        for tagger in (ours, theirs):
            tagger.set(x)
        pairs = ((ours.marginal(y, t), theirs.marginal(y, t)) for t in range(len(x)) for y in labels)
        apart = max([apart, *(abs(a - b) for a, b in pairs)])
    print(f"{name}: {len(X):,} sentences have equal labels; probabilities differ by {apart:.0e} at the most")

    def marginals(tagger: Any, x: Any) -> None:
        tagger.set(x)
        for t in range(len(x)):
            for y in labels:
                tagger.marginal(y, t)

    n_tokens = sum(map(len, X))
    asked: dict[str, Callable[[Any, Any], Any]] = {
        "labels": lambda t, x: t.tag(x),
        "probabilities": marginals,
    }
    rows = [{"data": name, "what": "open", "unit": "ms", "peer": 1e3 * opening[0], "own": 1e3 * opening[1]}]
    for what, ask in asked.items():
        total = [0.0, 0.0]
        for k, x in enumerate([*X[:WARM_UP], *X]):
            for at, tagger in enumerate((theirs, ours)):
                spent = seconds(lambda tagger=tagger, x=x, ask=ask: ask(tagger, x))
                total[at] += spent if k >= WARM_UP else 0.0
        peer, own = (1e6 * each / n_tokens for each in total)
        rows.append({"data": name, "what": what, "unit": "µs per token", "peer": peer, "own": own})
    model = partwise.read_crfsuite(path)
    own = min(seconds(lambda: model.predict(X)) for _ in range(3))
    rows.append({**rows[1], "what": "labels, all at once", "own": 1e6 * own / n_tokens})
    return rows


def seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def shown(row: dict[str, Any]) -> list[str]:
    return [row["data"], row["what"], row["unit"], f"{row['peer']:.2f}", f"{row['own']:.2f}",
            f"{row['peer'] / row['own']:.2f}"]  # fmt: skip


if __name__ == "__main__":
    main()
