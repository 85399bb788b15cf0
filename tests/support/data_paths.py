"""Folders that tests read from, and the mark for tests that need the shared data sets."""

from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
SHARED = ROOT.parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data sets are not here")
