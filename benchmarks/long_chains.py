"""One long sequence: chains on one thread, on two, and parallel in time on a device.

python benchmarks/long_chains.py threads        CPU and wall time of one pass and of two halves, on 1 and 2 threads
python benchmarks/long_chains.py device         operations and memory of the device's way; times if there is a card
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from unittest import mock

import numpy as np

import partwise.structures.chain.halves as halves
from partwise.structures import Chain

SIZES = ((1, 100_000, 24), (1, 500_000, 15), (4, 100_000, 24))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)


def threads(repeats: int) -> None:
    """The least wall and CPU time of some repeats that take turns."""
    print(f"{'':30s}{'one pass':>20s}{'halves, 1 thread':>20s}{'halves, 2 threads':>20s}   wall / CPU, ms")
    ways = ((2**62, 1), (0, 1), (0, 2))
    for _, length, n_labels in SIZES[:2]:
        rng, chain = np.random.default_rng(0), Chain(n_labels)
        scores = rng.normal(size=(length, n_labels)), rng.normal(size=(n_labels, n_labels))
        packed = chain._pack(chain._read(*scores, None, None))
        for which, wants in (("sums", 1), ("sums", 0), ("best", 1)):
            found: list[list[tuple[float, float]]] = [[], [], []]
            for _ in range(repeats):
                for own, (fewest, n) in zip(found, ways, strict=True):
                    with mock.patch.object(halves, "FEWEST_PAIRS", fewest):
                        own.append(timed(partial(packed.answers, which, wants, n)))
            name = f"T{length:,} L{n_labels} " + (
                "best" if which == "best" else "marginals" if wants else "log Z"
            )
            least = [(min(a for a, _ in own[1:]), min(b for _, b in own[1:])) for own in found]
            print(f"{name:30s}" + "".join(f"{a:12.1f} /{b:6.1f}" for a, b in least), flush=True)


def device() -> None:
    """Operations and the most memory, counted on any device; times on a card."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from partwise.torch.gpu import long_chain
    from partwise.torch.layouts.chains import ChainLayout

    class Counting(TorchDispatchMode):
        n = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore
            result = function(*args, **(kwargs or {}))
            is_view = any(
                isinstance(result, torch.Tensor) and a is not result and _shares(a, result) for a in args[:1]
            )
            self.n += not is_view or function._schema.name.endswith("_")
            return result

    def _shares(one: object, other: torch.Tensor) -> bool:
        return (
            isinstance(one, torch.Tensor)
            and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
        )

    where = "cuda" if torch.cuda.is_available() else "cpu"
    for n, length, n_labels in SIZES:
        node = torch.randn(n, length, n_labels, device=where)
        edge = torch.randn(n_labels, n_labels, device=where)
        batch = ChainLayout(Chain(n_labels)).batch((node, edge), None, False)

        def both(batch=batch, node=node):  # type: ignore
            sums = long_chain.LongChainSums(batch, batch.scores)
            value = sums.forward()
            assert not sums.lost_digits(value)
            return sums.backward(value, torch.ones_like(value), True)

        for name, work in (
            ("forward + backward", both),
            ("best", lambda batch=batch: long_chain.best_labels(batch)),
        ):
            with Counting() as counted:
                work()
            text = f"B{n} T{length:,} L{n_labels} {name}: {counted.n} operations"
            if where == "cuda":
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                work()
                most = (torch.cuda.max_memory_allocated() - before) / node.nbytes
                least = min(_on_card(work) for _ in range(20))
                text += f", {least:.2f} ms, memory {most:.1f} times the scores"
            else:
                text += f", memory {_most_memory(work) / node.nbytes:.1f} times the scores, not timed"
            print(text, flush=True)


def _on_card(work: Callable[[], object]) -> float:
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def _most_memory(work: Callable[[], object]) -> int:
    """The most bytes of tensors that lived at once, from PyTorch's profiler."""
    from torch.profiler import profile

    with profile(profile_memory=True) as found:
        work()
    now = most = 0
    for event in sorted(found.profiler.kineto_results.events(), key=lambda each: each.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("threads", "device"))
    parser.add_argument("--repeats", type=int, default=9)
    asked = parser.parse_args()
    threads(asked.repeats) if asked.part == "threads" else device()
