"""The processes that a test starts, so that it can kill them."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[Any]]:
    """All processes that have been started, the first one first."""
    found: list[subprocess.Popen[Any]] = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return found
