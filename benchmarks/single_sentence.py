"""One sentence at a time, in one process with CRFsuite's tagger: microseconds of a call, and threads.

    python benchmarks/single_sentence.py --data DIR/conll2000 [--calls 300] [--limit 2000] [--threads 1,2,8]
                                         [--skip-peer] [--json out.json]

A model is trained for each form of input: dicts of 19 features per token, as in CRFsuite's tutorial; dicts of 8; the
same features as lists of strings; and words with tags, through a template. CRFsuite trains on the same features, and
reads them as strings if the input is a template's. The first sentence of 24 tokens is labelled again and again, in turn
by both. Then all test sentences are labelled, by several threads at once. Times of a call are CPU time of its thread,
which on an idle machine is wall time.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from common import arguments, need_data, table, write_json
from sequence import feature_strings, read

LENGTH = 24
WARM_UP = 50  # calls before the first that counts
Sentence = list[tuple[str, str]]


def main() -> None:
    more = {"--calls": "300", "--limit": "2000", "--threads": "1,2,8"}
    options = arguments(__doc__.split("\n")[0], data=None, more=more)
    folder = need_data(options.data, "conll2000")
    n_calls, limit = int(options.calls), int(options.limit)
    threads = [int(each) for each in options.threads.split(",")]
    train, test = (read(folder, part) for part in ("train", "test"))
    rows, labelled = [], []
    for name, inputs_of, template in (
        ("dicts, 19 a token", tutorial_features, None),
        ("dicts, 8 a token", few_features, None),
        ("strings, 19 a token", tutorial_strings, None),
        ("words and tags", list, "chunking"),
    ):
        inputs = [inputs_of(each) for each in sentences(train)[:limit]]
        new = [inputs_of(each) for each in sentences(test)]
        model = trained(inputs, labels_of(train)[:limit], template)
        names = inputs if template is None else feature_strings(train, template)[:limit]
        new_names = new if template is None else feature_strings(test, template)
        peer = None if options.skip_peer else crfsuite(names, labels_of(train)[:limit])
        at = next(k for k, each in enumerate(new) if len(each) == LENGTH)
        rows += one_sentence(name, model.tagger(), new[at], peer, new_names[at], n_calls)
        labelled += many_sentences(name, model.tagger(), new, threads)
    print(f"\nOne sentence of {LENGTH} tokens, microseconds\n")
    header = ["input", "answer", "p50", "p99", "CRFsuite p50", "p99", "CRFsuite / partwise"]
    print(table([shown(row) for row in rows], header))
    print(f"\nAll {len(sentences(test)):,} test sentences, on {os.cpu_count()} processors\n")
    names = ["input", "threads", "sentences / s", "processors in use"]
    print(table([[str(value) for value in row.values()] for row in labelled], names))
    write_json(options.json, {"one sentence": rows, "threads": labelled})


# -- measuring -----------------------------------------------------------------------------------------


def one_sentence(name: str, tagger: Any, x: Any, peer: Any, names: Any, n_calls: int) -> list[dict[str, Any]]:
    """Times of labels, and of marginals as dicts and as an array."""
    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]] = {
        "labels": (lambda: tagger.tag(x), peer and (lambda: peer.tag(names))),
        "marginals": (lambda: tagger.marginals(x), peer and (lambda: peer_marginals(peer, names))),
        "the same, an array": (lambda: tagger.marginals_array(x), None),
    }
    return [{"input": name, "answer": what, **timed(*both, n_calls)} for what, both in calls.items()]


def timed(ours: Callable[[], Any], theirs: Callable[[], Any] | None, n_calls: int) -> dict[str, float]:
    """Microseconds of the median call and of the 99th percentile, called in turn."""
    found: dict[str, list[float]] = {"": [], "peer ": []}
    for k in range(WARM_UP + n_calls):
        for who, call in (("", ours), ("peer ", theirs)):
            if call is None:
                continue
            begin = time.thread_time()
            call()
            if k >= WARM_UP:
                found[who].append(1e6 * (time.thread_time() - begin))
    return {
        f"{who}p{percent}": sorted(times)[len(times) * percent // 100]
        for who, times in found.items()
        for percent in (50, 99)
        if times
    }


def shown(row: dict[str, Any]) -> list[str]:
    times = [f"{row[key]:.1f}" if key in row else "–" for key in ("p50", "p99", "peer p50", "peer p99")]
    ratio = f"{row['peer p50'] / row['p50']:.1f}" if "peer p50" in row else "–"
    return [row["input"], row["answer"], *times, ratio]


def many_sentences(name: str, tagger: Any, X: list[Any], threads: list[int]) -> list[dict[str, Any]]:
    """Sentences a second if several threads label all sentences each."""
    expected = [tagger.tag(x) for x in X]
    found = []
    for n in threads:
        wrong: list[int] = []

        def label(wrong: list[int] = wrong) -> None:
            wrong.append(sum(tagger.tag(x) != y for x, y in zip(X, expected, strict=True)))

        workers = [threading.Thread(target=label) for _ in range(n)]
        wall, cpu = time.perf_counter(), time.process_time()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert wrong == [0] * n
        rate = {"sentences a second": round(n * len(X) / wall), "processors in use": round(cpu / wall, 2)}
        found.append({"input": name, "threads": n, **rate})
    return found


# -- models --------------------------------------------------------------------------------------------


def trained(inputs: list[Any], labels: list[list[str]], template: str | None) -> Any:
    from partwise import SequenceLabeler

    return SequenceLabeler(template=template, tol=1e-2).fit(inputs, labels)


def crfsuite(inputs: list[Any], labels: list[list[str]]) -> Any:
    """CRFsuite's tagger with a model of the same features."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 0.5, "max_iterations": 50, "feature.possible_transitions": True})
    for x, y in zip(inputs, labels, strict=True):
        trainer.append(x, y)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "crfsuite.model")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
    return tagger


def peer_marginals(tagger: Any, names: Any) -> list[dict[str, float]]:
    tagger.set(names)
    labels = tagger.labels()
    return [{label: tagger.marginal(label, t) for label in labels} for t in range(len(names))]


# -- data ----------------------------------------------------------------------------------------------


def sentences(data: Any) -> list[Sentence]:
    """Words with tags."""
    tokens, ptr = list(zip(*data.columns[:2], strict=True)), data.sequence_ptr.tolist()
    return [tokens[a:b] for a, b in pairwise(ptr)]


def labels_of(data: Any) -> list[list[str]]:
    ptr = data.sequence_ptr.tolist()
    return [list(data.labels[a:b]) for a, b in pairwise(ptr)]


def tutorial_features(sentence: Sentence) -> list[dict[str, Any]]:
    """The features of the tutorial of python-crfsuite."""
    found = []
    for i, (word, tag) in enumerate(sentence):
        features = {
            "bias": 1.0, "word.lower": word.lower(), "word[-3:]": word[-3:], "word[-2:]": word[-2:],
            "word.isupper": word.isupper(), "word.istitle": word.istitle(), "word.isdigit": word.isdigit(),
            "postag": tag, "postag[:2]": tag[:2],
        }  # fmt: skip
        for sign, at, edge in (("-1", i - 1, "BOS"), ("+1", i + 1, "EOS")):
            if not 0 <= at < len(sentence):
                features[edge] = True
                continue
            word_there, tag_there = sentence[at]
            features |= {
                f"{sign}:word.lower": word_there.lower(),
                f"{sign}:word.istitle": word_there.istitle(),
                f"{sign}:word.isupper": word_there.isupper(),
                f"{sign}:postag": tag_there,
                f"{sign}:postag[:2]": tag_there[:2],
            }
        found.append(features)
    return found


def few_features(sentence: Sentence) -> list[dict[str, Any]]:
    """Words and tags of a token and its neighbours, and a suffix and the case of its own."""
    padded = [("", ""), *sentence, ("", "")]
    return [
        {
            "word": word, "tag": tag, "suffix": word[-3:], "title": word.istitle(),
            "word-1": padded[i][0], "tag-1": padded[i][1], "word+1": padded[i + 2][0], "tag+1": padded[i + 2][1],
        }
        for i, (word, tag) in enumerate(sentence)
    ]  # fmt: skip


def tutorial_strings(sentence: Sentence) -> list[list[str]]:
    """The same as `tutorial_features`, as names."""
    return [
        [f"{key}:{value}" if isinstance(value, str) else key for key, value in token.items() if value]
        for token in tutorial_features(sentence)
    ]


if __name__ == "__main__":
    main()
