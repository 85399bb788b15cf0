"""The problems of `regret.py`: made up, small to middling, of every kind; and real ones where the data are there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import regret_fresh
import regret_more
from regret_data import BETWEEN, Case, Data, chain_data, class_data, node_rows, tree_data

from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows
from partwise.structures import Multiclass, Projective, Spanning

_TEMPLATES = {"conll2000": "chunking", "conll2002-es": "ner"}  # the first 3,000 sentences

CASES = [
    Case("tiny classes", "log", 1.0, True),
    Case("tiny classes", "log", 0.01, True),
    Case("tiny classes", "hinge", 1.0, True),
    Case("tiny classes", "hinge", 0.01),
    Case("tiny chains", "log", 0.1, True),
    Case("tiny chains", "hinge", 0.1),
    *(Case("dense classes", "log", l2, l2 == 1.0) for l2 in (100.0, 1.0, 0.01)),
    Case("dense classes", "hinge", 10.0),
    Case("dense classes", BETWEEN, 1.0),
    *(Case("correlated classes", "log", l2, l2 == 0.01) for l2 in (10.0, 0.1, 0.01)),
    Case("correlated classes", "hinge", 10.0, True),
    *(Case("badly scaled classes", "log", l2, l2 == 1.0) for l2 in (100.0, 1.0, 0.01)),
    *(Case("text classes", "log", l2, l2 == 1.0) for l2 in (10.0, 1.0, 0.05)),
    *(Case("text classes", "hinge", l2, l2 == 1.0) for l2 in (10.0, 1.0, 0.05)),
    Case("text classes", BETWEEN, 1.0),
    Case("text classes", "log", 1.0, l1=1.0),
    Case("300 classes", "log", 1.0),
    Case("300 classes", "hinge", 1.0, True),
    Case("mixed classes", "log", 1.0, True),
    Case("mixed classes", "hinge", 1.0),
    *(Case("dense chains", "log", l2, l2 == 1.0) for l2 in (100.0, 1.0, 0.01)),
    Case("dense chains", "hinge", 100.0),
    Case("embedded chains", "log", 1.0),
    *(Case("text chains", "log", l2, l2 == 1.0) for l2 in (10.0, 1.0, 0.05)),
    *(Case("text chains", "hinge", l2, l2 == 10.0) for l2 in (10.0, 1.0)),
    Case("text chains", BETWEEN, 1.0),
    Case("text chains", "log", 0.5, l1=0.5),
    Case("45 labels chains", "log", 1.0),
    Case("45 labels chains", "hinge", 3.0),
    Case("mixed chains", "log", 1.0, True),
    Case("mixed chains", BETWEEN, 0.1),
    *(Case("spanning trees", "log", l2, l2 == 3.0) for l2 in (3.0, 0.1)),
    Case("spanning trees", "hinge", 3.0, True),
    Case("projective trees", "log", 1.0),
    Case("projective trees", "hinge", 3.0),
    *(Case("ten sentences", "log", l2, l2 == 0.1) for l2 in (0.1, 0.001)),
    Case("ten sentences", "hinge", 0.1),
    *(Case("small chains", "log", l2) for l2 in (1.0, 0.001)),
    Case("small mixed chains", "log", 0.01),
    Case("120 labels chains", "log", 0.1),
    Case("small texts", "log", 0.01),
    Case("small texts", "hinge", 0.1),
    *(Case("small dense classes", "log", l2) for l2 in (1.0, 0.01)),
    Case("small dense classes", "hinge", 0.01),
    *(Case("badly scaled mixed classes", "log", l2) for l2 in (10.0, 0.1)),
    *(Case("few projective trees", "log", l2) for l2 in (1.0, 0.01)),
    Case("few spanning trees", "log", 0.1),
    *(Case("mnist", "log", l2) for l2 in (1000.0, 100.0, 10.0, 0.01)),
    *(Case("mnist", "hinge", l2) for l2 in (1000.0, 10.0)),
    *(Case("conll2000", "log", l2) for l2 in (2.0, 0.1)),
    Case("conll2000", "hinge", 10.0),
    *(Case("conll2002-es", "log", l2) for l2 in (1.0, 0.01)),
]


def build(case: Case, folder: Path | None) -> Problem | None:
    """The problem of a case; None where its data are not there."""
    if case.data not in _MADE and (folder is None or not (folder / case.data).is_dir()):
        return None
    if case.data in _TEMPLATES:
        from sequence import build_problem

        return build_problem(
            Path(folder or "") / case.data, case.l2, "observed", case.loss, l1=case.l1,
            template=_TEMPLATES[case.data], n_sentences=3000,
        )  # fmt: skip
    data = _data(case.data, folder)
    return Problem.build(
        data.structure, data.labels, data.shapes, data.rows, loss=case.loss, l2=case.l2, l1=case.l1,
        example_weight=data.example_weight,
    )  # fmt: skip


@cache
def _data(name: str, folder: Path | None) -> Data:
    if name in _MADE:
        return _MADE[name]()
    return regret_fresh.FROM_FOLDER.get(name, _mnist)(Path(folder or "") / name)


# -- real data --------------------------------------------------------------------------------------


def _mnist(folder: Path) -> Data:
    from multiclass import read

    x, y = (part[:20000] for part in read(folder))
    rows = AttributeRows(x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data)
    return Data(Multiclass(10), y, np.ones(len(y), int), node_rows(10, 784, rows, None))


_MADE: dict[str, Callable[[], Data]] = {
    "tiny classes": lambda: class_data(150, 3, "dense", 4),
    "tiny chains": lambda: chain_data(300, 4, "sparse", 100, 5),
    "dense classes": lambda: class_data(10000, 10, "dense", 200),
    "correlated classes": lambda: class_data(20000, 5, "correlated", 50),
    "badly scaled classes": lambda: class_data(10000, 5, "scaled", 40),
    "text classes": lambda: class_data(10000, 20, "sparse", 30000, 60),
    "300 classes": lambda: class_data(5000, 300, "sparse", 5000, 20),
    "mixed classes": lambda: class_data(10000, 8, "mixed", 40),
    "dense chains": lambda: chain_data(15000, 9, "dense", 150),
    "embedded chains": lambda: chain_data(15000, 9, "embedded", 150),
    "text chains": lambda: chain_data(20000, 9, "sparse", 20000),
    "45 labels chains": lambda: chain_data(10000, 45, "sparse", 10000),
    "mixed chains": lambda: chain_data(10000, 9, "mixed", 40),
    "spanning trees": lambda: tree_data(300, Spanning(single_root=False)),
    "projective trees": lambda: tree_data(300, Projective(single_root=False)),
    "ten sentences": lambda: chain_data(120, 5, "sparse", 300, 8),
    "small chains": lambda: chain_data(1000, 20, "sparse", 2000, 8),
    "small mixed chains": lambda: chain_data(300, 5, "mixed", 20),
    "120 labels chains": lambda: chain_data(3000, 120, "sparse", 5000),
    "small texts": lambda: class_data(500, 6, "sparse", 2000, 15),
    "small dense classes": lambda: class_data(500, 5, "dense", 30),
    "badly scaled mixed classes": lambda: class_data(8000, 6, "scaled and words", 40, 10),
    "few projective trees": lambda: tree_data(20, Projective(single_root=False)),
    "few spanning trees": lambda: tree_data(60, Spanning(single_root=False)),
    **regret_more.MADE,
    **regret_fresh.MADE,
}
