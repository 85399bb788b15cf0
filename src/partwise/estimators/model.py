"""A linear model ready to predict: structure, feature maps, weights; compact, and the same after loading.

Weights are rounded to single precision and those that become zero are dropped, with the attributes that have
no other, when training ends. What predicts after `fit` is therefore exactly what a model file brings back. Weights
of models from elsewhere keep their double precision, in memory and in files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.compiled.simd import LANES
from partwise.core.arrays import block_of, offsets, positions, ranges
from partwise.core.maps import FeatureMap
from partwise.core.one_example import OneExample
from partwise.core.pool import Pool
from partwise.core.predict_pass import counts_pass, decode_pass
from partwise.core.rows import AttributeRows
from partwise.core.scorer import Scorer
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, KindSize
from partwise.estimators.encoders import smallest
from partwise.storage.checks import expect_array
from partwise.structures.contract import PartLists, Structure

if TYPE_CHECKING:
    from partwise.structures.packed import Packed

_WHOLE = tuple(np.dtype(kind) for kind in ("u1", "u2", "u4"))
_NONE = np.zeros(0, np.int64)


class Pairs(NamedTuple):
    """Weights of (attribute, label) pairs, sorted, none of them zero; dense attributes come first.

    Attributes
    ----------
    attribute, label : int64 arrays, shape (n_pairs,)
    weight : float32 or float64 array, shape (n_pairs,)
    """

    attribute: np.ndarray
    label: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, feature_map: FeatureMap, weights: np.ndarray, precision: Any = np.float32) -> Pairs:
        """The weights of a kind, rounded to a precision, that are not zero."""
        attribute, label, index = feature_map.pairs()
        weight = weights[index].astype(precision)
        kept = np.flatnonzero(weight)
        order = kept[np.argsort(attribute[kept] * feature_map.width + label[kept])]
        return cls(attribute[order], label[order], weight[order])

    def renumbered(self, kept: np.ndarray, n_dense: int) -> Pairs:
        """With sparse attribute ``kept[k]`` called k."""
        sparse = np.searchsorted(kept, self.attribute - n_dense) + n_dense
        return self._replace(attribute=np.where(self.attribute < n_dense, self.attribute, sparse))

    def lay_out(self, width: int, n_dense: int, n_attributes: int) -> tuple[FeatureMap, np.ndarray]:
        """A map with room for these pairs, and the weights in it."""
        is_sparse = self.attribute >= n_dense
        ids = (self.attribute[is_sparse] - n_dense).astype(np.int32)
        rows = AttributeRows(np.arange(len(ids) + 1), ids)
        feature_map = FeatureMap.build(width, n_attributes, n_dense, rows, self.label[is_sparse], "observed")
        attribute, label, index = feature_map.pairs()
        key = attribute * width + label
        order = np.argsort(key)
        places = np.searchsorted(key[order], self.attribute * width + self.label)
        weights = np.zeros(feature_map.n_weights)
        weights[index[order[places]]] = self.weight
        return feature_map, weights

    def state(self, prefix: str, n_attributes: int) -> dict[str, np.ndarray]:
        """Arrays for a model file; `n_attributes` counts dense ones too."""
        return {
            f"{prefix}_count": smallest(np.bincount(self.attribute, minlength=n_attributes)),
            f"{prefix}_label": smallest(self.label),
            f"{prefix}_weight": _narrowed(self.weight),
        }

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, np.ndarray], prefix: str, n_attributes: int, width: int
    ) -> Pairs:
        count = expect_array(arrays, f"{prefix}_count", _WHOLE, shape=(n_attributes,))
        weight = _stored_weights(arrays, f"{prefix}_weight", (None,))
        label = expect_array(arrays, f"{prefix}_label", _WHOLE, shape=weight.shape, high=width)
        if count.sum(dtype=np.int64) != len(weight):
            raise InputError(f"array '{prefix}_count' does not add up to the number of weights")
        attribute = np.repeat(np.arange(n_attributes), count)
        if (np.diff(attribute * width + label) <= 0).any():
            raise InputError(f"array '{prefix}_label' holds a label twice for one attribute")
        return cls(attribute, label.astype(np.int64), weight)


@dataclass(frozen=True)
class LinearModel:
    """Structure, feature maps and all weights, kind of rows after kind of rows.

    Attributes
    ----------
    maps : dict of FeatureMap
        By the name of the kind; tied kinds included.
    weights : ndarray (n_weights,)
        Double precision numbers that single precision can hold, unless the model comes from elsewhere.
    """

    structure: Structure
    maps: dict[str, FeatureMap]
    weights: np.ndarray

    def weights_of(self, name: str) -> np.ndarray:
        """The weights of a kind of rows, padding included; none where the structure has no such kind."""
        first = 0
        for kind, feature_map in self.maps.items():
            if kind == name:
                return self.weights[first : first + feature_map.n_weights]
            first += feature_map.n_weights
        return self.weights[:0]

    @property
    def own_weights(self) -> np.ndarray:
        """All weights without padding, kind after kind."""
        own = [self.weights_of(name)[np.sort(each.pairs()[2])] for name, each in self.maps.items()]
        return np.concatenate([self.weights[:0], *own])

    @property
    def tied_weights(self) -> np.ndarray:
        """Weights that are scores of the parts that all examples share."""
        own = [self.weights_of(kind.name)[: kind.width] for kind in self.structure.kinds if kind.tied]
        return np.concatenate([self.weights[:0], *own])

    @classmethod
    def assemble(
        cls, structure: Structure, sizes: Sequence[KindSize], pairs: list[Pairs], tied: np.ndarray
    ) -> LinearModel:
        """From weights by pair; the only way models are made, after training and after loading."""
        maps, weights, own_pairs = {}, [], iter(zip(pairs, sizes, strict=True))
        for kind in structure.kinds:
            if kind.tied:
                maps[kind.name] = FeatureMap.build(kind.width, 1)
                own, tied = tied[: kind.width], tied[kind.width :]
                weights.append(np.pad(own, (0, maps[kind.name].n_weights - kind.width)))
            else:
                own_of_kind, size = next(own_pairs)
                maps[kind.name], laid_out = own_of_kind.lay_out(kind.width, *size)
                weights.append(laid_out)
        return cls(structure, maps, np.ascontiguousarray(np.concatenate(weights), np.float64))

    def state(self, sizes: Sequence[KindSize]) -> dict[str, np.ndarray]:
        """Arrays for a model file."""
        arrays = {"tied_weight": _narrowed(self.tied_weights)}
        for k, ((name, own_map), size) in enumerate(zip(self._own_maps(), sizes, strict=True)):
            pairs = Pairs.of(own_map, self.weights_of(name), np.float64)
            arrays |= pairs.state(_in_files(k), sum(size))
        return arrays

    def _own_maps(self) -> list[tuple[str, FeatureMap]]:
        """Maps of the kinds that are not tied."""
        return [(kind.name, self.maps[kind.name]) for kind in self.structure.kinds if not kind.tied]

    @classmethod
    def from_state(
        cls, structure: Structure, sizes: Sequence[KindSize], arrays: Mapping[str, np.ndarray]
    ) -> LinearModel:
        own = [kind for kind in structure.kinds if not kind.tied]
        pairs = [
            Pairs.from_state(arrays, _in_files(k), sum(size), kind.width)
            for k, (kind, size) in enumerate(zip(own, sizes, strict=True))
        ]
        tied = _stored_weights(arrays, "tied_weight", (structure.n_tied,))
        return cls.assemble(structure, sizes, pairs, tied)

    @cached_property
    def one_at_a_time(self) -> Pool[OneExample]:
        """Memory to answer single examples, for any number of threads."""
        return Pool(partial(OneExample, self.structure, self.maps, self.weights))

    def under(self, structure: Structure) -> LinearModel:
        """The same weights with other masks."""
        return replace(self, structure=structure)

    # -- passes over encoded sequences ----------------------------------------------------------

    def scorer(self, encoded: Encoded) -> Scorer:
        """Rows bound to the weights; sequences without positions are left out."""
        return Scorer.build(
            self.structure, encoded.shapes_for(self.structure), encoded.rows(self.structure, self.maps)
        )

    def best(self, scorer: Scorer, excluded: Excluded | None, n_jobs: int) -> tuple[Any, np.ndarray]:
        """Best labels, as the structure has them, and their scores (n_examples,).

        Where nothing is possible the score of an example is −inf, and there are no labels at all.
        """
        if len(self.structure.long_examples(scorer.shapes)):
            packed = self.packed(scorer, 1.0, None, excluded, n_jobs)
            values, counts = packed.answers("best", 1, n_jobs)
            return (None if (values == -np.inf).any() else packed.labels(counts)), values
        found_ptr = offsets(self.structure.most_parts(scorer.shapes))
        found, n_found = np.zeros(found_ptr[-1], np.int64), np.zeros(scorer.n_examples, np.int64)
        values = np.zeros(scorer.n_examples)
        ptr, part = excluded or (_NONE, _NONE)

        def work(first: int, last: int, scratch: Scratch, thread: int) -> None:
            for piece in scorer.pieces(first, last, self.weights):
                decode_pass(*piece, self.weights, ptr, part, found_ptr, found, n_found, values, scratch)

        scorer.over_examples(np.float64, work, n_jobs, ("best",))
        if (values == -np.inf).any():
            return None, values
        used = positions(np.diff(found_ptr))
        kept = used < np.repeat(n_found, np.diff(found_ptr))
        return self.structure.decode_all(PartLists(offsets(n_found), found[kept]), scorer.shapes), values

    def packed(
        self, scorer: Scorer, scale: float, cost: np.ndarray | None, excluded: Excluded | None, n_jobs: int
    ) -> Packed:
        """scale · scores + cost in the form that the structure's own methods read."""
        from partwise.structures.packed import Packed

        flat, part_ptr = np.zeros(scorer.n_parts + LANES), scorer.batch.part_ptr
        np.multiply(scorer.scores(self.weights, n_jobs), scale, out=flat[:-LANES])
        if cost is not None:
            flat[:-LANES] += cost
        if excluded is not None:
            flat[part_ptr[block_of(excluded.ptr)] + excluded.part] = -np.inf
        return Packed(self.structure, self.structure.specification(), scorer.shapes, part_ptr, flat, False)

    def counts(
        self,
        scorer: Scorer,
        scale: float,
        cost: np.ndarray | None = None,
        excluded: Excluded | None = None,
        what: str = "first",
        n_jobs: int = 1,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected counts at scale · scores + cost, and log-partitions.

        Parameters
        ----------
        cost : ndarray (n_parts,) of float32, optional
        what : {"first", "all", "nothing"}
            Parts of the first kind of rows, all parts, or none.
        """
        batch = scorer.batch if cost is None else scorer.batch._replace(cost=cost)
        kind = self.structure.kinds[0]
        count_ptr = batch.part_ptr
        if what == "first":
            count_ptr = offsets(self.structure.row_counts(scorer.shapes)[0] * kind.width)
        if len(self.structure.long_examples(scorer.shapes)):
            packed = self.packed(scorer, scale, cost, excluded, n_jobs)
            log_total, counts = packed.answers("sums", int(what != "nothing"), n_jobs)
            if what == "first":
                counts = counts[ranges(batch.part_ptr[:-1], np.diff(count_ptr))]
            return counts, log_total
        counts = np.zeros(0 if what == "nothing" else int(count_ptr[-1]))
        log_total = np.zeros(scorer.n_examples)
        ptr, part = excluded or (_NONE, _NONE)

        def work(first: int, last: int, scratch: Scratch, thread: int) -> None:
            for piece in scorer.pieces(first, last, self.weights, batch=batch):
                counts_pass(
                    *piece, self.weights, scale, 1.0, ptr, part, count_ptr, counts, log_total, scratch
                )

        scorer.over_examples(np.float64, work, n_jobs, ("sums",))
        return counts, log_total


class Excluded(NamedTuple):
    """Parts that no labelling may have, by example.

    Attributes
    ----------
    ptr : int64 array, shape (n + 1,)
    part : int64 array, shape (ptr[n],)
    """

    ptr: np.ndarray
    part: np.ndarray

    @classmethod
    def all_but(cls, codes: np.ndarray, lengths: np.ndarray, n_labels: int) -> Excluded:
        """All labels but the given one, or none where it is −1, at every position; (n_positions,) of them."""
        known = np.flatnonzero(codes >= 0)
        first = positions(lengths)[known] * n_labels
        others = np.arange(n_labels - 1)[None, :]
        part = first[:, None] + others + (others >= codes[known][:, None])
        example = block_of(offsets(lengths))[known]
        sizes = np.bincount(example, minlength=len(lengths)) * (n_labels - 1)
        return cls(offsets(sizes), np.ascontiguousarray(part.ravel()))


def compact(
    structure: Structure, encoder: Any, maps: Mapping[str, FeatureMap], weights: np.ndarray
) -> tuple[Any, LinearModel]:
    """Encoder and model without what has no weight.

    An encoder has `sizes`, a :class:`KindSize` for each of the structure's kinds that are not tied, and `keep`, which
    takes the sparse attributes with weights by kind and returns a smaller encoder and those that it still has.
    """
    whole = LinearModel(structure, dict(maps), weights)
    pairs = [Pairs.of(own_map, whole.weights_of(name)) for name, own_map in whole._own_maps()]
    n_dense = [size.n_dense for size in encoder.sizes]
    used = [_distinct(own.attribute[own.attribute >= n]) - n for own, n in zip(pairs, n_dense, strict=True)]
    smaller, kept = encoder.keep(used)
    pairs = [own.renumbered(ids, n) for own, ids, n in zip(pairs, kept, n_dense, strict=True)]
    tied = whole.tied_weights.astype(np.float32)
    return smaller, LinearModel.assemble(structure, smaller.sizes, pairs, tied)


def _narrowed(weight: np.ndarray) -> np.ndarray:
    """Weights in single precision if that holds them all exactly."""
    with np.errstate(over="ignore"):
        single = weight.astype(np.float32)
    return single if (single == weight).all() else weight


def _stored_weights(arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Weights of a file, none larger than single precision holds."""
    weight = expect_array(arrays, name, (np.dtype(np.float32), np.dtype(np.float64)), shape=shape)
    if weight.dtype == np.float64 and np.abs(weight).max(initial=0.0) > np.finfo(np.float32).max:
        raise InputError(f"array {name!r} holds weights that are too large")
    return weight


def _in_files(k: int) -> str:
    """What the arrays of the k-th kind of rows that is not tied are called."""
    return ("node", "edge")[k] if k < 2 else f"kind{k}"


def _distinct(ordered: np.ndarray) -> np.ndarray:
    """The distinct numbers of an array in ascending order."""
    return ordered[np.diff(ordered, prepend=-1) > 0]
