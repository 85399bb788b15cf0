"""A larger l2 in the first passes of online exponentiated gradient (Collins et al. 2008, §7.1.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.errors import InputError


class Annealing(NamedTuple):
    """l2 is `start` times larger for `hold` passes; then the excess is multiplied by `decay` in every pass.

    Collins et al. use ``Annealing(10, 5, 0.7)``.
    """

    start: float = 10.0
    hold: float = 5.0
    decay: float = 0.7

    def check(self) -> None:
        """Raise InputError if l2 would not fall to its own value."""
        if not (1.0 <= self.start < np.inf and 0.0 <= self.hold < np.inf and 0.0 < self.decay < 1.0):
            raise InputError(
                f"annealing needs start >= 1, hold >= 0 and a decay between 0 and 1, not {self!r:.80}"
            )

    def factor(self, passes: float) -> float:
        """The factor on l2 after `passes` passes."""
        return 1.0 + (self.start - 1.0) * self.decay ** max(passes - self.hold, 0.0)
