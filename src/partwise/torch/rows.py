"""The entries of score tensors that each row of features feeds.

Rows feed the parts of a problem (`docs/design.md`). The scores of a layer are padded tensors. A row of a
kind feeds the entries ``[..., position, :]`` of one tensor. The entries of a tied kind belong to all examples.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import block_of, offsets, positions
from partwise.errors import InputError
from partwise.structures.chain.chain import Chain
from partwise.structures.contract import Shapes, Structure
from partwise.structures.grammar.grammar import Grammar
from partwise.structures.multiclass.multiclass import Multiclass
from partwise.structures.trees.trees import Trees
from partwise.torch.functions import layout_for
from partwise.torch.layouts.chains import ChainLayout

_KIND, _N_ROWS, _FIRST_PART = 0, 2, 3  # columns of runs, see compiled/rows.py


class FedTensor(NamedTuple):
    """A tensor of scores.

    Attributes
    ----------
    name : str
        The kind of rows that feeds it.
    number : int
        The index of that kind in the structure.
    tail : tuple of int
        Sizes of the last axes, which one row feeds; the axes before are examples and positions.
    column : int64 array, shape (width,)
        The entries of the tail that a row's parts are: all, unless a grammar does not use all symbols.
    tied : bool
    """

    name: str
    number: int
    tail: tuple[int, ...]
    column: np.ndarray
    tied: bool

    @property
    def n_entries(self) -> int:
        return prod(self.tail)

    @property
    def width(self) -> int:
        """Number of parts that a row feeds."""
        return len(self.column)

    @property
    def is_whole(self) -> bool:
        """Whether a row's parts are all entries, in order."""
        return np.array_equal(self.column, np.arange(self.n_entries))

    def check(self) -> None:
        """Raise if two parts of a row share an entry: their weights could not differ."""
        if len(np.unique(self.column)) < self.width:
            raise InputError(
                f"a {self.name} has parts of its own for nodes that a unary rule built, which score tensors do not "
                f"tell apart: use a grammar without unary rules, or give no features of a {self.name}"
            )


class Feed:
    """The score tensors of a structure, in the order in which layers take them, and the rows that feed them."""

    tensors: tuple[FedTensor, ...]

    def __init__(self, structure: Structure):
        self.structure = structure
        self.layout = layout_for(structure)
        if isinstance(structure, Chain) and not structure.tied:
            self.layout = ChainLayout(structure, per_position=True)
        numbers = {kind.name: k for k, kind in enumerate(structure.kinds)}
        names = ["word", "rule", "span"] if isinstance(structure, Grammar) else list(numbers)
        self.tensors = tuple(self._tensor(name, numbers[name]) for name in names)

    def _tensor(self, name: str, number: int) -> FedTensor:
        kind, structure = self.structure.kinds[number], self.structure
        tail: tuple[int, ...] = (kind.width,)
        column = np.arange(kind.width)
        if name == "arc":
            tail = ()
        elif name in ("transition", "edge"):
            tail = (structure.n_labels, structure.n_labels)  # type: ignore[attr-defined]
        elif isinstance(structure, Grammar) and not kind.tied:
            tail, column = (structure.n_symbols,), structure.word_symbols
            if name == "span":
                column = np.concatenate([structure.binary_symbols, structure.unary_symbols])
        return FedTensor(name, number, tail, np.asarray(column, np.int64), kind.tied)

    @property
    def fed(self) -> tuple[FedTensor, ...]:
        """The tensors that rows of the examples feed."""
        return tuple(each for each in self.tensors if not each.tied)

    def axes(self, name: str, longest: int) -> tuple[int, ...]:
        """Sizes of the axes of positions of a kind, for examples padded to `longest`."""
        if isinstance(self.structure, Multiclass):
            return ()
        return {
            "edge": (longest - 1,),
            "arc": (longest + 1, longest + 1),
            "relation": (longest + 1, longest + 1),
            "segment": (longest, getattr(self.structure, "max_length", 1)),
            "span": (longest, longest),
        }.get(name, (longest,))

    def shapes(self, lengths: np.ndarray) -> Shapes:
        """The shapes of examples of these lengths."""
        return self.structure.shapes(lengths)

    def of_batch(self, given: tuple[Any, ...]) -> tuple[Feed, tuple[Any, ...]]:
        """The feed of a batch, and its activations, from the outputs of a module."""
        return self, given

    def arguments(self, scores: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of layers, from the score tensors of a batch."""
        return scores

    def sizes(self, n: int, longest: int) -> tuple[tuple[int, ...], ...]:
        """Sizes of all score tensors of `n` examples."""
        return tuple(
            (n, *(() if each.tied else self.axes(each.name, longest)), *each.tail) for each in self.tensors
        )

    def row_positions(self, shapes: Shapes, longest: int) -> dict[str, np.ndarray]:
        """By kind, the index of every row in its tensor, read as (positions, entries of a row): int64 (n_rows,)."""
        if isinstance(self.structure, Trees):
            return self._positions_of_arcs(shapes, longest)
        lengths = shapes.lengths
        plan: Any = self.layout.arrange(self.sizes(len(lengths), longest), lengths)
        run_ptr, runs = self.structure.runs(shapes)
        found = {}
        for each, own_map in zip(self.tensors, plan.maps, strict=True):
            if each.tied:
                continue
            mine = runs[:, _KIND] == each.number
            own, example = runs[mine], block_of(run_ptr)[mine]
            begin = np.repeat(plan.part_ptr[example] + own[:, _FIRST_PART], own[:, _N_ROWS])
            begin += each.width * positions(own[:, _N_ROWS])
            entry_of = np.zeros(int(plan.part_ptr[-1]), np.int64)
            part, entry = own_map.pairs()
            entry_of[part] = entry
            found[each.name] = entry_of[begin] // each.n_entries
        return found

    def _positions_of_arcs(self, shapes: Shapes, longest: int) -> dict[str, np.ndarray]:
        """As `row_positions` for trees, whose arcs may be pruned."""
        structure: Any = self.structure
        arcs, size = structure.arcs_of(shapes), longest + 1
        example = block_of(offsets(structure.n_arcs(shapes)))
        row = (example * size + arcs.head) * size + arcs.modifier
        return {each.name: row for each in self.fed}
