"""The library of machine code: built, used without a compiler, and left alone when it is damaged or does not fit."""

from __future__ import annotations

import os
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


def _run(script: str, *arguments: object) -> tuple[str, str]:
    environment = {**os.environ, "PARTWISE_CACHE_DIR": str(arguments[0]) + "/cache"}
    command = [sys.executable, "-c", "if __name__ == '__main__':\n" + _indented(script), *map(str, arguments)]
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


def test_other_architectures_have_a_library_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert library.levels() == ("generic",) and library.processor_level() == 0
    assert "riscv64-generic" in library.file_of("generic").name
