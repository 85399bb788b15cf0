"""Check what `make dist` built: what is inside, and that the wheel works in a fresh environment.

Run as ``python tests/project/check_dist.py dist``. The environment has no compiler, so what the library lacks fails.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRAIN = "Ada NNP B-PER\nmet VBD O\nBob NNP B-PER\n\nhe PRP O\nleft VBD O\nRome NNP B-LOC\n\n" * 3
SMOKE = """
import partwise
model = partwise.load("m.pw")
assert model.converged_ and model.predict([[("Ada", "NNP"), ("left", "VBD")]]) == [["B-PER", "O"]]
assert partwise.__version__ == {version!r}
print("partwise", partwise.__version__, "from", partwise.__file__)
import importlib.util
assert importlib.util.find_spec("numba") is None and importlib.util.find_spec("llvmlite") is None
"""
LARGEST_WHEEL = 30e6  # bytes


def main(folder: Path) -> None:
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_contents(wheel, sdist)
    with tempfile.TemporaryDirectory() as scratch:
        check_in_fresh_environment(wheel, Path(scratch))


def check_contents(wheel: Path, sdist: Path) -> None:
    """The wheel has the package as it is in the source, and nothing else; the sdist what building and testing need."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}
        notes = {Path(name).name for name in archive.namelist() if ".dist-info/" in name}
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    source = {path.relative_to(ROOT / "src").as_posix() for path in files}
    source = {name for name in source if ".egg-info/" not in name}
    assert inside == source, f"wheel and source differ in {sorted(inside ^ source)[:5]}"
    assert wheel.stat().st_size <= LARGEST_WHEEL and "manylinux" in wheel.name, wheel.name
    assert "partwise/py.typed" in inside and {"LICENSE", "METADATA", "entry_points.txt"} <= notes
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/partwise/py.typed"} <= names
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders <= {"src", "tests", "docs", "benchmarks", "examples"}, folders
    print(f"{wheel.name}: {len(inside)} files, {wheel.stat().st_size / 1e6:.1f} MB; ", end="")
    print(f"{sdist.name}: {len(names)} files, {sdist.stat().st_size / 1e6:.1f} MB")


def check_in_fresh_environment(wheel: Path, scratch: Path) -> None:
    """Install the wheel, then train from the command line, predict from Python, and run all code there is."""
    venv.create(scratch / "fresh", with_pip=True)
    python = scratch / "fresh" / "bin" / "python"

    def run(*command: str) -> None:
        subprocess.run([str(python), *command], cwd=scratch, check=True)

    run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel.resolve()))
    (scratch / "train.txt").write_text(TRAIN)
    run("-m", "partwise.cli", "train", "sequence", "train.txt", "--model", "m.pw", "--l2", "0.1", "--quiet")
    run("-m", "partwise.cli", "predict", "m.pw", "train.txt", "--output", "out.txt")
    assert (scratch / "out.txt").read_text().startswith("Ada NNP B-PER B-PER\n")
    run("-c", SMOKE.format(version=wheel.name.split("-")[1]))
    done = subprocess.run(
        [str(python), "-m", "partwise.cli", "compile", "--all"],
        cwd=scratch,
        check=True,
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("0 functions compiled"), last
    print(f"every structure, loss, solver and precision: {last}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
