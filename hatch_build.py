"""What a wheel contains: with the library of compiled code for every level of processors, it is for this platform."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LEVELS = 3  # of x86-64; other architectures have one


class LibraryHook(BuildHookInterface):
    """Adds the library if ``make library`` has built all of it. Otherwise users of the wheel need ``partwise[jit]``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root, "src/partwise/compiled/lib")
        libraries = [each.name for each in folder.glob("partwise-*") if "-level" not in each.name]
        is_whole = len(libraries) == (LEVELS if any("x86_64" in name for name in libraries) else 1)
        if version == "editable" or not is_whole:
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"  # the library knows nothing of Python
        build_data["force_include"][str(folder)] = "partwise/compiled/lib"
