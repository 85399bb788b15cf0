"""A card that is not there: Triton compiles for it, and launches are written down instead of carried out.

Kernels are compiled by Triton and `ptxas`, both of which come with it, for the types, sizes and alignments that the
package launches them with. What one takes of the card is read from its binary. Tests that use this need a process of
their own, since `TRITON_INTERPRET`, which other tests set, decides for a whole process.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

# Bytes of shared memory that one program may have, by compute capability.
SHARED = {80: 166_912, 90: 232_448}
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


class Usage(NamedTuple):
    """What a compiled kernel takes: registers and bytes of spilled ones per thread, bytes of shared memory."""

    name: str
    options: str
    registers: int
    spilled: int
    shared: int


class AbsentCard:
    """Stands in for Triton's driver; see :func:`use`."""

    def __init__(self, capability: int):
        self.target = GPUTarget("cuda", capability, 32)
        self.usage: list[Usage] = []
        self.launched: list[tuple[str, tuple[Any, ...]]] = []
        self.utils = self

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": SHARED[self.target.arch]}

    def unload_module(self, module: Any) -> None:
        pass

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        """What Triton calls with grid, stream, function, metadata, hooks and the arguments of a launch."""
        self.module = source.fn.fn.__module__.rpartition(".")[2]
        self.options = ", ".join(f"{source.fn.arg_names[k[0]]}={v}" for k, v in source.constants.items())
        self.options += f", num_warps={metadata.num_warps}, " + " ".join(
            kind for kind in source.signature.values() if kind != "constexpr"
        )
        return lambda *given: self.launched.append((metadata.name, given))

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, ...]:
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(binary)
            file.flush()
            told = subprocess.run(
                [tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
            )
        registers, stack, _, local = map(int, _USAGE.search(told.stdout).groups())
        self.usage.append(Usage(f"{self.module}.{name}", self.options, registers, stack + local, shared))
        return object(), object(), registers, stack + local, 1024


def use(capability: int) -> AbsentCard:
    """Make Triton compile for a card of this compute capability, and launch nothing."""
    card = AbsentCard(capability)
    driver.set_active(card)
    return card
