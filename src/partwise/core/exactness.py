"""Whether a log-partition is exact, a relaxation or approximate. Certificates carry the same word.

Certificates may also be "local": labels are known in part, so the objective is not convex. Or they are "sampled": a
time limit left no time to score all examples.
"""

from __future__ import annotations

from typing import Literal

Exactness = Literal["exact", "relaxation", "approximate"]
KINDS = ("exact", "relaxation", "approximate", "local", "sampled")
