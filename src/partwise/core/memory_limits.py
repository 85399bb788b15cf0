"""Memory of the machine, and limits of this process and of its container."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import PurePosixPath

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_OWN_GROUPS = "/proc/self/cgroup"
_LIMITS = {"": ("/sys/fs/cgroup", "memory.max"), "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")}


def machine_bytes() -> float:
    """Memory of the machine, or the limit of the process or its container if that is smaller."""
    return min([physical_bytes(), *memory_limits()])


def physical_bytes() -> float:
    """Memory of the machine; infinite if it is not known."""
    has_all = hasattr(os, "sysconf")
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) if has_all else math.inf


def memory_limits() -> list[int]:
    """All known limits in bytes; empty if there are none."""
    found = []
    for path in _files():
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as limit:
            found.append(int(limit.read()))  # "max" raises ValueError
    if resource is not None:
        limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        found += [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return found


def _files() -> Iterator[str]:
    """Files that may hold the limits of the process's control group and of the groups around it.

    A container often shows its own group as the outermost one, under another name.
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
