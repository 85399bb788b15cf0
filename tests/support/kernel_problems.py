"""Problems of explicit features, written with the linear kernel instead."""

from __future__ import annotations

from typing import Any

import numpy as np
from problems import Small

from partwise.mercer.functions import KernelFunction
from partwise.mercer.gram import Gram
from partwise.mercer.problem import KernelProblem

LINEAR = KernelFunction("linear")


def kernelised(data: Small, megabytes: float = 10.0, **options: Any) -> KernelProblem:
    """The same problem through the linear kernel."""
    plain = data.problem
    grams = {"node": Gram.of_points(LINEAR, data.node, megabytes)}
    if len(data.edge):
        grams["edge"] = Gram.of_points(LINEAR, data.edge, megabytes)
    settings = {"loss": plain.loss, "l2": plain.l2, "example_weight": plain.batch.example_weight}
    return KernelProblem.of_kernels(plain.structure, data.labels, data.lengths, grams, **(settings | options))


def explicit_vector(problem: KernelProblem, data: Small, vector: np.ndarray) -> np.ndarray:
    """Σ_t b_t ⊗ φ(x_t) in the order of the explicit problem's weights."""
    plain, half = data.problem, problem.n_sums
    result = np.zeros(plain.n_weights)
    for name, attributes in zip(problem.grams, (data.node, data.edge), strict=False):
        own = vector[:half][problem.scorer.slice_of(name)]
        combined = attributes.T @ own.reshape(len(attributes), -1)
        attribute, label, index = plain.scorer.maps[name].pairs()
        result[plain.scorer.slice_of(name).start + index] = combined[attribute, label]
    result[plain.scorer.slice_of("transition")] = vector[:half][problem.scorer.slice_of("transition")]
    return result
