"""Where machine code comes from: the shipped library, code that an earlier process compiled, or the compiler.

Code that was compiled here is kept as one object file per kernel, in a folder of the user. A new file is complete
before it gets its name, and a name stands for one code, so processes need not agree on anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.compiled import library
from partwise.compiled.clock import compiling

if TYPE_CHECKING:
    from partwise.compiled.kernels import Kernel

_ADVICE = "set PARTWISE_CACHE_DIR to a writable folder"
_LIST = os.environ.get(
    "PARTWISE_KERNEL_LIST"
)  # a file that names every kernel that is asked for, see `build.py`
_lock = threading.RLock()
_addresses: dict[str, int] = {}
_known: dict[Kernel, int] = {}  # the same by kernel object: to name a kernel takes longer than some calls
_said: list[str] = []


def address_of(kernel: Kernel) -> int:
    """The address of a kernel's machine code. Compiles the kernel if there is none."""
    if (known := _known.get(kernel)) is not None:
        return known
    with _lock:
        found = find(kernel)
        if found is None:
            with compiling(kernels=1):
                found = _compiled(kernel)
            _addresses[kernel.symbol] = found
        _known[kernel] = found
        return found


def find(kernel: Kernel) -> int | None:
    """The address of a kernel's machine code; None if the kernel must be compiled."""
    symbol = kernel.symbol
    with _lock:
        if symbol not in _addresses:
            if _LIST:
                _append_to_list(_LIST, kernel)
            found = library.address_of(symbol) or _kept(symbol)
            if not found:
                return None
            _addresses[symbol] = found
        return _addresses[symbol]


def _compiled(kernel: Kernel) -> int:
    try:
        from partwise.compiled import numba_compiler
    except ImportError as error:
        raise ImportError(
            f"{kernel.name} must be compiled, and {error.name} is not installed: pip install 'partwise[jit]'"
            + library.why_not()
        ) from None
    code, is_complete = numba_compiler.object_code(kernel)
    folder = folder_of_objects()
    if folder is not None and is_complete:  # a process that loads it need not have Numba
        _write(folder / f"{kernel.symbol}.o", code)
    return _load(code, kernel.symbol)


# -- object files --------------------------------------------------------------------------------------


def _kept(symbol: str) -> int | None:
    """The address of code that an earlier process compiled; None if there is none, or it is damaged."""
    folder = folder_of_objects()
    if folder is None:
        return None
    try:
        written = (folder / f"{symbol}.o").read_bytes()
    except OSError:
        return None
    code, checksum = written[:-_SIZE_OF_SUM], written[-_SIZE_OF_SUM:]
    if _checksum(code) != checksum:
        return None
    with compiling():
        return _load(code, symbol)


_SIZE_OF_SUM = 16


def _checksum(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=_SIZE_OF_SUM).digest()


def _write(path: Path, code: bytes) -> None:
    """Write an object file and its checksum, so that it is there whole or not at all."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(code + _checksum(code))
                file.close()
                os.replace(file.name, path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(file.name)
                raise
    except OSError as error:
        _say_once(
            f"compiled code cannot be kept ({error.strerror or error}), so every process compiles; {_ADVICE}"
        )


@cache
def _engine() -> Any:
    """LLVM's loader of object files. It needs no compiler."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="default")
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _load(code: bytes, symbol: str) -> int:
    import llvmlite.binding as llvm

    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address: int = engine.get_function_address(symbol)
    return address


# -- the folder ----------------------------------------------------------------------------------------


@cache
def folder_of_objects() -> Path | None:
    """The folder of object files for this processor, made if there is none; None if nothing can be written."""
    try:
        import llvmlite
        import llvmlite.binding as llvm
    except ImportError:
        return None
    processor = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()} {llvmlite.__version__}"
    name = hashlib.blake2b(processor.encode(), digest_size=6).hexdigest()
    for root in (_chosen_folder(), _temporary_folder()):
        with contextlib.suppress(OSError):
            if root is not None and _is_private(root):
                (root / name).mkdir(exist_ok=True)
                with tempfile.TemporaryFile(dir=root / name):
                    return root / name
        if root is not None:
            _say_once(f"{root} cannot hold compiled code; {_ADVICE}")
    _say_once(f"compiled code cannot be kept, so every process compiles; {_ADVICE}")
    return None


def _chosen_folder() -> Path | None:
    """The folder that the user named, else the place for caches on this system."""
    if named := os.environ.get("PARTWISE_CACHE_DIR"):
        return Path(named)
    usual = {"darwin": "~/Library/Caches", "win32": os.environ.get("LOCALAPPDATA", "~/AppData/Local")}
    place = os.environ.get("XDG_CACHE_HOME") or usual.get(sys.platform, "~/.cache")
    with contextlib.suppress(RuntimeError):
        return Path(place).expanduser() / "partwise"
    return None


def _temporary_folder() -> Path | None:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    with contextlib.suppress(OSError):
        return Path(tempfile.gettempdir()) / f"partwise-{user}"
    return None


def _is_private(folder: Path) -> bool:
    """Whether only this user can write to the folder, which is made if there is none. Code that others could have
    written is not loaded."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not hasattr(os, "getuid"):
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _append_to_list(path: str, kernel: Kernel) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{kernel}\n")


def _say_once(message: str) -> None:
    """Print the first message only: the later ones have the same cause."""
    if not _said and sys.stderr is not None:
        print(f"partwise: {message}", file=sys.stderr)
    _said.append(message)
