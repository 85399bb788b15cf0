"""Milliseconds of CPU time a sentence for inside-outside and the other questions to a grammar, one thread.

    python benchmarks/grammar.py [--data SHARED/ptb-sample] [--lengths 10,20,40] [--json FILE]

The dense grammar has 30 nonterminals and 30 symbols over words, every rule A → B C with A a nonterminal, and normal
scores. The treebank grammar is read off the training trees of --data (function tags and traces removed, right binary
with one sister remembered, chains of unary rules as one step), with relative frequencies as scores, on sentences of its
test part; every word may have any tag it was seen with, and a word not seen may have any. *Inside-outside* is one call
of ``Grammar.marginals``, which gives the log-partition and all expected counts. Figures of torch-struct and synjax are
those measured for the same dense grammar on another machine, one thread, and are quoted, not measured here.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import ONE_THREAD, table, write_json

os.environ.update(ONE_THREAD)

import numpy as np

from partwise.structures import Grammar

QUOTED = {"torch-struct": {20: 150.0, 40: 490.0}, "synjax": {20: 207.0, 40: 1163.0}}
N_NONTERMINALS = N_TAGS = 30


def milliseconds(call: Callable[[], Any], rounds: int = 5) -> float:
    """CPU time of a call, the best of some rounds; compiling is not counted."""
    call()
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best * 1e3


def dense_grammar() -> Grammar:
    size = N_NONTERMINALS + N_TAGS
    rules = np.array(list(np.ndindex(N_NONTERMINALS, size, size)))
    return Grammar(size, rules, word_symbols=np.arange(N_NONTERMINALS, size))


def dense_scores(grammar: Grammar, n: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(n)
    shapes = (n, grammar.n_symbols), (grammar.n_rules,), (n, n, grammar.n_symbols)
    return tuple(random.normal(size=shape) for shape in shapes)


# -- the treebank --------------------------------------------------------------------------------------


def read_tree(line: str) -> Any:
    """A tree as (label, children), and (tag, word) for words; traces and function tags removed."""
    stack: list[list[Any]] = [[]]
    tokens = re.findall(r"[()]|[^\s()]+", line)
    for k, token in enumerate(tokens):
        if token == "(":
            stack.append(
                ["TOP" if tokens[k + 1] == "(" else re.sub(r"(?<=.)[-=].*(?<!-)$", "", tokens[k + 1])]
            )
        elif token == ")":
            node = stack.pop()
            if len(node) > 1 and node[0] != "-NONE-":
                stack[-1].append((node[0], node[1] if isinstance(node[1], str) else node[1:]))
        elif tokens[k - 1] != "(":
            stack[-1].append(token)
    return stack[0][0]


def read_trees(path: Path) -> list[Any]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [read_tree(line) for line in text.strip().split("\n")]


def count_rules(node: Any, counts: Counter[Any], words: Counter[Any]) -> None:
    """Count the rules of a tree in binary form; of chains of unary rules only the ends remain."""
    label, children = node
    if isinstance(children, str):
        words[label, children] += 1
        return
    while len(children) == 1 and not isinstance(children[0][1], str) and len(children[0][1]) == 1:
        children = children[0][1]
    if len(children) > 1:
        _binary(label, [child[0] for child in children], counts)
    elif children[0][0] != label:
        counts[label, children[0][0]] += 1
    for child in children:
        count_rules(child, counts, words)


def _binary(label: str, children: list[str], counts: Counter[Any]) -> None:
    top, rest = label, children
    while len(rest) > 2:
        below = f"@{label}|{rest[0]}"
        counts[top, rest[0], below] += 1
        top, rest = below, rest[1:]
    counts[top, rest[0], rest[1]] += 1


def treebank_grammar(folder: Path) -> tuple[Grammar, np.ndarray, Callable[[list[str]], np.ndarray]]:
    """Grammar, rule scores, and a function from words to word scores."""
    counts: Counter[Any] = Counter()
    words: Counter[Any] = Counter()
    for tree in read_trees(folder / "train.mrg.gz"):
        count_rules(tree, counts, words)
    symbols = sorted({s for rule in counts for s in rule} | {tag for tag, _ in words})
    number = {symbol: k for k, symbol in enumerate(symbols)}
    binary = [rule for rule in counts if len(rule) == 3]
    unary = [rule for rule in counts if len(rule) == 2]
    parents: Counter[Any] = Counter()
    for rule, count in counts.items():
        parents[rule[0]] += count
    scores = np.array([np.log(counts[rule] / parents[rule[0]]) for rule in binary + unary])
    tags = sorted({tag for tag, _ in words})
    totals: Counter[Any] = Counter()
    for (tag, _), count in words.items():
        totals[tag] += count
    grammar = Grammar(
        len(symbols), [[number[s] for s in rule] for rule in binary], number["TOP"],
        unaries=[[number[s] for s in rule] for rule in unary], word_symbols=[number[tag] for tag in tags],
    )  # fmt: skip
    known = {word for _, word in words}

    def word_scores(sentence: list[str]) -> np.ndarray:
        result = np.full((len(sentence), len(symbols)), -np.inf)
        for i, word in enumerate(sentence):
            for tag in tags:
                count = words[tag, word] if word in known else 1
                if count:
                    result[i, number[tag]] = np.log(count / totals[tag])
        return result

    return grammar, scores, word_scores


def leaves(node: Any) -> list[str]:
    return [node[1]] if isinstance(node[1], str) else [word for child in node[1] for word in leaves(child)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "ptb-sample"
    parser.add_argument("--data", default=str(shared), type=Path, help="folder with the Penn sample")
    parser.add_argument("--lengths", default="10,20,40", help="comma-separated numbers of words")
    parser.add_argument("--json", default=None, help="file to write all figures to")
    options = parser.parse_args()
    lengths = [int(n) for n in options.lengths.split(",")]
    rows = []
    grammar = dense_grammar()
    data = {n: dense_scores(grammar, n) for n in lengths}
    rows.append(measured("dense, inside-outside", grammar.marginals, data))
    rows.append(measured("dense, log-partition", grammar.log_partition, data))
    rows.append(measured("dense, argmax", grammar.argmax, data))
    for peer, figures in QUOTED.items():
        rows.append([f"{peer} (quoted)", *(f"{figures[n]:.0f}" if n in figures else "" for n in lengths)])
    if options.data.is_dir():
        grammar, rules, word_scores = treebank_grammar(options.data)
        sentences = [leaves(tree) for tree in read_trees(options.data / "test.mrg")]
        data = {n: (word_scores(min(sentences, key=lambda s: abs(len(s) - n))), rules) for n in lengths}
        name = f"treebank ({len(grammar.rules):,} + {len(grammar.unaries)} rules)"
        rows.append(measured(f"{name}, inside-outside", grammar.marginals, data))
        rows.append(measured(f"{name}, argmax", grammar.argmax, data))
    print(table(rows, ["milliseconds", *(f"{n} words" for n in lengths)]))
    write_json(options.json, {"lengths": lengths, "rows": rows})


def measured(name: str, method: Callable[..., Any], data: dict[int, Any]) -> list[str]:
    return [name, *(f"{milliseconds(lambda s=scores: method(*s)):.1f}" for scores in data.values())]


if __name__ == "__main__":
    main()
