"""Training with structured losses and certified last layers, on a GPU where there is one.

    python benchmarks/torch_training.py heads                 # last layers on random activations, device and CPU
    python benchmarks/torch_training.py margins               # last layers with β = ∞: passes of each solver
    python benchmarks/torch_training.py tagger parser         # the examples, larger than on a CPU
    python benchmarks/torch_training.py tagger --train train.txt.gz --test test.txt

`heads` times an evaluation of P, its gradient and D, and the way to a relative gap of 1e-3, by the same solver on the
same activations. `margins` says for the hinge loss what "auto" takes on the CPU and what solvers take that could run
on a device, with the time of an evaluation on either. `tagger` and `parser` are examples/neural_tagger.py and
examples/biaffine_parser.py, whose data they make themselves unless files are given.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import partwise.torch as layers
from partwise.core.losses import Loss
from partwise.solvers import LBFGS, solve, solver_for
from partwise.structures import Chain, Multiclass, Projective, Spanning
from partwise.torch.activations import gather
from partwise.torch.device_problem import DeviceProblem
from partwise.torch.rows import Feed

TOL = 1e-3


def random_head(
    structure: Any, n: int, length: int, width: int, device: str, loss: str = "log"
) -> tuple[Any, Feed]:
    """Activations of a teacher whose labels are drawn from its own distribution, as a problem on the host."""
    random = torch.Generator(device).manual_seed(0)
    feed, batches = Feed(structure), []
    tables = [
        torch.randn(width, each.n_entries, generator=random, device=device) * (0.7 / width**0.5)
        for each in feed.fed
    ]
    for _ in range(max(1, n // 500)):
        size = min(n, 500)
        lengths = torch.randint(max(1, length // 2), length + 1, (size,), generator=random, device=device)
        activations, scores = [], []
        own = iter(tables)
        for each, shape in zip(feed.tensors, feed.sizes(size, length), strict=True):
            if each.tied:
                scores.append(torch.zeros(each.tail, device=device))
                continue
            place = (*shape[: len(shape) - len(each.tail)], width)
            activations.append(torch.randn(place, generator=random, device=device))
            scores.append((activations[-1] @ next(own)).reshape(shape))
        taken = None if isinstance(structure, Multiclass) else lengths
        # Best labellings of noisy scores are draws, roughly, and cheap on a device.
        noisy = [s - torch.rand(s.shape, generator=random, device=device).log().neg().log() for s in scores]
        target = layers.argmax(structure, *noisy, lengths=taken)
        batches.append((tuple(activations), target, taken))
    found = gather(_PassThrough(), batches, feed, True, lambda text: None)
    return found.problem(feed, Loss.of(loss), 1.0, "hamming", torch.get_num_threads()), feed


class _PassThrough(torch.nn.Module):
    def forward(self, *activations: Any) -> Any:
        return activations


def timed_evaluation(problem: Any, repeats: int = 5) -> float:
    """Milliseconds of one evaluation; the first is not counted."""
    weights = np.zeros(problem.n_weights)
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        problem.at_weights(weights, 1.0)
        times.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(times[1:]))


HEADS = (
    ("chain, 32 labels", Chain(32), 8000, 30, 512),
    ("projective trees", Projective(), 1000, 24, 128),
    ("spanning trees, 40 relations", Spanning(n_relations=40), 500, 24, 128),
    ("1,000 classes", Multiclass(1000), 20000, 1, 512),
)


def heads(arguments: argparse.Namespace) -> None:
    print(
        f"last layers to a relative gap of {TOL:g}, device {arguments.device}, {torch.get_num_threads()} threads"
    )
    print(
        "structure                         rows × features  evaluation, ms      seconds to the gap   passes"
    )
    print("                                                   device      CPU      device      CPU")
    for name, structure, n, length, width in HEADS:
        n = max(1, int(n * arguments.scale))
        host, feed = random_head(structure, n, length, width, arguments.device)
        on_device = DeviceProblem.of(host, feed, torch.device(arguments.device))
        rows = host.scorer.kinds[0].dense.shape
        each, seconds, passes = [], [], []
        for problem in (on_device, host):
            each.append(timed_evaluation(problem, 3))
            solution = solve(problem, LBFGS(), tol=TOL, max_passes=300)
            seconds.append(solution.history[-1].seconds)  # without compiling
            passes.append(solution.passes)
            if not solution.converged:
                print(f"  {solution.why}")
        print(
            f"{name:<32} {rows[0]:>9,} × {rows[1]:<5} {each[0]:>9.1f} {each[1]:>9.1f}  {seconds[0]:>9.2f}"
            f" {seconds[1]:>9.2f}  {passes[0]:.0f}, {passes[1]:.0f}",
            flush=True,
        )


MARGINS = (
    ("chain, 9 labels", Chain(9), 300, 20, 32),
    ("chain, 5 labels", Chain(5), 300, 20, 128),
    ("10 classes", Multiclass(10), 3000, 1, 64),
    ("projective trees", Projective(), 100, 12, 32),
)


def margins(arguments: argparse.Namespace) -> None:
    print(
        f"hinge loss to a relative gap of {TOL:g}, at most 1,000 passes; seconds of CPU time, all on the CPU"
    )
    for name, structure, n, length, width in MARGINS:
        n = max(1, int(n * arguments.scale))
        host, feed = random_head(structure, n, length, width, arguments.device, "hinge")
        on_device = DeviceProblem.of(host, feed, torch.device(arguments.device))
        each = timed_evaluation(on_device, 3), timed_evaluation(host, 3)
        print(f"{name}, a pass {each[0]:.1f} ms on {arguments.device}, {each[1]:.1f} on the CPU")
        for l2 in (1.0, 10.0, 100.0):
            told = []
            for solver in ("auto", "bmrm", "extragradient"):
                problem = host.with_l2(l2)
                chosen, begin = solver_for(problem, solver, TOL), time.process_time()
                found = solve(problem, chosen, tol=TOL, max_passes=1000)
                reached = "" if found.converged else f" (gap {found.certificate.relative_gap:.1e})"
                told.append(
                    f"{chosen.name} {found.passes:.0f} passes {time.process_time() - begin:.2f} s{reached}"
                )
            print(f"  l2 {l2:g}: {', '.join(told)}", flush=True)


def example(name: str, arguments: argparse.Namespace) -> None:
    """One of the examples in its own words."""
    import biaffine_parser
    import neural_tagger

    options = ["--device", arguments.device]
    if arguments.train is not None:
        options += ["--train", str(arguments.train), "--test", str(arguments.test)]
    on_gpu = arguments.device.startswith("cuda")
    if name == "tagger":
        options += ["--width", "192", "--batch", "64", "--epochs", "8" if on_gpu else "3"]
        sentences, main = (2000 if on_gpu else 300), neural_tagger.main
    else:
        options += ["--width", "96", "--batch", "64", "--epochs", "8" if on_gpu else "3"]
        sentences, main = (400 if on_gpu else 100), biaffine_parser.main
    if arguments.train is None or not on_gpu:
        options += ["--sentences", str(max(1, int(sentences * arguments.scale)))]
    print(f"{name}: {' '.join(options)}", flush=True)
    sys.argv = [name, *options]
    main()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("heads", "margins", "tagger", "parser"), nargs="+")
    parser.add_argument("--train", type=Path)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of examples")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    for what in arguments.what:
        if what in ("heads", "margins"):
            {"heads": heads, "margins": margins}[what](arguments)
        else:
            example(what, arguments)


if __name__ == "__main__":
    main()
