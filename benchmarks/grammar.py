"""Milliseconds of CPU time a sentence for inside-outside and the other questions to a grammar, one thread.

    python benchmarks/grammar.py [--data SHARED/ptb-sample] [--lengths 10,20,40] [--json FILE]

The dense grammar has 30 nonterminals and 30 symbols over words, every rule A → B C with A a nonterminal, and normal
scores. The treebank grammar is read off the training trees of --data (function tags and traces removed, right binary
with one sister remembered, chains of unary rules as one step), with relative frequencies as scores, on sentences of
its test part; every word may have any tag it was seen with, a word not seen those of words seen once. *Inside-outside*
is one call of ``Grammar.marginals``: the log-partition and all expected counts. Figures of torch-struct and synjax were
measured for the same dense grammar on another machine, one thread, and are quoted.

Below, spans of test sentences are pruned by the marginals of a coarser treebank grammar, which forgets the sister:
what is left, how many of the true spans, and inside-outside of a sentence before and after.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from common import ONE_THREAD, table, write_json

os.environ.update(ONE_THREAD)

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.structures import Grammar, prune_spans
from partwise.structures.packed import Packed

QUOTED = {"torch-struct": {20: 150.0, 40: 490.0}, "synjax": {20: 207.0, 40: 1163.0}}
N_NONTERMINALS = N_TAGS = 30
MOST_WORDS = 40  # of a test sentence


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


class Treebank(NamedTuple):
    """A grammar with relative frequencies as scores, and a function from words to word scores."""

    grammar: Grammar
    rule_scores: np.ndarray
    word_scores: Callable[[list[str]], np.ndarray]


def treebank_grammar(trees: list[Any], coarse: bool = False) -> Treebank:
    """Read off trees; a coarse one forgets the sister that symbols of binary form remember."""
    counts: Counter[Any] = Counter()
    words: Counter[Any] = Counter()
    for tree in trees:
        count_rules(tree, counts, words)
    if coarse:
        forgetful: Counter[Any] = Counter()
        for rule, count in counts.items():
            forgetful[tuple(symbol.partition("|")[0] or symbol for symbol in rule)] += count
        counts = forgetful
    symbols = sorted({symbol for rule in counts for symbol in rule} | {tag for tag, _ in words})
    number = {symbol: k for k, symbol in enumerate(symbols)}
    binary, unary = ([rule for rule in counts if len(rule) == size] for size in (3, 2))
    parents: Counter[Any] = Counter()
    for rule, count in counts.items():
        parents[rule[0]] += count
    totals: Counter[Any] = Counter()
    for (tag, _), count in words.items():
        totals[tag] += count
    grammar = Grammar(
        len(symbols), [[number[s] for s in rule] for rule in binary], number["TOP"],
        unaries=[[number[s] for s in rule] for rule in unary], word_symbols=[number[tag] for tag in totals],
    )  # fmt: skip
    known: Counter[str] = Counter()
    for (_, word), count in words.items():
        known[word] += count
    seen_once = Counter(tag for tag, word in words if known[word] == 1)

    def word_scores(sentence: list[str]) -> np.ndarray:
        result = np.full((len(sentence), len(symbols)), -np.inf)
        for i, word in enumerate(sentence):
            for tag, total in totals.items():
                count = words[tag, word] if word in known else seen_once[tag]
                if count:
                    result[i, number[tag]] = np.log(count / total)
        return result

    scores = np.array([np.log(counts[rule] / parents[rule[0]]) for rule in binary + unary])
    return Treebank(grammar, scores, word_scores)


def spans_of_tree(node: Any, first: int = 0) -> list[tuple[int, int, int, int]]:
    """Nodes of the binary form as labels have them, with symbol and rule 0, and rule −1 for words."""
    _, children = node
    if isinstance(children, str):
        return [(first, first, 0, -1)]
    last, below = first + len(leaves(node)) - 1, []
    for k, child in enumerate(children):
        if k + 1 < len(children):
            below.append((first, last, 0, 0))
        nodes = spans_of_tree(child, first)
        below += nodes
        first = nodes[-1][1] + 1
    return below


def coarse_to_fine(trees: list[Any], test: list[Any], thresholds: tuple[float, ...]) -> list[list[str]]:
    """Prune the spans of test sentences by a coarse grammar's marginals; milliseconds a sentence of each step."""
    coarse, fine = treebank_grammar(trees, coarse=True), treebank_grammar(trees)
    sentences = [leaves(tree) for tree in test]
    packed = coarse.grammar.pack([coarse.word_scores(s) for s in sentences], coarse.rule_scores)
    full = fine.grammar.pack([fine.word_scores(s) for s in sentences], fine.rule_scores)
    gold = np.array([node for tree in test for node in spans_of_tree(tree)])
    counts, best = packed.expectations()[1], packed.best()
    before = [f"{milliseconds(each.expectations, 1) / len(test):.1f}" for each in (packed, full)]
    rows = []
    for least in thresholds:
        shapes, record = prune_spans(coarse.grammar, packed.shapes, counts, least, best=best, gold=gold)
        few, shares = with_shapes(fine, sentences, shapes), record.as_dict()
        after = milliseconds(functools.partial(few.answers, "sums"), 1) / len(test)
        lost = int((few.log_partition() == -np.inf).sum())
        percent = (f"{100 * shares[name]:.1f} %" for name in ("spans_left", "recall", "whole_sentences"))
        rows.append([f"{least:g}", *percent, str(lost), *before, f"{after:.1f}"])
    return rows


def with_shapes(treebank: Treebank, sentences: list[list[str]], shapes: Any) -> Packed:
    """Scores of sentences whose spans are pruned."""
    grammar, pieces = treebank.grammar, []
    for sentence, n_spans in zip(sentences, grammar.n_spans(shapes).tolist(), strict=True):
        pieces.append(treebank.word_scores(sentence)[:, grammar.word_symbols].ravel())
        pieces += [np.zeros(n_spans * grammar.kinds[1].width), treebank.rule_scores]
    scores = np.concatenate([*pieces, np.zeros(LANES)])
    return Packed(grammar, grammar.specification(), shapes, offsets(grammar.n_parts(shapes)), scores, False)


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
        trees = read_trees(options.data / "train.mrg.gz")
        test = [tree for tree in read_trees(options.data / "test.mrg") if len(leaves(tree)) <= MOST_WORDS]
        grammar, rules, word_scores = treebank_grammar(trees)
        sentences = [leaves(tree) for tree in test]
        data = {n: (word_scores(min(sentences, key=lambda s: abs(len(s) - n))), rules) for n in lengths}
        name = f"treebank ({len(grammar.rules):,} + {len(grammar.unaries)} rules)"
        rows.append(measured(f"{name}, inside-outside", grammar.marginals, data))
        rows.append(measured(f"{name}, argmax", grammar.argmax, data))
    print(table(rows, ["milliseconds", *(f"{n} words" for n in lengths)]))
    if options.data.is_dir():
        header = ["least", "spans left", "recall", "whole", "lost", "coarse ms", "fine ms", "pruned ms"]
        print(f"{len(test)} test sentences of up to {MOST_WORDS} words")
        print(table(coarse_to_fine(trees, test, (1e-4, 1e-3, 1e-2)), header))
    write_json(options.json, {"lengths": lengths, "rows": rows})


def measured(name: str, method: Callable[..., Any], data: dict[int, Any]) -> list[str]:
    return [name, *(f"{milliseconds(lambda s=scores: method(*s)):.1f}" for scores in data.values())]


if __name__ == "__main__":
    main()
