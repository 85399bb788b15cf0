"""How much memory a process may have, by the limits of its container and its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import PurePosixPath

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_OWN_GROUPS = "/proc/self/cgroup"
_LIMITS = {"": ("/sys/fs/cgroup", "memory.max"), "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")}


def memory_limits() -> list[int]:
    """Limits in bytes, those that there are."""
    found = []
    for path in _files():
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as limit:
            found.append(int(limit.read()))  # a ValueError where it is "max"
    if resource is not None:
        limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        found += [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return found


def _files() -> Iterator[str]:
    """Where the limits of the process's group, and of all that this is in, may stand.

    Within a container its own group is often shown as the outermost one, whatever it is called there.
    """
    groups = {controller: PurePosixPath("/") for controller in _LIMITS}
    with contextlib.suppress(OSError, ValueError), open(_OWN_GROUPS, encoding="utf-8") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            groups |= {each: PurePosixPath(path) for each in controllers.split(",") if each in _LIMITS}
    for controller, own in groups.items():
        root, name = _LIMITS[controller]
        for group in (own, *own.parents):
            yield f"{root}{str(group).rstrip('/')}/{name}"
