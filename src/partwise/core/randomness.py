"""A random generator from any value of `random_state`."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.errors import InputError


def random_generator(random_state: Any) -> np.random.Generator:
    """A generator from None, a seed, a RandomState or a Generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    if random_state is np.random:
        return np.random.default_rng(np.random.randint(2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        message = "random_state must be None, an integer >= 0, a RandomState or a Generator"
        raise InputError(f"{message}, not {random_state!r:.60}") from None
