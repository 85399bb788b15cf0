"""Second-order parsing next to first order: attachment, time and memory on treebanks, and microseconds of marginals.

    python benchmarks/second_order.py accuracy --data DIR/ud-en-ewt [--structure projective] [--l2 1,3,10] [--labelled]
    python benchmarks/second_order.py marginals [--lengths 20,40] [--heads 0,10]

`accuracy` trains both orders with the same l2s on one thread, each run in a process of its own, and takes for each
order the l2 that is best on dev (the last 500 training sentences where there is none). `marginals` times the exact
marginals of projective trees with all arcs (--heads 0) and with so many heads a word, and divides by the terms,
products of two chart entries in the inside pass, that each order adds up. Times are CPU seconds, all compiled before.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import dependency_tasks
from common import ONE_THREAD, in_child, need_data, table, write_json

os.environ.update(ONE_THREAD)

N_SENTENCES = 32


def accuracy(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All runs, and a table after each."""
    results: list[dict[str, Any]] = []
    for order in map(int, options.orders.split(",")):
        for l2 in map(float, options.l2.split(",")):
            settings = {
                "folder": str(need_data(options.data, "a treebank")),
                "order": order,
                "l2": l2,
                "tol": options.tol,
            }
            settings |= {"structure": options.structure, "labelled": options.labelled, "limit": options.limit}
            settings |= {"loss": options.loss, "max_passes": options.max_passes}
            results.append({**settings, **in_child(dependency_tasks.__file__, "accuracy", **settings)})
            show_accuracy(results)
            if options.json:
                write_json(options.json, results)
    return results


def show_accuracy(results: list[dict[str, Any]]) -> None:
    """A row a run, and what the best of each order on dev differ by on test."""
    rows, best = [], {}
    for found in results:
        cells = [str(found["order"]), f"{found['l2']:g}"]
        for part in ("dev", "test"):
            own = found[part]
            recall = own["pruning_recall"]
            cells += [number(own[name]) for name in ("uas", "las", "uas_bare")]
            cells.append("" if recall is None else f"{recall:.2f}")
        cells += [f"{found['cpu']:.0f}", f"{found['passes']:.1f}", f"{found['relative_gap']:.1e}"]
        rows.append([*cells, f"{found['megabytes']:.0f}", f"{found['test']['words_per_second']:.0f}"])
        measure = "las" if found["labelled"] else "uas"
        if found["order"] not in best or found["dev"][measure] > best[found["order"]]["dev"][measure]:
            best[found["order"]] = found
    header = [
        "order",
        "l2",
        "dev UAS",
        "LAS",
        "no punct.",
        "recall",
        "test UAS",
        "LAS",
        "no punct.",
        "recall",
    ]
    print(table(rows, [*header, "CPU s", "passes", "gap", "MB", "words/s"]), flush=True)
    if len(best) == 2:
        first, second = best[1], best[2]
        gains = [
            f"{name.upper()} {second['test'][name] - first['test'][name]:+.2f}"
            for name in ("uas", "las")
            if first["test"][name] is not None
        ]
        times = second["cpu"] / first["cpu"]
        print(
            f"by dev: l2 {first['l2']:g} and {second['l2']:g}; test {', '.join(gains)}; {times:.1f} times the CPU\n"
        )


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def marginals(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Microseconds a sentence of both orders, and nanoseconds a term."""
    from trees import microseconds

    from partwise.structures import Projective, SecondOrderProjective

    results, rows = [], []
    for n in map(int, options.lengths.split(",")):
        for heads in map(int, options.heads.split(",")):
            arcs, siblings, grandparents = random_scores(n, heads)
            packed = SecondOrderProjective()._pack(arcs, siblings, grandparents, None)
            own_terms = second_order_terms(packed) / N_SENTENCES
            terms = n * (n + 1) * (n + 2) / 2
            first = microseconds(lambda own=arcs: Projective().marginals(own), N_SENTENCES)
            second = microseconds(lambda own=packed: own.answers("sums"), N_SENTENCES)
            per_term = 1e3 * first / terms, 1e3 * second / own_terms
            results.append({"n": n, "heads": heads, "first": first, "second": second, "per_term": per_term})
            rows.append(
                [str(n), str(heads or "all"), f"{first:.1f}", f"{terms:.0f}", f"{per_term[0]:.2f}", f"{second:.1f}",
                 f"{own_terms:.0f}", f"{per_term[1]:.2f}", f"{per_term[1] / per_term[0]:.2f}"]
            )  # fmt: skip
    print(
        table(rows, ["words", "heads", "first µs", "terms", "ns", "second µs", "terms", "ns", "ratio a term"])
    )
    return results


def random_scores(n: int, heads: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Normal scores; with `heads` not 0, all but so many arcs into each word are forbidden, near ones left first."""
    import numpy as np

    random = np.random.default_rng(n)
    arcs, pairs = [], [[random.normal(size=(n + 1,) * 3) for _ in range(N_SENTENCES)] for _ in range(2)]
    for _ in range(N_SENTENCES):
        scores = random.normal(size=(n + 1, n + 1))
        if heads:
            far = np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1))) + 6 * random.random(
                (n + 1, n + 1)
            )
            np.fill_diagonal(far, np.inf)
            far[np.arange(n), np.arange(1, n + 1)] = -1.0  # a tree is left
            scores[far > np.sort(far, axis=0)[heads - 1]] = -np.inf
        arcs.append(scores)
    return arcs, pairs[0], pairs[1]


def second_order_terms(packed: Any) -> float:
    """Products that the inside pass adds up: for each pair of siblings where they meet and for every head of their own
    head; for each arc as the last of its side, every end and every head of its head."""
    import numpy as np

    structure, total = packed.structure, 0.0
    for i, n in enumerate(packed.lengths.tolist()):
        arcs = structure.arcs_of(packed.shapes.take(np.array([i])))
        siblings, _ = structure.triples(arcs)
        into = np.bincount(arcs.modifier, minlength=n + 1)
        into[0] = 1
        ends = np.where(arcs.head < arcs.modifier, n + 1 - arcs.modifier, arcs.modifier)
        total += float((ends * into[arcs.head]).sum())
        pair = (siblings.first >= 0) & (siblings.modifier >= 0)
        total += float(
            np.abs(siblings.first - siblings.modifier)[pair].sum() + into[siblings.head[pair]].sum()
        )
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=("accuracy", "marginals"))
    parser.add_argument("--data", help=f"folder of one of {', '.join(dependency_tasks.FILES)}")
    parser.add_argument("--structure", default="projective", choices=("projective", "spanning"))
    parser.add_argument("--orders", default="1,2")
    parser.add_argument("--l2", default="1,3,10", help="comma-separated values of l2")
    parser.add_argument("--loss", default="log")
    parser.add_argument("--labelled", action="store_true", help="learn relations too")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-passes", type=float, default=200)
    parser.add_argument("--limit", type=int, help="train on the first sentences only")
    parser.add_argument("--lengths", default="20,40")
    parser.add_argument("--heads", default="0,10")
    parser.add_argument("--json", help="file to write all figures to")
    options = parser.parse_args()
    found = accuracy(options) if options.experiment == "accuracy" else marginals(options)
    if options.json:
        write_json(options.json, found)


if __name__ == "__main__":
    sys.exit(main())
