"""Build the library of machine code: ``python -m partwise.compiled.build``.

`kernels.txt` lists what it contains. Each kernel is compiled to an object file for each level of processors. Object
files whose sources are unchanged are kept in the build folder, so that building again compiles only what changed. The
system's C compiler links them.

To make the list, run what the library should serve with PARTWISE_KERNEL_LIST=FILE, and sort the file
(``make kernel-list``).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from partwise.compiled import library
from partwise.compiled.background_compile import kernel_of_task
from partwise.compiled.kernels import Kernel

LIST = Path(__file__).parent / "kernels.txt"
BUILD = Path(__file__).parents[3] / "build" / "kernels"


def listed(lines: list[str]) -> Iterator[Kernel]:
    """The kernels that a list names."""
    for line in lines:
        name, _, types = line.partition(" ")
        if types:
            module, function = name.split(":")
            yield getattr(import_module(module), function).kernel(types)
        else:
            yield kernel_of_task(name)


def compile_kernels(work: tuple[list[str], tuple[str, ...], Path]) -> list[str]:
    """Write the missing object files of some kernels. Returns the symbols of all."""
    lines, levels, build = work
    symbols = []
    for kernel in listed(lines):
        symbols.append(kernel.symbol)
        files = [build / level / f"{kernel.symbol}.o" for level in levels]
        if all(file.exists() for file in files):
            continue
        from partwise.compiled.numba_compiler import object_code

        for file, (code, is_complete) in zip(files, object_code(kernel, levels), strict=True):
            if not is_complete:
                raise RuntimeError(f"{kernel} calls what only Numba has, and cannot be in the library")
            unfinished = file.with_suffix(".part")
            unfinished.write_bytes(code)
            unfinished.replace(file)
    return symbols


def build(levels: tuple[str, ...], folder: Path, jobs: int) -> None:
    """Compile all kernels for some levels, and link a library for each into :data:`library.FOLDER`."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    by_module: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        by_module[line.partition(":")[0]].append(line)
    for level in levels:
        (folder / level).mkdir(parents=True, exist_ok=True)
    begin, symbols = time.perf_counter(), []
    # One module after another: its kernels share functions, which a process lowers once.
    work = [(each, levels, folder) for each in sorted(by_module.values(), key=len, reverse=True)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for done in pool.imap_unordered(compile_kernels, work):
            symbols += done
            print(f"{len(symbols)} of {len(lines)} kernels, {time.perf_counter() - begin:.0f} s", flush=True)
    for level in levels:
        for file in (folder / level).iterdir():
            if file.stem not in set(symbols):
                file.unlink()
        link(library.file_of(level), sorted((folder / level).glob("*.o")))


def c_compiler() -> list[str]:
    """The command of the system's C compiler, which links; empty if there is none."""
    if "CC" in os.environ:
        return os.environ["CC"].split()
    return [name for name in ("cc", "gcc", "clang") if shutil.which(name)][:1]


def link(result: Path, sources: list[Path]) -> None:
    """Link object files, or compile C files, to a shared library."""
    result.parent.mkdir(exist_ok=True)
    arguments = result.parent / "arguments.txt"
    arguments.write_text("\n".join(f'"{each.as_posix()}"' for each in sources))
    only_named = [] if sys.platform == "darwin" else ["-Wl,-s", "-Wl,--gc-sections", "-Wl,--no-undefined"]
    libm = [] if sys.platform == "win32" else ["-lm"]
    unfinished = result.with_suffix(".part")
    try:
        subprocess.run(
            [
                *c_compiler(),
                "-shared",
                "-O2",
                "-fPIC",
                "-o",
                str(unfinished),
                f"@{arguments}",
                *only_named,
                *libm,
            ],
            check=True,
        )
    finally:
        arguments.unlink()
    unfinished.replace(result)
    data = result.read_bytes()
    known = library.FOLDER / library.CHECKSUMS
    checksums = json.loads(known.read_text()) if known.exists() else {}
    known.write_text(json.dumps({**checksums, result.name: [len(data), zlib.crc32(data)]}, indent=1))
    print(f"{result.name}: {len(data) / 1e6:.1f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m partwise.compiled.build", description=__doc__)
    parser.add_argument(
        "--all-levels", action="store_true", help="build for all processors, not for this one"
    )
    parser.add_argument("--build", type=Path, default=BUILD, help="the folder of object files (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (%(default)s)")
    chosen = parser.parse_args()
    if not c_compiler():
        print("no C compiler (cc) was found to link the library", file=sys.stderr)
        if chosen.all_levels:
            raise SystemExit(1)
        return  # a source checkout compiles what it needs when it is first used
    if library.architecture() == "x86_64":
        link(library.file_of("level"), [Path(__file__).parent / "processor_level.c"])
    levels = library.levels() if chosen.all_levels else (library.levels()[library.processor_level()],)
    build(levels, chosen.build, chosen.jobs)


if __name__ == "__main__":
    main()
