"""What the log-partition of a structure is, and so what a certificate is of."""

from __future__ import annotations

from typing import Literal

Exactness = Literal["exact", "relaxation", "approximate"]
KINDS: tuple[Exactness, ...] = ("exact", "relaxation", "approximate")
