"""JSON for programs and pages: without nan and inf, and safe within a `<script>` element."""

from __future__ import annotations

import json
import math
from typing import Any


def finite_only(value: Any) -> Any:
    """Replace numbers that are not finite by None."""
    if isinstance(value, dict):
        return {str(key): finite_only(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_only(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_for_page(value: Any) -> str:
    """JSON for a ``<script>`` element: ASCII, without the characters <, > and &."""
    text = json.dumps(finite_only(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
