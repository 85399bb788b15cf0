"""One sentence at a time by spaCy's pipeline that has a named entity recogniser alone: microseconds of a call.

    python benchmarks/spacy_sentence.py --data DIR/conll2000 [--limit 500] [--calls 300]

Needs spaCy, and nothing of partwise. A blank English pipeline is trained for one pass with chunks as entities, so that
it is about as large as a trained one. The first test sentence of 24 tokens is labelled again and again, from its words.
Times are CPU time of the calling thread. `benchmarks/single_sentence.py` measures partwise on the same sentence.
"""

from __future__ import annotations

import argparse
import gzip
import random
import time
from pathlib import Path

import spacy
from spacy.tokens import Doc
from spacy.training import Example, iob_to_biluo

LENGTH, WARM_UP = 24, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    nlp = spacy.blank("en")
    recogniser = nlp.add_pipe("ner")
    train = sentences(options.data, "train")[: options.limit]
    for _, tags in train:
        for tag in tags:
            if tag != "O":
                recogniser.add_label(tag[2:])
    examples = [
        Example.from_dict(Doc(nlp.vocab, words), {"entities": iob_to_biluo(tags)}) for words, tags in train
    ]
    optimizer = nlp.initialize(lambda: examples)
    random.seed(0)
    random.shuffle(examples)
    for first in range(0, len(examples), 32):
        nlp.update(examples[first : first + 32], sgd=optimizer)
    words = next(words for words, _ in sentences(options.data, "test") if len(words) == LENGTH)
    times = []
    for k in range(WARM_UP + options.calls):
        begin = time.thread_time()
        found = nlp(Doc(nlp.vocab, words))
        if k >= WARM_UP:
            times.append(1e6 * (time.thread_time() - begin))
    times.sort()
    print(f"spaCy {spacy.__version__}, {nlp.pipe_names}, {len(words)} tokens, {len(found.ents)} entities")
    print(f"p50 {times[len(times) // 2]:.0f} µs, p99 {times[len(times) * 99 // 100]:.0f} µs")


def sentences(folder: Path, part: str) -> list[tuple[list[str], list[str]]]:
    """Words and chunk tags."""
    [path] = sorted(folder.glob(f"{part}*"))
    opened = gzip.open if path.suffix == ".gz" else open
    found: list[tuple[list[str], list[str]]] = [([], [])]
    with opened(path, "rt", encoding="utf-8") as file:
        for line in file:
            fields = line.split()
            if fields:
                found[-1][0].append(fields[0])
                found[-1][1].append(fields[-1])
            elif found[-1][0]:
                found.append(([], []))
    return [each for each in found if each[0]]


if __name__ == "__main__":
    main()
