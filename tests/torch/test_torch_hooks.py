"""Layers give the same answers with a version of PyTorch whose private parts are not known."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

SCRIPT = """
import sys
import torch
torch.__version__ = sys.argv[1] or torch.__version__
import partwise.torch as layers
from partwise.structures import Chain
from partwise.torch import torch_hooks

def value(node, edge):
    return layers.log_partition(Chain(3), node, edge).sum()

torch.manual_seed(0)
scores = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True), torch.randn(3, 3, dtype=torch.float64)
own = torch.autograd.grad(value(*scores), scores[0])[0]
transformed = torch.func.grad(value)(scores[0].detach(), scores[1])
assert torch.allclose(own, transformed)
print(torch_hooks.is_transformed(scores), value(*scores).item(), own.square().sum().item())
"""


def output_of(version: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_answers_with_an_unknown_version_of_pytorch() -> None:
    known, unknown = output_of(""), output_of("9.0.0")
    assert known[0] == "False" and unknown[0] == "True"
    assert known[1:] == unknown[1:]
