"""Training on more than fits in memory: time a pass and memory under a hard cap, against all in memory.

CoNLL-2000, so many times over that the encoded data and the dual state are several times as large as the cap, is
encoded by `partwise encode` and trained on twice: with everything in memory, and streamed from disk in a process that
may not allocate more than the cap (RLIMIT_DATA, which also holds while encoding). What the system keeps of the files
in its page cache is not part of that limit, so that it is measured (cachestat) and added: the figure to compare with
the cap is allocated memory plus cached pages of data and state, sampled five times a second. With `--group` the cap is
that of a control group (cgroup, for root), which counts the page cache, too. The shards, and that the dual state is on
disk, follow from the cap, unless --shard-mb says otherwise.

    python benchmarks/out_of_core.py --data conll2000 [--copies 16] [--cap 300] [--shard-mb 25] [--group] [--work DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CACHESTAT = 451  # the number of the system call, since Linux 6.5
PAGE = 4096


class Watch(threading.Thread):
    """Samples what a process and its files hold in memory."""

    def __init__(self, process: subprocess.Popen[bytes], folders: list[Path]):
        super().__init__(daemon=True)
        self.pid, self.folders = process.pid, [str(each.resolve()) for each in folders]
        self.peak = {"anonymous": 0, "cached": 0, "together": 0, "dirty": 0}
        self.is_known = True

    def run(self) -> None:
        with contextlib.suppress(OSError, IndexError):  # until the process has ended
            while True:
                self._sample()
                time.sleep(0.2)

    def _sample(self) -> None:
        text = Path(f"/proc/{self.pid}/status").read_text()
        anonymous = 1024 * int(text.split("RssAnon:")[1].split()[0])
        cached, dirty = self._cached()
        now = {"anonymous": anonymous, "cached": cached, "dirty": dirty, "together": anonymous + cached}
        self.peak = {name: max(value, now[name]) for name, value in self.peak.items()}

    def _cached(self) -> tuple[int, int]:
        """Bytes of the process's open files in these folders that are in the page cache, and not written yet."""
        total, unwritten, seen = 0, 0, set()
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if not os.readlink(link).startswith(tuple(self.folders)):
                    continue
                descriptor = os.open(link, os.O_RDONLY)
                inode = os.fstat(descriptor).st_ino
                if inode not in seen:
                    seen.add(inode)
                    pages, dirty = self._cachestat(descriptor)
                    total, unwritten = total + PAGE * pages, unwritten + PAGE * dirty
                os.close(descriptor)
        return total, unwritten

    def _cachestat(self, descriptor: int) -> tuple[int, int]:
        whole, result = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
        if ctypes.CDLL(None).syscall(CACHESTAT, descriptor, whole, result, 0) != 0:
            self.is_known = False
        return result[0], result[1] + result[2]


class Group:
    """A control group of this benchmark's own, of either version, that children join."""

    def __init__(self, cap: float):
        root = Path("/sys/fs/cgroup")
        is_first = (root / "memory").is_dir()
        self.folder = (root / "memory" if is_first else root) / f"partwise-{os.getpid()}"
        limit = "memory.limit_in_bytes" if is_first else "memory.max"
        self.peak_file = self.folder / ("memory.max_usage_in_bytes" if is_first else "memory.peak")
        self.folder.mkdir()
        (self.folder / limit).write_text(str(int(1e6 * cap)))

    def join(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def close(self) -> float:
        """The peak in megabytes, page cache included."""
        peak = int(self.peak_file.read_text()) / 1e6
        self.folder.rmdir()
        return peak


def limited(cap: float | None, group: Group | None) -> None:
    """In the child: no more private memory than the cap, or no more memory at all."""
    if group is not None:
        group.join()
    elif cap is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (int(1e6 * cap),) * 2)


def command(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, arguments)]


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def run(
    arguments: list[str],
    cap: float | None,
    folders: list[Path],
    feed: bytes = b"",
    copies: int = 0,
    in_group: bool = False,
) -> dict:
    """A child's last line of output, as JSON, with what was measured around it."""
    group = Group(cap) if in_group and cap is not None else None
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: limited(cap, group),
        env=ENVIRONMENT,
    ) as child:
        watch = Watch(child, folders)
        watch.start()
        assert child.stdin is not None and child.stdout is not None
        for _ in range(copies):
            child.stdin.write(feed)
        child.stdin.close()
        output = child.stdout.read()
        child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    of_group = group.close() if group is not None else None
    if child.returncode:
        sys.exit(f"{' '.join(arguments)} ended with {child.returncode}")
    own = json.loads(output.splitlines()[-1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        **own,
        "wall": time.monotonic() - begun,
        "cpu": cpu,
        "peak": watch.peak,
        "is_known": watch.is_known,
        "of_group": of_group,
    }


def train(folder: str, options: argparse.Namespace) -> None:
    """In a child: train, and say how long each pass took."""
    from partwise import SequenceLabeler, open_dataset

    data = open_dataset(folder, shard_mb=options.shard_mb)
    times = []

    def note(progress: object) -> None:
        times.append((progress.passes, progress.record is not None, time.process_time(), time.monotonic()))
        print(f"  pass {progress.passes:.1f}: {progress.seconds:.0f} s", file=sys.stderr, flush=True)

    # With l2 as many times as large, the optimum is that of one copy.
    settings = {"l2": float(options.copies), "tol": options.tol, "max_passes": options.max_passes}
    model = SequenceLabeler(**data.parameters, **settings, callback=note)
    model._warn_unless_converged = lambda: None
    model.fit(data)
    problem = model._training.problem
    state_bytes = sum(
        array.nbytes for array in (model._training.state.dual().theta, model._training.state.dual().mu)
    )
    print(
        json.dumps(
            {
                "times": times, "gap": model.duality_gap_, "passes": model.n_passes_, "objective": model.objective_,
                "data_bytes": data.n_bytes + problem.batch.gold_part.nbytes, "state_bytes": state_bytes,
                "n_shards": problem.held.n_shards, "n_blocks": problem.held.n_blocks,
                "n_positions": int(problem.lengths.sum()), "n_weights": problem.n_weights,
                "read": int(Path("/proc/self/io").read_text().split("read_bytes:")[1].split()[0]),
                "written": int(Path("/proc/self/io").read_text().split("\nwrite_bytes:")[1].split()[0]),
            }
        )
    )  # fmt: skip


def a_pass(found: dict) -> tuple[float, float, float, float]:
    """CPU and wall seconds of a pass without a certificate and of one with, medians; the first two are left out."""
    plain, certified = [], []
    for before, now in zip(found["times"][1:], found["times"][2:], strict=False):
        passes = now[0] - before[0]
        (certified if now[1] else plain).append(
            ((now[2] - before[2]) / passes, (now[3] - before[3]) / passes)
        )

    def median(values: list[tuple[float, float]]) -> tuple[float, float]:
        ordered = [sorted(each[k] for each in values) for k in (0, 1)]
        return tuple(each[len(each) // 2] for each in ordered) if values else (float("nan"),) * 2  # type: ignore[return-value]

    return *median(plain), *median(certified)


def report(name: str, found: dict) -> None:
    cpu, wall, cpu_certified, wall_certified = a_pass(found)
    peak = {key: value / 1e6 for key, value in found["peak"].items()}
    print(
        f"| {name} | {found['n_shards']} | {cpu:.2f} | {wall:.2f} | {cpu_certified:.2f} | {wall_certified:.2f} | "
        f"{peak['anonymous']:.0f} | {peak['together']:.0f} | {found['passes']:.1f} | {found['gap']:.1e} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=".", help="folder with the data set")
    parser.add_argument("--copies", type=int, default=16)
    parser.add_argument("--cap", type=float, default=300, help="megabytes")
    parser.add_argument("--shard-mb", type=float, default=None)
    parser.add_argument("--group", action="store_true", help="the cap is that of a control group")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-passes", type=float, default=200)
    parser.add_argument("--work", default=None, help="a folder on the disk to be measured")
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        return train(options.child, options)
    work = Path(tempfile.mkdtemp(prefix="out_of_core.", dir=options.work))
    try:
        compare(options, work)
    finally:
        shutil.rmtree(work)


def compare(options: argparse.Namespace, work: Path) -> None:
    folder = work / "data"
    with gzip.open(Path(options.data) / "train.txt.gz") as handle:
        text = handle.read().strip() + b"\n\n"
    arguments = command("-m", "partwise.cli", "encode", "sequence", "-", "-o", folder, "--json", "-q")
    encoded = run(arguments, options.cap, [work], text, options.copies, options.group)
    peak = encoded["peak"]["anonymous"] / 1e6
    print(
        f"encoded {encoded['n_positions']:,} positions under a cap of {options.cap:.0f} MB: "
        f"{encoded['cpu']:.0f} s CPU, {encoded['wall']:.0f} s, at most {peak:.0f} MB allocated"
    )
    own = [__file__, "--tol", options.tol, "--max-passes", options.max_passes, "--copies", options.copies]
    shard = [] if options.shard_mb is None else ["--shard-mb", options.shard_mb]
    streamed = run(command(*own, *shard, "--child", folder), options.cap, [folder], in_group=options.group)
    size = (streamed["data_bytes"] + streamed["state_bytes"]) / 1e6
    print(
        f"data {streamed['data_bytes'] / 1e6:.0f} MB, dual state {streamed['state_bytes'] / 1e6:.0f} MB: "
        f"{size / options.cap:.1f} times the cap; {streamed['n_blocks']:,} blocks\n"
    )
    print(
        "| | shards | CPU s a pass | s a pass | CPU s with certificate | s | allocated MB | with page cache MB ",
        end="",
    )
    print("| passes | gap |\n|---|---|---|---|---|---|---|---|---|---|")
    report(f"streamed, cap {options.cap:.0f} MB", streamed)
    memory = run(command(*own, "--shard-mb", 1e9, "--child", folder), None, [folder])
    report("in memory", memory)
    ratios = [one / other for one, other in zip(a_pass(streamed), a_pass(memory), strict=True)]
    print(f"| ratio | | {ratios[0]:.2f} | {ratios[1]:.2f} | {ratios[2]:.2f} | {ratios[3]:.2f} | | | | |")
    print(
        f"\nread {streamed['read'] / 1e9:.1f} GB, written {streamed['written'] / 1e9:.1f} GB while streaming; "
        f"objectives {streamed['objective']:.2f} and {memory['objective']:.2f}"
    )
    if options.group:
        print(
            f"peak of the group: {encoded['of_group']:.0f} MB encoding, {streamed['of_group']:.0f} MB training"
        )
    elif not streamed["is_known"]:
        print("this system does not tell what is in its page cache (cachestat needs Linux 6.5)")
    elif streamed["peak"]["together"] > 1e6 * options.cap:
        print("with page cache the cap was exceeded")


if __name__ == "__main__":
    main()
