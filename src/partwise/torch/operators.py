"""Operators of chains that ``torch.compile`` and ``torch.export`` keep in their graphs.

Outside of compiled code the layers call :mod:`partwise.torch.sums`, which does the same work with less overhead. While
code is traced, numbers are unknown: the layers look at shapes only, and the operators check numbers when they run.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from partwise.structures.chain.chain import Chain
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.sums import as_first, best_labels, compute, hessian_product

_SUMS = "(Tensor node, Tensor edge, Tensor? lengths) -> (Tensor, Tensor, Tensor)"
_LABELS = "(Tensor node, Tensor edge, Tensor? lengths) -> Tensor"
_HESSIAN = "(Tensor node, Tensor edge, Tensor? lengths, Tensor to_node, Tensor to_edge) -> (Tensor, Tensor)"


@cache
def _chain(n_labels: int) -> Chain:
    return Chain(n_labels)


def _batch(node: torch.Tensor, edge: torch.Tensor, lengths: torch.Tensor | None) -> ScoreBatch:
    """Scores as layers read them. On the CPU this checks their numbers."""
    return ChainLayout(_chain(node.shape[2])).batch((node, edge), lengths, None)


@torch.library.custom_op("partwise::chain_sums", mutates_args=(), schema=_SUMS)
def _chain_sums(node: Any, edge: Any, lengths: Any) -> Any:
    return tuple(compute(_batch(node, edge, lengths), "sums"))


@torch.library.custom_op("partwise::chain_best", mutates_args=(), schema=_SUMS)
def _chain_best(node: Any, edge: Any, lengths: Any) -> Any:
    return tuple(compute(_batch(node, edge, lengths), "best"))


@torch.library.custom_op("partwise::chain_labels", mutates_args=(), schema=_LABELS)
def _chain_labels(node: Any, edge: Any, lengths: Any) -> Any:
    found = best_labels(_batch(node, edge, lengths))
    return torch.nn.functional.pad(found, (0, node.shape[1] - found.shape[1]), value=-1)


@torch.library.custom_op("partwise::chain_hessian_product", mutates_args=(), schema=_HESSIAN)
def _chain_hessian_product(node: Any, edge: Any, lengths: Any, to_node: Any, to_edge: Any) -> Any:
    batch = _batch(node, edge, lengths)
    product = hessian_product(batch, batch.scores, [to_node, to_edge])
    return product[0].contiguous(), product[1].contiguous()


@_chain_sums.register_fake
@_chain_best.register_fake
def _(node: Any, edge: Any, lengths: Any) -> Any:
    counts = edge.shape if edge.ndim > 2 else (node.shape[0], *edge.shape)
    return node.new_empty(node.shape[0]), node.new_empty(node.shape), node.new_empty(counts)


@_chain_labels.register_fake
def _(node: Any, edge: Any, lengths: Any) -> Any:
    return node.new_empty(node.shape[:2], dtype=torch.int64)


@_chain_hessian_product.register_fake
def _(node: Any, edge: Any, lengths: Any, to_node: Any, to_edge: Any) -> Any:
    return node.new_empty(node.shape), node.new_empty(to_edge.shape)


def _keep_sums(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, *output[1:])
    ctx.set_materialize_grads(False)


def _sums_backward(ctx: Any, weight: Any, *directions: Any) -> Any:
    """As that of :class:`partwise.torch.sums.Sums`."""
    node, edge, lengths, *counts = ctx.saved_tensors
    total: list[Any] = [None, None]
    if weight is not None:
        total = [each * as_first(weight, each) for each in counts]
    if any(each is not None for each in directions):
        given = [torch.zeros_like(c) if g is None else g for g, c in zip(directions, counts, strict=True)]
        product = torch.ops.partwise.chain_hessian_product(node, edge, lengths, *given)
        total = [p if t is None else t + p for t, p in zip(total, product, strict=True)]
    if edge.ndim == 2 and total[1] is not None:
        total[1] = total[1].sum(0)
    return (*total, None)


def _best_backward(ctx: Any, weight: Any, *_: Any) -> Any:
    """The indicators of a best labelling are constants."""
    return _sums_backward(ctx, weight)


_chain_sums.register_autograd(_sums_backward, setup_context=_keep_sums)
_chain_best.register_autograd(_best_backward, setup_context=_keep_sums)
