"""Semi-Markov chains: microseconds of inference beside torch-struct, and F1 of segments beside a chain over B and I.

    python benchmarks/segments.py [--peer PYTHON] [--data DIR] [--sets conll2000] [--models chain,default]
        [--l2 0.5,1,2] [--tol 1e-2] [--json FILE]

*Inference*: marginals, log-partition and best segmentation, CPU time a sentence on one thread, of 25 words, 10 labels
and segments of at most 8 words; alone and in a list of 64. torch-struct's SemiMarkovCRF is timed on the same sizes
where --peer, by default the running interpreter, can import it (it is no dependency).

*F1*, where --data holds the sets: segments have the chain's features of words, with nothing but the length of segments
besides ("length"), and with features of segments ("default"). Every model runs in a process of its own. CPU seconds
are those of the whole fit, reading and compiling apart; memory is the peak of the process, reading included, and on
standard error what `verbose` said of it before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from common import ONE_THREAD, arguments, in_child, peak_megabytes, table, write_json

os.environ.update(ONE_THREAD)

WORDS, LABELS, LONGEST, N_SENTENCES = 25, 10, 8, 64
DATA = {
    "conll2000": ("train.txt.gz", {"test": "test.txt"}, "chunking"),
    "conll2002-es": ("train.txt.gz", {"testa": "testa.txt", "testb": "testb.txt"}, "ner"),
}
MODELS = ("chain", "length", "default")


def best_of(call: Any, rounds: int = 7) -> float:
    """The least CPU microseconds of one call."""
    call()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return 1e6 * min(found)


def task_ours() -> dict[str, Any]:
    import numpy as np

    from partwise.structures import SemiMarkov

    random, structure = np.random.default_rng(0), SemiMarkov(LABELS, LONGEST)
    scores = [random.normal(size=(WORDS, LONGEST, LABELS)) for _ in range(N_SENTENCES)]
    transitions, result = random.normal(size=(LABELS, LABELS)), {}
    for question in ("marginals", "log_partition", "argmax"):
        method = getattr(structure, question)
        alone = best_of(lambda m=method: [m(each, transitions) for each in scores]) / N_SENTENCES
        result[question] = [alone, best_of(lambda m=method: m(scores, transitions)) / N_SENTENCES]
    return result


def task_torch_struct() -> dict[str, Any]:
    """The same sizes; potentials (sentences, words, length, label after, label before), lengths from 0 on."""
    import torch
    from torch_struct import SemiMarkovCRF

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result = {}
    for n in (1, 8):
        potentials = torch.randn(n, WORDS, LONGEST + 1, LABELS, LABELS)
        lengths = torch.full((n,), WORDS + 1)

        def marginals(p: Any = potentials, own: Any = lengths) -> Any:
            return SemiMarkovCRF(p, lengths=own).marginals

        result[str(n)] = best_of(marginals, 3) / n
    return result


def task_f1(folder: str, name: str, model: str, l2: float, tol: float) -> dict[str, Any]:
    import contextlib
    import io

    from partwise import SegmentLabeler, SequenceLabeler
    from partwise.data import read
    from partwise.scoring.metrics import chunk_scores

    train_file, tests, template = DATA[name]
    train = read(Path(folder) / name / train_file)
    settings: dict[str, Any] = {"template": template, "l2": l2, "tol": tol}
    labeler: Any = SequenceLabeler(**settings)
    if model != "chain":
        labeler = SegmentLabeler(segment_template=model, **settings)
        labeler.set_params(verbose=1)
    warnings.simplefilter("ignore")
    said, few = io.StringIO(), [each[:50] for each in (train.row_sequences(), train.label_sequences())]
    with contextlib.redirect_stdout(io.StringIO()):
        type(labeler)(**labeler.get_params() | {"max_passes": 1}).fit(*few)  # loads compiled code
    start = time.process_time()
    with contextlib.redirect_stdout(said):
        labeler.fit(train)
    result: dict[str, Any] = {"cpu": time.process_time() - start, "passes": labeler.n_passes_}
    start, n_tokens = time.process_time(), 0
    predict = labeler.predict if model == "chain" else labeler.predict_labels
    for part, file in tests.items():
        test = read(Path(folder) / name / file)
        n_tokens += test.n_tokens
        result[part] = 100 * chunk_scores(test.label_sequences(), predict(test)).f1
    result |= {"predicting": (time.process_time() - start) / n_tokens, "gap": labeler.duality_gap_}
    result |= {"megabytes": peak_megabytes(), "said": said.getvalue().splitlines()[:1]}
    result |= {"weights": int((labeler.coef_ != 0).sum()), "solver_cpu": labeler.history_[-1]["cpu_seconds"]}
    return result


def peer_times(python: str) -> dict[str, Any] | None:
    """What torch-struct takes, in a process of an interpreter that has it; None where it has not."""
    command = [python, __file__, "--task", "torch_struct"]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(child.stdout.strip().splitlines()[-1]) if child.returncode == 0 else None


def inference(options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"ours": in_child(__file__, "ours")}
    rows = [[name, f"{alone:.0f}", f"{together:.1f}"] for name, (alone, together) in found["ours"].items()]
    print(f"CPU microseconds a sentence: {WORDS} words, {LABELS} labels, segments of up to {LONGEST} words\n")
    print(table(rows, ["", "alone", f"list of {N_SENTENCES}"]))
    peer = None if options.skip_peer else peer_times(options.peer)
    if peer is not None:
        ours = found["ours"]["marginals"]
        print(
            f"\ntorch-struct, marginals: {peer['1']:,.0f} alone ({peer['1'] / ours[0]:,.0f} times ours), ",
            end="",
        )
        print(f"{peer['8']:,.0f} in a batch of 8 ({peer['8'] / ours[1]:,.0f} times)")
    return found | {"torch-struct": peer}


def quality(options: Any) -> list[dict[str, Any]]:
    results = []
    for name in options.sets.split(","):
        _, tests, _ = DATA[name]
        rows = []
        for l2 in map(float, options.l2.split(",")):
            for model in options.models.split(","):
                each = in_child(
                    __file__, "f1", folder=options.data, name=name, model=model, l2=l2, tol=float(options.tol)
                )
                results.append({"data": name, "model": model, "l2": l2, **each})
                f1 = [f"{each[part]:.2f}" for part in tests]
                sizes = [f"{each['weights'] / 1e6:.2f}", f"{each['megabytes']:.0f}", *each["said"]]
                cpu = [f"{each['cpu']:.1f}", f"{each['passes']:.0f}", f"{1e6 * each['predicting']:.0f}"]
                rows.append([model, f"{l2:g}", *f1, *cpu, *sizes[:2]])
                print("  ", *sizes[2:], file=sys.stderr)
        header = ["model", "l2", *(f"F1 {part}" for part in tests), "fit CPU s", "passes", "predict µs/word"]
        print(f"\n{name}\n\n{table(rows, [*header, '10^6 weights', 'peak MB'])}")
    return results


def main() -> None:
    more = {"--peer": sys.executable, "--tol": "1e-2", "--models": ",".join(MODELS), "--sets": ",".join(DATA)}
    options = arguments(__doc__ or "", l2="1", more=more)
    if options.task is not None:
        tasks = {"ours": task_ours, "torch_struct": task_torch_struct, "f1": task_f1}
        print(json.dumps(tasks[options.task](**json.loads(options.options))))
        return
    found: dict[str, Any] = {"inference": inference(options)}
    if options.data is not None:
        found["f1"] = quality(options)
    write_json(options.json, found)


if __name__ == "__main__":
    main()
