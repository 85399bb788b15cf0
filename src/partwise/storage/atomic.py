"""Write a file whole or not at all: unfinished without a name where possible, flushed, then put in place.

Links are followed, modes kept, files without write permission refused, and what is no ordinary file (a device,
a pipe) is written to instead of being replaced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from partwise.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows, where nothing then cleans up after killed processes
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".partwise-unfinished"
_NO_NAMELESS_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
_DESCRIPTORS = ("/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/")


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Call `write` on an unfinished file and put it in place of `path` only if that succeeds."""
    target = writable_target(path)
    try:
        if target is None:
            with open(path, "wb") as handle:
                write(handle)
            return
        _remove_abandoned(target.parent)
        with _unfinished(target) as handle:
            write(handle)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", path) from error


def writable_target(path: str | os.PathLike[str]) -> Path | None:
    """The file that writing to `path` replaces, after links; None for what is written through.

    Raises InputError, naming the reason, for what cannot or should not be written.
    """
    name = os.fspath(path)
    try:
        found = os.stat(name)
    except FileNotFoundError:
        found = None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write here: {getattr(error, 'strerror', None) or error}", path) from None
    target = Path(os.path.realpath(name))
    if found is not None:
        if stat.S_ISDIR(found.st_mode):
            raise InputError("cannot write here: this is a directory, and a file is needed", path)
        # Root may write what nobody else may, but a file without any write permission is not to be changed.
        if not found.st_mode & 0o222 or not os.access(name, os.W_OK):
            raise InputError("cannot write here: the file is read-only", path)
        if not stat.S_ISREG(found.st_mode) or name.startswith(_DESCRIPTORS):
            return None
    if not target.parent.is_dir():
        raise InputError(f"cannot write here: there is no directory {str(target.parent)!r:.200}", path)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError("cannot write here: the directory is read-only", path)
    return target


@contextlib.contextmanager
def _unfinished(target: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `target` at the end, or vanishes."""
    descriptor, name = _open_unfinished(target)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as handle:
            _take_over_mode(descriptor, target)
            yield handle
            handle.flush()
            os.fsync(descriptor)
        if name is None:
            name = _name_for(target)
            _link(descriptor, name)
        if fcntl is None:  # Windows renames no open file
            os.close(descriptor)
            descriptor = -1
        os.replace(name, target)
    except BaseException:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    sync_folder(target.parent)


def _open_unfinished(target: Path) -> tuple[int, str | None]:
    """Descriptor and name. The name is None if the system has nameless files, which end with their process."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            descriptor = os.open(target.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
            lock(descriptor)
            return descriptor, None
        except OSError as error:
            if error.errno not in _NO_NAMELESS_FILES:
                raise
    while True:
        name = _name_for(target)
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # taken for abandoned before it was locked


def _name_for(target: Path) -> str:
    return str(target.parent / f".{target.name[:40]}.{secrets.token_hex(6)}{UNFINISHED}")


def _link(descriptor: int, name: str) -> None:
    """Give a nameless file a name, or make a copy that has one where the file system cannot."""
    folder = os.open(os.path.dirname(name), os.O_RDONLY)
    try:
        # Only with a folder's descriptor does Python follow the link in /proc.
        os.link(f"/proc/self/fd/{descriptor}", os.path.basename(name), dst_dir_fd=folder)
    except OSError:
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "rb", closefd=False) as source, open(name, "xb") as copy:
            os.chmod(name, stat.S_IMODE(os.fstat(descriptor).st_mode))
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())
    finally:
        os.close(folder)


def _take_over_mode(descriptor: int, target: Path) -> None:
    """Mode and owner of the file that is replaced, as far as they can be kept."""
    with contextlib.suppress(FileNotFoundError):
        old = os.stat(target)
        if hasattr(os, "fchown"):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
        os.chmod(descriptor if os.chmod in os.supports_fd else target, stat.S_IMODE(old.st_mode))


def lock(descriptor: int, wait: bool = True) -> bool:
    """Lock a file for as long as it is open; False if another process has."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed processes left behind: unfinished files that nobody has locked."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(UNFINISHED) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    descriptor = os.open(entry.path, os.O_RDWR)
                    try:
                        if lock(descriptor, wait=False):
                            os.unlink(entry.path)
                    finally:
                        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut, where the system lets folders be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
