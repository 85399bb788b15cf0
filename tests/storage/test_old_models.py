"""Model files of version 0.1.0, written before rows had kinds, load and predict what they did then.

``old_models/`` has the files, trained on four toy sentences and forty random points, and what they predicted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partwise
from partwise.data import corpus_from_sentences

FOLDER = Path(__file__).parent / "old_models"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
WORDS, TAGS, MATRIX = (EXPECTED["inputs"][name] for name in ("words", "tags", "matrix"))


def data_for(name: str) -> Any:
    if name in ("classes", "kernel_classes"):
        return np.array(MATRIX)
    if name == "kernel_sequence":
        return [np.array(MATRIX[:3]), np.array(MATRIX[3:8])]
    if name in ("projective", "spanning"):
        return corpus_from_sentences(WORDS, coarse_tags=TAGS)
    if name == "order2":
        return [[{"w": word, "n": float(len(word))} for word in sentence] for sentence in WORDS]
    return WORDS


def as_lists(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [as_lists(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "inputs"])
def test_old_files_predict_what_they_did(name: str) -> None:
    model, expected = partwise.load(FOLDER / f"{name}.pw"), EXPECTED[name]
    assert as_lists(model.predict(data_for(name))) == expected["predict"]
    methods = {"scores": "decision_function", "marginals": "predict_marginals_array"}
    if name in ("projective", "spanning"):
        methods["marginals"] = "predict_marginals"
    for key in expected.keys() - {"predict"}:
        found = getattr(model, methods[key])(data_for(name))
        for ours, theirs in zip(found, expected[key], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert getattr(model, "certificate_kind_", "exact") == "exact"
