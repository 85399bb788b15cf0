"""Model files written byte by byte, by the format's definition: whatever is in them, their checksum is right."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save


def checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        kind = array.dtype.newbyteorder("<").str
        digest.update(f"\0{name}\0{kind}\0{array.shape}\0".encode("utf-8", "surrogatepass"))
        digest.update(array.tobytes())
    return digest.hexdigest()


def container(text: str = "{}", arrays: Mapping[str, np.ndarray] | None = None, **metadata: str) -> bytes:
    """A model file with this header and these arrays; `metadata` replaces what says what the file is."""
    arrays = dict(arrays or {})
    usual = {"format": "partwise", "version": "1", "header": text, "checksum": checksum(text, arrays)}
    return save(arrays, {**usual, **metadata})


def stored(path: Path) -> tuple[str, dict[str, np.ndarray]]:
    """The header of a model file, as text, and its arrays."""
    with safe_open(path, "numpy") as file:
        return file.metadata()["header"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
