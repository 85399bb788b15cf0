"""How much memory a process may have, by the limits of its container and its own."""

from __future__ import annotations

import contextlib

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_OF_CONTAINERS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def confines() -> list[int]:
    """Limits in bytes, those that there are."""
    found = []
    for path in _OF_CONTAINERS:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as limit:
            found.append(int(limit.read()))  # a ValueError where it is "max"
    if resource is not None:
        limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        found += [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return found
