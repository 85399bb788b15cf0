"""The library of machine code: built, used without a compiler, and left alone when it is damaged or does not fit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from partwise.compiled import build, library

BUILD = """
import sys
from pathlib import Path
from partwise.compiled import build, library
folder = Path(sys.argv[1])
library.FOLDER, build.LIST = folder / "lib", folder / "list.txt"
build.link(library.file_of("level"), [Path(build.__file__).parent / "processor_level.c"])
level = library.levels()[0]
build.build((level,), folder / "objects", 1)
"""

USE = """
import sys
from pathlib import Path
from partwise.compiled import library
library.FOLDER = Path(sys.argv[1]) / "lib"
if sys.argv[2] == "without":
    sys.modules["numba"] = sys.modules["llvmlite"] = None
import numpy as np
from partwise.compiled.clock import kernels_compiled
from partwise.structures import Multiclass
print(round(Multiclass(3).log_partition(np.zeros(3)), 6), kernels_compiled(), sys.modules.get("numba") is not None)
"""
KERNELS = [
    "partwise.structures.multiclass.softmax:MULTICLASS:sums",
    next(line for line in build.LIST.read_text().splitlines() if ":answer_all " in line),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not build.c_compiler():
        pytest.skip("no C compiler to link with")
    folder = tmp_path_factory.mktemp("library")
    (folder / "list.txt").write_text("\n".join(KERNELS) + "\n")
    _run(BUILD, folder)
    return folder


def _run(script: str, *arguments: object, within: tuple[str, ...] = (), **variables: str) -> tuple[str, str]:
    """Output and errors of a process; `within` is a command that runs the process."""
    environment = {**os.environ, "PARTWISE_CACHE_DIR": str(arguments[0]) + "/cache", **variables}
    program = "if __name__ == '__main__':\n" + _indented(script)
    command = [*within, sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def _indented(script: str) -> str:
    return "\n".join("    " + line for line in script.splitlines())


def test_a_process_needs_no_compiler(built: Path) -> None:
    assert _run(USE, built, "without") == ("1.098612 0 False\n", "")


def test_building_again_compiles_only_what_is_missing(built: Path) -> None:
    objects = sorted((built / "objects").rglob("*.o"))
    assert len(objects) == len(KERNELS)
    before = [each.stat().st_mtime_ns for each in objects]
    gone = objects.pop()
    gone.unlink()
    (gone.parent / "of_a_former_source.o").write_bytes(b"")
    _run(BUILD, built)
    assert [each.stat().st_mtime_ns for each in objects] == before[:-1]
    assert sorted((built / "objects").rglob("*.o")) == [*objects, gone]


@pytest.mark.parametrize("damage", ["cut short", "a byte changed", "no library", "unknown checksum"])
def test_a_damaged_library_is_not_used(built: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    for each in (built / "lib").iterdir():
        (folder / each.name).write_bytes(each.read_bytes())
    level = library.levels()[0]
    file = folder / library.file_of(level).name
    code = file.read_bytes()
    if damage == "cut short":
        file.write_bytes(code[: len(code) // 2])
    elif damage == "a byte changed":
        file.write_bytes(code[:5000] + bytes([code[5000] ^ 1]) + code[5001:])
    elif damage == "no library":
        file.write_bytes(b"text")
    else:
        (folder / library.CHECKSUMS).write_text("{}")
    out, err = _run(USE, tmp_path, "with")
    assert out.startswith("1.098612 2 True")
    assert err.count("\n") == 1 and "the file is damaged; install partwise again" in err


def test_the_level_of_this_processor_is_one_of_its_architecture() -> None:
    assert 0 <= library.processor_level() < len(library.levels())


def test_a_processor_that_cannot_be_told_takes_the_code_for_all(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built / "lib", tmp_path / "lib")
    (tmp_path / "lib" / library.file_of("level").name).unlink()
    assert _run(USE, tmp_path, "without") == ("1.098612 0 False\n", "")


def test_other_architectures_have_a_library_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert library.levels() == ("generic",) and library.processor_level() == 0
    assert "riscv64-generic" in library.file_of("generic").name


FOREIGN = 'import platform\nplatform.machine = lambda: "riscv64"\n' + USE


def test_on_a_foreign_architecture_the_compiler_takes_the_place_of_the_library(
    built: Path, tmp_path: Path
) -> None:
    """The files of this architecture are there, as in an archive that was unpacked on the wrong machine."""
    shutil.copytree(built / "lib", tmp_path / "lib")
    assert _run(FOREIGN, tmp_path, "with") == ("1.098612 2 True\n", "")
    hopeless = "try:\n" + _indented(FOREIGN) + "\nexcept ImportError as error:\n    print(error)\n"
    (tmp_path / "new").mkdir()
    out, err = _run(hopeless, tmp_path / "new", "without")
    assert out.count("\n") == 1 and "pip install 'partwise[jit]'" in out and not err


# All file systems of the process are read-only.
READ_ONLY = """
mount --make-rprivate / || exit 77
for place in / /tmp /dev/shm; do
    mountpoint -q $place && { mount -o remount,bind,ro $place || exit 77; }
done
exec "$@"
"""
NO_LIST = {"PARTWISE_KERNEL_LIST": ""}  # it would be written to
IN_READ_ONLY = ("unshare", "--mount", "sh", "-c", READ_ONLY, "sh")


@pytest.fixture
def read_only(tmp_path: Path) -> tuple[str, ...]:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    try_it = [*IN_READ_ONLY, "touch", str(tmp_path / "new")]
    done = subprocess.run(try_it, capture_output=True, text=True, check=False)
    if "Read-only" not in done.stderr:
        pytest.skip(f"file systems cannot be made read-only here: {done.stderr.strip()}")
    return IN_READ_ONLY


def test_on_a_read_only_file_system_the_library_needs_nothing_else(
    built: Path, read_only: tuple[str, ...]
) -> None:
    assert _run(USE, built, "without", within=read_only, **NO_LIST) == ("1.098612 0 False\n", "")


def test_on_a_read_only_file_system_the_compiler_says_that_code_is_not_kept(
    tmp_path: Path, read_only: tuple[str, ...]
) -> None:
    out, err = _run(USE, tmp_path, "with", within=read_only, PARTWISE_NO_LIBRARY="1", **NO_LIST)
    assert out == "1.098612 2 True\n"
    assert err.count("\n") == 1 and "cannot hold compiled code; set PARTWISE_CACHE_DIR" in err


def test_two_versions_beside_each_other(built: Path, tmp_path: Path) -> None:
    """They share the folder of compiled code and the library. Each takes from both what fits its own sources."""
    package = Path(library.__file__).parents[1]
    shutil.copytree(
        package, tmp_path / "old" / "partwise", ignore=shutil.ignore_patterns("lib", "__pycache__")
    )
    source = tmp_path / "old" / "partwise" / "structures" / "multiclass" / "softmax.py"
    text, wrong = source.read_text(), "return shift + math.log(total)"
    assert wrong in text
    source.write_text(text.replace(wrong, wrong + " + 1.0"))
    old = {"PYTHONPATH": str(tmp_path / "old")}
    assert _run(USE, built, "with", **old) == ("2.098612 1 True\n", "")
    assert _run(USE, built, "without") == ("1.098612 0 False\n", "")
    out, err = _run(USE, built, "with", **old)
    assert out.startswith("2.098612 0") and not err
