"""Memory for compiled loops over rows."""

from __future__ import annotations

import numpy as np

from partwise.features.keys.records import Program, WordCodes, Workspace

# Memory is reserved for the features of this many rows before any is known.
FIRST_ROWS = 10_000


def grow(ids: np.ndarray, n_written: int, row: int, n_rows: int, most_keys: int) -> None:
    """Make room for the ids of more rows. The same array grows: no second copy in memory."""
    expected = int(1.1 * n_written / max(row, 1) * n_rows)
    size = min(max(expected, len(ids) + FIRST_ROWS * most_keys), n_rows * most_keys)
    ids.resize(size, refcheck=False)


def workspace(program: Program, words: WordCodes) -> Workspace:
    """Memory for the longest sentence and for all keys that a row can have."""
    n_templates, n_sources = len(program.base), len(words.codes)
    n_places = len(program.piece_ptr)
    longest = int(np.diff(words.sentence_ptr).max(initial=0))
    looked_at = np.unique(program.several_source[program.several_stride > 0])
    most = min(longest, int(words.codes[looked_at].max(initial=0)) + 1) if len(looked_at) else 0
    most_feats = int(np.diff(words.feature_ptr).max(initial=0))
    most_keys = program.n_simple + sum(
        (most_feats if program.feature_stride[0, t] else 1)
        * (most_feats if program.feature_stride[1, t] else 1)
        * (most if program.several_stride[t] else 1)
        for t in range(program.n_simple, n_templates)
    )
    return Workspace(
        part=np.empty((n_places if n_places > 1 else 0, longest + 2, n_templates), np.int64),
        n_distinct=np.zeros(n_sources, np.int64),
        distinct=np.zeros((n_sources, most), np.int64),
        n_before=np.zeros((n_sources, most, longest + 1), np.int32),
        keys=np.empty(most_keys + 1, np.int64),
        spreads=np.empty(most_keys + 1, np.int64),
        numbers=np.empty(most_keys + 1, np.int64),
    )
