"""A trained model as a PyTorch module: its weights as parameters, its structure as a layer on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, OwnRows
from partwise.structures.multiclass.multiclass import Multiclass
from partwise.tasks.classes.classifier import Classifier
from partwise.tasks.classes.data import read_attributes, read_matrix
from partwise.tasks.dependencies.parser import DependencyParser
from partwise.tasks.sequences.labeler import SequenceLabeler
from partwise.torch.functions import argmax, log_partition, marginals
from partwise.torch.loss import StructuredLoss
from partwise.torch.rows import FedTensor, Feed

if TYPE_CHECKING:
    from partwise.core.losses import Loss
    from partwise.structures.contract import Structure


class Rows(NamedTuple):
    """The rows of one kind.

    Attributes
    ----------
    ids, offsets, values : Tensor
        Sparse attributes as ``EmbeddingBag`` takes them, int64 (n_ids,), int64 (n_rows + 1,), floating (n_ids,).
    dense : Tensor (n_rows, n_dense), or None
    place : int64 Tensor (n_rows,)
        In the score tensor, read as (places, entries of a row).
    """

    ids: torch.Tensor
    offsets: torch.Tensor
    values: torch.Tensor
    dense: torch.Tensor | None
    place: torch.Tensor


class Features(NamedTuple):
    """Examples as the module reads them.

    Attributes
    ----------
    rows : dict of Rows
        By kind.
    lengths : int64 Tensor (n,)
    given : int64 array
        Lengths of all examples given; those without positions are in nothing else.
    is_pruned : bool
        Whether arcs that have no row are impossible.
    """

    rows: dict[str, Rows]
    lengths: torch.Tensor
    given: np.ndarray
    is_pruned: bool

    def to(self, device: str | torch.device) -> Features:
        """The same on another device."""
        rows = {
            name: Rows(*(each if each is None else each.to(device) for each in own))
            for name, own in self.rows.items()
        }
        return self._replace(rows=rows, lengths=self.lengths.to(device))


class ModelModule(torch.nn.Module):
    """A trained model's scores as a module; made by :func:`to_module`.

    Calling it on ``encode(X)`` gives the score tensors of the structure, differentiable in all weights.

    Attributes
    ----------
    structure : Structure
    sparse : ModuleDict of EmbeddingBag
        For each kind of rows one row of weights an attribute; pairs that the model has no weight for are 0.
    dense : ModuleDict of Linear
    constant : ParameterDict
        A classifier's intercepts (K,).
    shared : ParameterDict
        Scores that all examples share: `transition` (L, L).
    """

    def __init__(self, model: Any, structure: Structure, dtype: torch.dtype):
        super().__init__()
        self.structure, self.model = structure, model
        self._feed = Feed(structure)
        self.sparse, self.dense = torch.nn.ModuleDict(), torch.nn.ModuleDict()
        self.constant, self.shared = torch.nn.ParameterDict(), torch.nn.ParameterDict()
        for each in self._feed.tensors:
            table, n_dense, constant = _table(model, each)
            if each.tied:
                self.shared[each.name] = torch.nn.Parameter(table.reshape(each.tail).to(dtype))
                continue
            self.sparse[each.name] = torch.nn.EmbeddingBag.from_pretrained(
                table[n_dense:].to(dtype), freeze=False, mode="sum", include_last_offset=True
            )
            if n_dense:
                self.dense[each.name] = torch.nn.Linear(n_dense, each.width, bias=False, dtype=dtype)
                self.dense[each.name].weight.data.copy_(table[:n_dense].T)
            if constant is not None:
                self.constant[each.name] = torch.nn.Parameter(torch.tensor(constant, dtype=dtype))

    def encode(self, X: Any) -> Features:
        """Examples as `predict` of the model takes them, as tensors; on the module's device."""
        given, encoded = _encoded(self.model, X)
        if not given.any():
            raise InputError("X has no example with a position")
        return self._features(given, encoded)

    def _features(self, given: np.ndarray, encoded: Encoded) -> Features:
        shapes, like = encoded.shapes_for(self.structure), next(self.parameters())
        lengths = shapes.lengths
        places, rows = self._feed.row_positions(shapes, int(lengths.max())), {}
        for each, own in zip(self._feed.fed, encoded.own, strict=False):
            rows[each.name] = _rows(own, places[each.name], like.dtype)
        is_pruned = getattr(self.model, "_pruner", None) is not None
        return Features(rows, torch.from_numpy(lengths), given, is_pruned).to(like.device)

    def forward(self, features: Features) -> tuple[torch.Tensor, ...]:
        """Scores in the order in which layers take them, padded to the longest example."""
        n, longest = len(features.lengths), int(features.lengths.max())
        sizes = self._feed.sizes(n, longest)
        return tuple(
            self.shared[each.name] if each.tied else self._scores(each, size, features)
            for each, size in zip(self._feed.tensors, sizes, strict=True)
        )

    def _scores(self, each: FedTensor, size: tuple[int, ...], features: Features) -> torch.Tensor:
        rows = features.rows[each.name]
        own = self.sparse[each.name](rows.ids, rows.offsets, rows.values)
        if rows.dense is not None and each.name in self.dense:
            own = own + self.dense[each.name](rows.dense)
        if each.name in self.constant:
            own = own + self.constant[each.name]
        fill = -torch.inf if features.is_pruned and each.name == "arc" else 0.0
        flat = own.new_full((int(np.prod(size)) // each.n_entries, each.n_entries), fill)
        return flat.index_copy(0, rows.place, own).view(size)

    def log_partition(self, features: Features) -> torch.Tensor:
        """As :func:`partwise.torch.log_partition`."""
        return log_partition(self.structure, *self(features), lengths=self._lengths(features))

    def marginals(self, features: Features) -> Any:
        """As :func:`partwise.torch.marginals`."""
        return marginals(self.structure, *self(features), lengths=self._lengths(features))

    def argmax(self, features: Features) -> Any:
        """As :func:`partwise.torch.argmax`: numbers of labels."""
        return argmax(self.structure, *self(features), lengths=self._lengths(features))

    def loss(
        self, features: Features, target: Any, loss: str | Loss | None = None, cost: Any = "hamming"
    ) -> torch.Tensor:
        """The sum of the losses of `target`, numbers of labels as :meth:`argmax` gives them; the model's own loss
        by default."""
        own = self.model.loss if loss is None else loss
        criterion = StructuredLoss(self.structure, own, cost, reduction="sum")
        return criterion(*self(features), target=target, lengths=self._lengths(features))

    def predict(self, X: Any) -> Any:
        """The same labels as `predict` of the model, under the module's weights."""
        given, encoded = _encoded(self.model, X)
        found = self.argmax(self._features(given, encoded)) if given.any() else torch.zeros(0)
        return _named(self.model, found, given)

    def _lengths(self, features: Features) -> torch.Tensor | None:
        return None if isinstance(self.structure, Multiclass) else features.lengths


def to_module(model: Any, dtype: torch.dtype = torch.float64) -> ModelModule:
    """A trained model as a PyTorch module, to be used within networks or trained further.

    Parameters
    ----------
    model : SequenceLabeler (of order 1), Classifier or DependencyParser (of first order), fitted
    dtype : torch.dtype
        Of the weights. In double precision, the default, `predict` of the module is that of the model.

    Examples
    --------
    >>> module = to_module(model)
    >>> features = module.encode(X)
    >>> module.argmax(features)  # numbers of labels, (n, longest)
    """
    if isinstance(model, Classifier):
        model._require_fitted()
        return ModelModule(model, Multiclass(len(model.classes_)), dtype)
    if isinstance(model, (SequenceLabeler, DependencyParser)):
        model._require_fitted()
        return ModelModule(model, model._model.structure, dtype)
    raise InputError(
        f"modules are made of a SequenceLabeler, Classifier or DependencyParser, not of {type(model).__name__}"
    )


# -- what differs between models ------------------------------------------------------------------------


def _table(model: Any, each: FedTensor) -> tuple[torch.Tensor, int, np.ndarray | None]:
    """Weights (n_attributes, width), dense ones first; how many these are; and a constant (width,) or None."""
    if isinstance(model, Classifier):
        n_dense = model.coef_.shape[1] if model._encoder is None else 0
        return torch.from_numpy(np.array(model.coef_.T, np.float64)), n_dense, model.intercept_
    own, weights = model._model.maps[each.name], model._model.weights_of(each.name)
    attribute, label, place = own.pairs()
    table = np.zeros((own.n_dense + len(own.count), own.width))
    table[attribute, label] = weights[place]
    return torch.from_numpy(table), own.n_dense, None


def _encoded(model: Any, X: Any) -> tuple[np.ndarray, Encoded]:
    """Lengths of all examples, and the rows of those that have positions."""
    if isinstance(model, Classifier):
        if model._encoder is None:
            rows = read_matrix(model, X)
            dense = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
            return np.ones(len(dense), np.int64), Encoded(
                np.ones(len(dense), np.int64), (OwnRows(None, dense),)
            )
        sparse = read_attributes(model._encoder, X).own[0].sparse
        assert sparse is not None
        lengths = np.ones(len(sparse.row_ptr) - 1, np.int64)
        return lengths, Encoded(lengths, (OwnRows(sparse),))
    encoded = model._encode(model._source(X), model._encoder, model._model.structure)
    return encoded.lengths, encoded


def _named(model: Any, found: Any, given: np.ndarray) -> Any:
    """Numbers of labels as the model's own `predict` returns labels."""
    if isinstance(model, Classifier):
        return model.classes_[found.cpu().numpy()]
    if isinstance(model, DependencyParser):
        parts = [each.cpu().numpy() for each in (found if isinstance(found, tuple) else (found,))]
        trees = [tuple(part[i, :n] for part in parts) for i, n in enumerate(given.tolist())]
        structure: Any = model._model.structure
        codes = [structure.codes(tree if len(tree) > 1 else tree[0]) for tree in trees]
        return [model._labelling(own, None, i) for i, own in enumerate(codes)]
    rows = iter(found.cpu().numpy())
    return [model.classes_[next(rows)[:n]].tolist() if n else [] for n in given.tolist()]


def _rows(own: OwnRows, place: np.ndarray, dtype: torch.dtype) -> Rows:
    sparse = own.sparse
    if sparse is None:
        sparse = AttributeRows(offsets(np.zeros(len(place), np.int64)), np.zeros(0, np.int32))
    values = np.ones(len(sparse.ids)) if sparse.values is None else sparse.values
    return Rows(
        torch.from_numpy(np.asarray(sparse.ids, np.int64)),
        torch.from_numpy(np.asarray(sparse.row_ptr, np.int64)),
        torch.from_numpy(np.asarray(values, np.float64)).to(dtype),
        None if own.dense is None else torch.from_numpy(np.asarray(own.dense, np.float64)).to(dtype),
        torch.from_numpy(place),
    )
