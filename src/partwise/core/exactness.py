"""What the log-partition of a structure is, and so what a certificate is of.

"local" is a certificate's own: labels are known in part, and the objective is not convex.
"""

from __future__ import annotations

from typing import Literal

Exactness = Literal["exact", "relaxation", "approximate"]
KINDS = ("exact", "relaxation", "approximate", "local")
