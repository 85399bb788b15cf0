"""Chunking or names against CRFsuite's L-BFGS: CPU seconds and passes to a suboptimality, memory, F1, tagging.

    python benchmarks/sequence.py --data DIR/conll2000 [--l2 2,0.2] [--pairs observed,all]
                                  [--l1 0] [--template chunking] [--iterations 260] [--json out.json]

Both train the same features (those of a template, by default word and POS windows, bigrams, POS trigrams; all
transitions) to the same objective; CRFsuite's c2 is l2 / 2, its c1 is l1. Each run has a process of its own, one
after another, on one thread.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import (
    TARGETS,
    arguments,
    certified_fit,
    certified_optimum,
    in_child,
    need_data,
    peak_megabytes,
    table,
    trajectory,
    write_json,
)


def read(folder: Path, part: str) -> Any:
    from partwise.data.conll import read_conll

    for name in {"train": ("train.txt.gz", "train.txt"), "test": ("test.txt", "testb.txt", "testa.txt")}[
        part
    ]:
        if (folder / name).exists():
            return read_conll(folder / name)
    raise SystemExit(f"{folder} has no {part} file")


def build_problem(
    folder: Path,
    l2: float,
    pairs: str,
    loss: str = "log",
    *,
    l1: float = 0.0,
    template: str = "chunking",
    n_sentences: int | None = None,
    longest: int | None = None,
) -> Any:
    """The training part, or its first sentences, with features of a template that comes with partwise.

    With `longest`, longer sentences are cut into pieces, which keep the features they had in the sentence.
    """
    import numpy as np

    from partwise.core.maps import FeatureMap
    from partwise.core.problem import Problem
    from partwise.core.rows import RowData
    from partwise.features.attributes import AttributeExtractor
    from partwise.features.templates import load_template
    from partwise.structures import Chain

    data = read(folder, "train")
    ptr = data.sequence_ptr[: None if n_sentences is None else n_sentences + 1]
    labels, encoded = np.unique(data.labels[: ptr[-1]], return_inverse=True)
    columns = [list(column[: ptr[-1]]) for column in data.columns]
    extractor = AttributeExtractor(load_template(template).bind(len(columns)))
    rows = extractor.fit_transform(columns, ptr)
    node_map = FeatureMap.build(len(labels), extractor.n_attributes, 0, rows, encoded, pairs)  # type: ignore
    lengths = np.diff(ptr) if longest is None else pieces(np.diff(ptr), longest)
    return Problem.build(
        Chain(len(labels)), encoded, lengths, {"node": RowData(node_map, rows)}, l2=l2, l1=l1, loss=loss
    )


def pieces(lengths: Any, longest: int) -> Any:
    """Lengths of pieces of nearly equal size, none above `longest`."""
    import numpy as np

    cuts = [np.array_split(np.ones(n, int), -(-n // longest)) for n in lengths]
    return np.array([len(piece) for sentence in cuts for piece in sentence])


def feature_strings(data: Any, template: str = "chunking") -> list[list[list[str]]]:
    """The same attributes as strings, which is what CRFsuite takes."""
    from partwise.features.attributes import AttributeExtractor
    from partwise.features.templates import load_template

    extractor = AttributeExtractor(load_template(template).bind(len(data.columns)))
    rows = extractor.fit_transform(data.columns, data.sequence_ptr)
    names = extractor.names()
    tokens = [
        [names[a] for a in rows.ids[rows.row_ptr[t] : rows.row_ptr[t + 1]]] for t in range(data.n_tokens)
    ]
    return [tokens[a:b] for a, b in zip(data.sequence_ptr[:-1], data.sequence_ptr[1:], strict=True)]


# -- tasks, each in a process of its own ----------------------------------------------------------


def task_optimum(folder: Path, l2: float, l1: float, pairs: str, template: str) -> dict[str, Any]:
    dual, primal = certified_optimum(build_problem(folder, l2, pairs, l1=l1, template=template))
    return {"dual": dual, "primal": primal}


def task_partwise(
    folder: Path, l2: float, l1: float, pairs: str, template: str, solver: str, optimum: float
) -> dict[str, Any]:
    from partwise.solvers import solver_for

    start = time.process_time()
    problem = build_problem(folder, l2, pairs, l1=l1, template=template)
    prepare = time.process_time() - start
    chosen = solver_for(problem, solver)
    start = time.process_time()
    certified_fit(problem, chosen, 1.0, 0.5)
    compile_seconds = time.process_time() - start
    fit = certified_fit(problem, chosen, 1e-3, 300)
    megabytes = peak_megabytes()
    result = trajectory(problem, chosen, optimum, 120 if l2 >= 1 else 300)
    return {
        **result,
        "fit": fit,
        "prepare_cpu": prepare,
        "load_compiled_cpu": compile_seconds,
        "megabytes": megabytes,
        "solver": chosen.name,
    }


def task_crfsuite(
    folder: Path, l2: float, l1: float, pairs: str, template: str, optimum: float, iterations: int
) -> dict[str, Any]:
    """CRFsuite's own log, with a CPU clock read at every line of it."""
    import pycrfsuite

    train = read(folder, "train")
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    for x, y in zip(feature_strings(train, template), train.label_sequences(), strict=True):
        trainer.append(x, y)
    trainer.set_params(
        {
            "c1": l1,
            "c2": l2 / 2,
            "max_iterations": iterations,
            "epsilon": 1e-12,
            "delta": 1e-12,
            "feature.possible_transitions": True,
            "feature.possible_states": pairs == "all",
        }
    )
    losses, clocks = [], [time.process_time()]

    def message(text: str) -> None:
        for line in text.splitlines():
            if line.startswith("Loss:"):
                losses.append(float(line.split(":")[1]))
                clocks.append(time.process_time())

    trainer.message = message
    path = tempfile.mktemp(suffix=".crfsuite")
    start = time.process_time()
    clocks[0] = start
    trainer.train(path)
    reached = {}
    for target in TARGETS:
        for k, loss in enumerate(losses):
            if loss / optimum - 1 <= target:
                reached[f"{target:g}"] = {"passes": k + 1, "cpu": clocks[k + 1] - start}
                break
    result = {
        "reached": reached,
        "cpu_per_pass": (clocks[-1] - start) / max(len(losses), 1),
        "best_loss": min(losses),
        "megabytes": peak_megabytes(),
        **_tag_with_crfsuite(folder, path, template),
    }
    Path(path).unlink()
    return result


def _tag_with_crfsuite(folder: Path, path: str, template: str) -> dict[str, float]:
    import pycrfsuite

    from partwise.scoring.metrics import chunk_scores

    test = read(folder, "test")
    features = feature_strings(test, template)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    start = time.process_time()
    predicted = [tagger.tag(x) for x in features]
    seconds = time.process_time() - start
    f1 = chunk_scores(test.label_sequences(), predicted).f1
    return {
        "f1": 100 * f1,
        "tokens_per_second": test.n_tokens / seconds,
        "file_bytes": Path(path).stat().st_size,
        "active": len(tagger.info().state_features) + len(tagger.info().transitions),
    }


def task_tagging(folder: Path, l2: float, l1: float, pairs: str, template: str) -> dict[str, Any]:
    """Train to 1e-3 through the public interface, from the same strings, and tag the test set."""
    from partwise import SequenceLabeler
    from partwise.scoring.metrics import chunk_scores

    train, test = read(folder, "train"), read(folder, "test")
    model = SequenceLabeler(l2=l2, l1=l1, pairs=pairs, tol=1e-3)
    model.fit(feature_strings(train, template), train.label_sequences())
    features = feature_strings(test, template)
    model.predict(features[:10])
    start = time.process_time()
    predicted = model.predict(features)
    seconds = time.process_time() - start
    f1 = chunk_scores(test.label_sequences(), predicted).f1
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model"
        model.save(path)
        size = path.stat().st_size
    return {
        "f1": 100 * f1,
        "tokens_per_second": test.n_tokens / seconds,
        "file_bytes": size,
        "active": int((model.coef_ != 0).sum()),
    }


# -- the whole comparison --------------------------------------------------------------------------


def compare(
    folder: Path,
    l2: float,
    l1: float,
    pairs: str,
    template: str,
    solvers: list[str],
    skip_peer: bool,
    iterations: int,
) -> dict[str, Any]:
    shared = {"folder": str(folder), "l2": l2, "l1": l1, "pairs": pairs, "template": template}
    optimum = in_child(__file__, "optimum", **shared)
    value = 0.5 * (optimum["dual"] + optimum["primal"])
    result: dict[str, Any] = {"l2": l2, "l1": l1, "pairs": pairs, "optimum": optimum, "partwise": {}}
    for solver in solvers:
        result["partwise"][solver] = in_child(__file__, "partwise", **shared, solver=solver, optimum=value)
    result["tagging"] = in_child(__file__, "tagging", **shared)
    if not skip_peer:
        result["crfsuite"] = in_child(__file__, "crfsuite", **shared, optimum=value, iterations=iterations)
    show(result)
    return result


def show(result: dict[str, Any]) -> None:
    optimum = result["optimum"]
    print(
        f"\nl2 = {result['l2']:g}, l1 = {result['l1']:g}, {result['pairs']} pairs: "
        f"optimum between {optimum['dual']:.3f} and {optimum['primal']:.3f}"
    )
    peer = result.get("crfsuite")
    rows = []
    runs = {**result["partwise"], **({"crfsuite lbfgs": peer} if peer else {})}
    for name, run in runs.items():
        cells = [name, f"{run['cpu_per_pass']:.3f}"]
        for target in TARGETS:
            here = run["reached"].get(f"{target:g}")
            there = peer["reached"].get(f"{target:g}") if peer else None
            text = "-" if here is None else f"{here['passes']:.1f} / {here['cpu']:.2f} s"
            if here and there and run is not peer:
                text += f" ({there['cpu'] / here['cpu']:.1f}x)"
            cells.append(text)
        fit = run.get("fit")
        cells += [f"{fit['cpu']:.2f} s" if fit else "-", f"{run['megabytes']:.0f}"]
        rows.append(cells)
    print(table(rows, ["passes / CPU s to", "s/pass", *(f"{t:g}" for t in TARGETS), "certified 1e-3", "MB"]))
    for name, run in (("partwise", result["tagging"]), ("crfsuite", peer)):
        if run:
            print(
                f"{name}: test chunk F1 {run['f1']:.2f}, "
                f"tagging {run['tokens_per_second']:,.0f} tokens per CPU second, "
                f"model file {run['file_bytes'] / 1e6:.2f} MB, {run['active']:,} weights"
            )


def main() -> None:
    options = arguments(
        __doc__,
        l2="2,0.2",
        solvers="eg-gap,eg-permuted,eg",
        more={"--pairs": "observed", "--l1": "0", "--template": "chunking", "--iterations": None},
    )
    if options.task:
        settings = json.loads(options.options)
        settings["folder"] = Path(settings["folder"])
        print(json.dumps(globals()[f"task_{options.task}"](**settings)))
        return
    folder = need_data(options.data, "conll2000 or conll2002-es")
    results = [
        compare(
            folder,
            float(l2),
            float(options.l1),
            pairs,
            options.template,
            options.solvers.split(","),
            options.skip_peer,
            int(options.iterations or (260 if float(l2) >= 1 else 420)),
        )
        for pairs in options.pairs.split(",")
        for l2 in options.l2.split(",")
    ]
    write_json(options.json, results)


if __name__ == "__main__":
    sys.exit(main())
