"""Limits of sums that run on scaled weights from left to right, as in chains and segments.

A forward row is divided by its total c, so that it sums to one. A label that underflows before the division has weighed
less than 1e-308 / c ≤ 1e-168 of the row. Backward rows start at `LIFT` = 1e162 and overflow at 1e308, which is noticed.
If none overflows, no label weighs more than 1e146 from its position on. So what is lost is less than 1e-22 of all
labellings. Every forward row has to keep to `SMALLEST`, or the example is computed again on logarithms.
"""

from __future__ import annotations

SMALLEST = 1e-140  # If the total of a row is below this, labels may have underflowed that decide the sum.
FAINT = 1e-280  # A forward entry above this, before it is divided, has lost nothing that matters.
LIFT, INVERSE_LIFT = 2.0**538, 2.0**-538  # 1e162 and its inverse
