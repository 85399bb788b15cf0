"""Sums over structures as PyTorch layers, forward and backward, against a loop of PyTorch operations on the same card.

    python benchmarks/torch_layers.py chains [--device cuda]
    python benchmarks/torch_layers.py trees grammars
    python benchmarks/torch_layers.py segments labellings
    python benchmarks/torch_layers.py modules --device cpu

The loop is what CRF layers in plain PyTorch do: a log-sum-exp over (B, L, L) at every position, differentiated by
autograd; `graph` is the same replayed as a CUDA graph, without Python in between. Figures of torch-struct are ones that
were measured once on an H200, and are printed beside.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

import partwise.torch as layers
from partwise.structures import Chain, Grammar, Projective, SemiMarkov, Spanning
from partwise.structures.contract import Structure

TIED = ((256, 128, 64), (256, 512, 16), (1024, 128, 32), (64, 128, 128))
OWN = ((256, 128, 32), (256, 128, 64), (64, 128, 128))
WIDE = ((256, 128, 200), (64, 64, 500))
SEGMENTS = ((256, 64, 8, 9), (64, 128, 16, 20), (16, 128, 8, 100))
TREES = ((256, 20), (256, 40), (64, 80))
GRAMMARS = ((64, 20), (16, 40))
MODULES = ((32, 50, 9), (64, 128, 20), (128, 128, 32), (32, 50, 100))
NONTERMINALS = PRETERMINALS = 30
# torch-struct on an H200 with torch 2.11, forward and backward, milliseconds.
PUBLISHED = {
    "Projective": {(256, 20): 119.0, (256, 40): 154.0, (64, 80): 205.0},
    "Spanning": {(256, 20): 1.55, (256, 40): 1.86, (64, 80): 2.6},
    "Grammar": {(64, 20): 45.0, (16, 40): 76.0},
}


def milliseconds(work: Callable[[], object], device: str, repeats: int = 20) -> float:
    """Median time of a call, the device's own clock where it has one."""
    work()
    times = []
    for _ in range(repeats):
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        else:
            begin = time.perf_counter()
            work()
            times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def loop_log_partition(node: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
    """As layers in plain PyTorch do it: one position after another."""
    alpha = node[:, 0]
    for t in range(1, node.shape[1]):
        alpha = torch.logsumexp(alpha[:, :, None] + edge + node[:, t, None, :], dim=1)
    return torch.logsumexp(alpha, dim=1)


def gradient_of(function: Callable[..., torch.Tensor], *scores: torch.Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(function(*scores).sum(), scores)


def graphed(work: Callable[[], object]) -> Callable[[], object]:
    """The same launches, recorded once and replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def copy_milliseconds(size: int, device: str) -> float:
    """Reading and writing so many float32 once."""
    source = torch.randn(size, device=device)
    target = torch.empty_like(source)
    return milliseconds(lambda: target.copy_(source), device)


def loop_segments(segment: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
    """Log-sums over segmentations, one end after another."""
    longest, into, ends = segment.shape[2], [torch.zeros_like(segment[:, 0, 0])], []
    for e in range(segment.shape[1]):
        lasting = [segment[:, e - d, d] + into[e - d] for d in range(min(longest, e + 1))]
        ends.append(torch.logsumexp(torch.stack(lasting), dim=0))
        into.append(torch.logsumexp(ends[-1][:, :, None] + edge, dim=1))
    return torch.logsumexp(ends[-1], dim=1)


def beside_loop(
    name: str, structure: Structure, loop: Callable[..., torch.Tensor], *scores: torch.Tensor
) -> None:
    """Our time and that of the loop, both as they are and as graphs."""
    device = scores[0].device.type
    ours, theirs = gradient_of(partial(layers.log_partition, structure), *scores), gradient_of(loop, *scores)
    own, slow = milliseconds(ours, device), milliseconds(theirs, device, 5)
    line = f"{name}: ours {own:.3f}"
    if device == "cuda":
        captured, replay = milliseconds(graphed(ours), device), milliseconds(graphed(theirs), device)
        line += f" (graph {captured:.3f}), loop {slow:.1f} ({slow / own:.0f}×), its graph {replay:.2f}"
        line += f" ({replay / own:.0f}×; graph against graph {replay / captured:.0f}×)"
    else:
        line += f", loop {slow:.1f} ({slow / own:.0f}×)"
    print(line, flush=True)


def scores_of(*shape: int, device: str) -> torch.Tensor:
    return torch.randn(*shape, device=device, requires_grad=True)


def chains(device: str) -> None:
    print("tied chains, forward + backward, ms")
    for n, length, width in (*TIED, *WIDE):
        scores = scores_of(n, length, width, device=device), scores_of(width, width, device=device)
        beside_loop(f"B{n} T{length} L{width}", Chain(width), loop_log_partition, *scores)
    print("chains with transitions of their own, forward + backward, ms")
    for n, length, width in OWN:
        node = torch.randn(n, length, width, device=device, requires_grad=True)
        edge = torch.randn(n, length - 1, width, width, device=device, requires_grad=True)
        ours = gradient_of(partial(layers.log_partition, Chain(width)), node, edge)
        own = milliseconds(ours, device)
        line = f"B{n} T{length} L{width}: ours {own:.3f}"
        copy = copy_milliseconds(edge.numel(), device)
        line += f", reading and writing the scores once {copy:.3f} ({own / copy:.2f}×)"
        if device == "cuda":
            captured = milliseconds(graphed(ours), device)
            line += f", as a graph {captured:.3f} ({captured / copy:.2f}×)"
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            ours()
            peak = torch.cuda.max_memory_allocated() - before + edge.numel() * 4
            line += f", memory {peak / edge.numel() / 4:.2f}× the input"
        print(line, flush=True)


def segments(device: str) -> None:
    print("segments, shared transitions, forward + backward, ms")
    for n, length, longest, width in SEGMENTS:
        scores = (
            scores_of(n, length, longest, width, device=device),
            scores_of(width, width, device=device),
        )
        name = f"B{n} T{length} D{longest} L{width}"
        beside_loop(name, SemiMarkov(width, longest), loop_segments, *scores)


def from_host(function: Callable[..., object], structure: Structure, scores: list[torch.Tensor]) -> object:
    return function(structure, *(each.cpu() for each in scores))


def labellings(device: str) -> None:
    """Best and random labellings where the scores lie, and by compiled code on the CPU with copies both ways."""
    print("labellings, ms")
    cases = [
        (f"chain B{n} T{length} L{width}", Chain(width), (n, length, width), (width, width))
        for n, length, width in (TIED[0], WIDE[0])
    ]
    n, length, longest, width = SEGMENTS[0]
    shapes = (n, length, longest, width), (width, width)
    cases.append((f"segments B{n} T{length} D{longest} L{width}", SemiMarkov(width, longest), *shapes))
    cases += [
        (f"{structure!r} B{n} n{words}", structure, (n, words + 1, words + 1))
        for structure in (Projective(), Spanning())
        for n, words in TREES[:2]
    ]
    for name, structure, *shapes in cases:
        there = [torch.randn(*shape, device=device) for shape in shapes]
        line = f"{name}:"
        for what, function in (
            ("argmax", layers.argmax),
            ("sample", layers.sample),
            ("5 best", partial(layers.kbest, k=5)),
        ):
            ours = milliseconds(partial(function, structure, *there), device, 3)
            host = milliseconds(partial(from_host, function, structure, there), device, 3)
            line += f" {what} {ours:.2f} (CPU {host:.1f})"
        print(line, flush=True)


def trees(device: str) -> None:
    print("trees, forward + backward, ms")
    for structure in (Projective(), Spanning()):
        for n, words in TREES:
            arcs = torch.randn(n, words + 1, words + 1, device=device, requires_grad=True)
            ours = gradient_of(lambda a, s=structure: layers.log_partition(s, a), arcs)
            print_beside(structure, f"{structure!r} B{n} n{words}", (n, words), ours, device)


def print_beside(
    structure: Structure, name: str, size: tuple[int, int], ours: Callable[[], object], device: str
) -> None:
    """Our time, that of the same as a graph, and torch-struct's."""
    own, published = milliseconds(ours, device), PUBLISHED[type(structure).__name__][size]
    line = f"{name}: ours {own:.3f}, torch-struct {published} ({published / own:.1f}×)"
    if device == "cuda":
        captured = milliseconds(graphed(ours), device)
        line += f", as a graph {captured:.3f} ({published / captured:.1f}×)"
    print(line, flush=True)


def grammars(device: str) -> None:
    """Every rule with a nonterminal above any two symbols, each sentence with scores of its own for them."""
    N = NONTERMINALS + PRETERMINALS
    rules = np.stack(np.meshgrid(np.arange(NONTERMINALS), np.arange(N), np.arange(N), indexing="ij"), -1)
    structure = Grammar(N, rules.reshape(-1, 3), word_symbols=np.arange(NONTERMINALS, N))
    print("dense grammars, forward + backward, ms")
    for n, words in GRAMMARS:
        word = torch.randn(n, words, N, device=device, requires_grad=True)
        for shape, whose in (((n, structure.n_rules), "own rules"), ((structure.n_rules,), "shared rules")):
            rule = torch.randn(*shape, device=device, requires_grad=True)
            ours = gradient_of(lambda a, b: layers.log_partition(structure, a, b), word, rule)
            print_beside(structure, f"B{n} n{words}, {whose}", (n, words), ours, device)


def modules(device: str) -> None:
    """`CRF` beside pytorch-crf and beside the functions that it calls, on ragged batches, in alternation.

    On the CPU times are of the processor, with one thread.
    """
    import torchcrf

    if device == "cpu":
        torch.set_num_threads(1)
    print("B T L: ms forward + backward of CRF, of its functions (ratio), of pytorch-crf (ratio); decode")
    for n, length, width in MODULES:
        ours, theirs = (kind(width, batch_first=True).to(device) for kind in (layers.CRF, torchcrf.CRF))
        theirs.load_state_dict(ours.state_dict())
        emissions = scores_of(n, length, width, device=device)
        tags = torch.randint(width, (n, length), device=device)
        lengths = torch.randint(length // 2, length + 1, (n,), device=device)
        mask = torch.arange(length, device=device) < lengths[:, None]
        own = [ours.transitions, ours.start_transitions, ours.end_transitions]
        criterion = layers.StructuredLoss(Chain(width), reduction="sum", ignore_index=None)

        def loss_of(crf: torch.nn.Module, given: tuple = (emissions, tags, mask)) -> Callable[[], object]:
            inputs = [given[0], *crf.parameters()]
            return lambda: torch.autograd.grad(-crf(*given), inputs)

        def functions(
            given: tuple = (emissions, *own),
            criterion: torch.nn.Module = criterion,
            rest: tuple = (tags, lengths),
        ) -> object:
            return torch.autograd.grad(criterion(*given, target=rest[0], lengths=rest[1]), given)

        spent = alternating(device, loss_of(ours), functions, loss_of(theirs))
        decoded = alternating(
            device, *[partial(crf.decode, emissions.detach(), mask) for crf in (ours, theirs)], repeats=3
        )
        print(
            f"B{n} T{length} L{width}: {spent[0]:.2f}, {spent[1]:.2f} ({spent[0] / spent[1]:.2f}), "
            f"{spent[2]:.1f} ({spent[2] / spent[0]:.1f}×); decode {decoded[0]:.2f}, {decoded[1]:.0f} "
            f"({decoded[1] / decoded[0]:.0f}×)",
            flush=True,
        )


def alternating(device: str, *works: Callable[[], object], repeats: int = 15) -> list[float]:
    """Median milliseconds of each work; processor time on the CPU."""
    times: list[list[float]] = [[] for _ in works]
    pairs = list(zip(times, works, strict=True))
    for repeat in range(repeats + 2):
        pairs = pairs[1:] + pairs[:1]  # what runs after a large allocation is slower, so each has its turn
        for own, work in pairs:
            begin = time.process_time() if device == "cpu" else time.perf_counter()
            work()
            if device != "cpu":
                torch.cuda.synchronize()
            end = time.process_time() if device == "cpu" else time.perf_counter()
            if repeat > 1:
                own.append(1e3 * (end - begin))
    return [statistics.median(own) for own in times]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = {each.__name__: each for each in (chains, segments, trees, grammars, labellings, modules)}
    parser.add_argument("what", choices=tuple(kinds), nargs="+")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    for what in arguments.what:
        kinds[what](arguments.device)


if __name__ == "__main__":
    main()
