"""The whole way from a text file to a model and back, against python-crfsuite doing the same.

    python benchmarks/command_line.py --data DIR/conll2000 [--l2 2] [--json out.json]

Training: reading, features, training until the objective is within 1e-3 of the optimum, saving; wall and CPU
time of whole processes. partwise stops when its certificate says so; python-crfsuite is stopped as soon as
its objective is that good, which it could not know by itself. Prediction: raw text in, labels out.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ONE_THREAD, arguments, in_child, need_data, table, write_json
from sequence import read


def plain_features(words: list[str], tags: list[str]) -> list[list[str]]:
    """The chunking template written out, as a user of python-crfsuite would."""
    length, rows = len(words), []
    for t in range(length):
        row = []
        for o in range(-2, 3):
            if 0 <= t + o < length:
                row += [f"word[{o}]={words[t + o]}", f"pos[{o}]={tags[t + o]}"]
        for o in (-1, 0):
            if t + o >= 0 and t + o + 1 < length:
                row.append(f"word[{o}]|word[{o + 1}]={words[t + o]}|{words[t + o + 1]}")
        for o in (-2, -1, 0, 1):
            if t + o >= 0 and t + o + 1 < length:
                row.append(f"pos[{o}]|pos[{o + 1}]={tags[t + o]}|{tags[t + o + 1]}")
        for o in (-2, -1, 0):
            if t + o >= 0 and t + o + 2 < length:
                row.append(f"pos[{o}]|pos[{o + 1}]|pos[{o + 2}]=" + "|".join(tags[t + o : t + o + 3]))
        row += ["begin"] * (t == 0) + ["end"] * (t == length - 1)
        rows.append(row)
    return rows


def task_crfsuite(folder: str, l2: float, target: float, model: str) -> dict[str, float]:
    """Wall and CPU seconds since this process began until the objective is good enough."""
    import pycrfsuite

    data = read(Path(folder), "train")
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    words, tags = data.column_sequences(0), data.column_sequences(1)
    for w, p, y in zip(words, tags, data.label_sequences(), strict=True):
        trainer.append(plain_features(w, p), y)
    trainer.set_params({"c2": l2 / 2, "feature.possible_transitions": True, "max_iterations": 300})
    passes = 0
    result: dict[str, float] = {}

    def message(text: str) -> None:
        nonlocal passes
        for line in text.splitlines():
            if line.startswith("Loss:"):
                passes += 1
                if float(line.split(":")[1]) <= target and not result:
                    result.update(wall=time.time() - _STARTED, cpu=time.process_time(), passes=passes)

    trainer.message = message
    trainer.train(model)
    return result


def task_tag_with_crfsuite(folder: str, model: str) -> dict[str, float]:
    import pycrfsuite

    start = time.process_time()
    data = read(Path(folder), "test")
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    for w, p in zip(data.column_sequences(0), data.column_sequences(1), strict=True):
        tagger.tag(plain_features(w, p))
    seconds = time.process_time() - start
    return {"cpu": seconds, "tokens_per_second": data.n_tokens / seconds}


def run_partwise(*words: str, stdin: Path | None = None) -> dict[str, float]:
    """A partwise command in a process of its own."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    source = stdin.open("rb") if stdin else subprocess.DEVNULL
    command = [sys.executable, "-m", "partwise.cli", *words]
    subprocess.run(
        command, stdin=source, stdout=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD}, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall": time.perf_counter() - start,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def main() -> None:
    options = arguments(__doc__, l2="2")
    if options.task:
        print(json.dumps(globals()[f"task_{options.task}"](**json.loads(options.options))))
        return
    folder, l2 = need_data(options.data, "conll2000"), float(options.l2)
    with tempfile.TemporaryDirectory() as scratch:
        ours, theirs = Path(scratch) / "ours", Path(scratch) / "theirs"
        training = ["train", "sequence", str(folder / "train.txt.gz"), "--model", str(ours), "--template"]
        training += ["chunking", "--l2", f"{l2:g}", "--tol", "1e-3", "--quiet"]
        test = folder / "test.txt"
        run_partwise(*training)  # compiles, and caches what it compiled
        train = run_partwise(*training)
        from partwise import load

        target = 1.001 * load(ours).dual_objective_
        peer = in_child(__file__, "crfsuite", folder=str(folder), l2=l2, target=target, model=str(theirs))
        once = run_partwise("predict", str(ours), str(test))
        ten = Path(scratch) / "ten.txt"
        ten.write_bytes((test.read_bytes().rstrip(b"\n") + b"\n\n") * 10)
        ten_times = run_partwise("predict", str(ours), str(ten))
        n_tokens = read(folder, "test").n_tokens
        speed = 9 * n_tokens / (ten_times["cpu"] - once["cpu"])
        tagging = in_child(__file__, "tag_with_crfsuite", folder=str(folder), model=str(theirs))
        sizes = [path.stat().st_size / 1e6 for path in (ours, theirs)]
    result = {"partwise": train, "crfsuite": peer, "predict": speed, "tag": tagging, "megabytes": sizes}
    columns = [
        [train["wall"], peer["wall"], peer["wall"] / train["wall"]],
        [train["cpu"], peer["cpu"], peer["cpu"] / train["cpu"]],
        [speed, tagging["tokens_per_second"], speed / tagging["tokens_per_second"]],
        [sizes[0], sizes[1], sizes[1] / sizes[0]],
    ]
    names = ["partwise", "python-crfsuite", "ratio"]
    rows = [[name, *(f"{column[i]:,.1f}" for column in columns)] for i, name in enumerate(names)]
    print(table(rows, ["text to model", "wall s", "CPU s", "text to labels, tokens / CPU s", "file MB"]))
    print(f"one predict of {n_tokens} tokens, start-up included: {once['cpu']:.2f} CPU s")
    write_json(options.json, result)


_STARTED = time.time()
if __name__ == "__main__":
    sys.exit(main())
