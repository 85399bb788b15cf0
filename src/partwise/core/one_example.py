"""Answers for one example at a time: memory that is made once and kept, and one call of compiled code.

`Scorer` serves many examples: it makes arrays and checks them for each call, which takes longer than to label a
sentence. Here all arrays are made for the longest example so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import CFUNCTYPE, PYFUNCTYPE, c_char_p, c_double, c_int64
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.compiled.background_compile import obtain
from partwise.compiled.boundary import array_address, pack, stack_packed
from partwise.compiled.dispatch import IS_OFF
from partwise.compiled.row_tasks import row_tasks
from partwise.compiled.rows import KindRows, packed_rows
from partwise.compiled.simd import LANES
from partwise.core import one_example_pass
from partwise.core.maps import FeatureMap
from partwise.core.one_example_pass import Frame, KindRoom
from partwise.core.rows import shared_row

if TYPE_CHECKING:
    from partwise.structures.contract import Structure

_LONGEST = 1000  # Positions of examples that are answered here, which bounds the memory that is kept.
_MOST_CODES = 2**17  # Words of coded attributes of an example, for the same reason.
_MOST_FRAMES = 256  # Lengths whose frames are kept, a few kB each.
# Nanoseconds of a call from which other threads may run meanwhile. To give the interpreter's lock away and to wait for
# it again takes tens of microseconds if other threads want it, and both threads wait.
_LONG = 100_000.0
_A_CODE, _A_SCORE = 10.0, 0.5  # Nanoseconds of an attribute, and of each part that it scores.


class OneExample:
    """Scores one example at a time, for one thread.

    The structure must have shapes that are lengths, and its rows no dense attributes.

    Parameters
    ----------
    structure : Structure
    maps : dict of FeatureMap
        By the name of the kind of rows, tied kinds included.
    weights : float64 array, shape (n_weights,)

    Attributes
    ----------
    labels : int64 array
        After `best`, the label of each position of a structure with labels of positions.
    counts : float64 array
        After `sums`, expected counts of parts.
    work : NamedTuple
        The workspace of the structure.
    """

    def __init__(self, structure: Structure, maps: Mapping[str, FeatureMap], weights: np.ndarray):
        self._structure, self._maps, self._weights = structure, maps, weights
        self._longest = self._most_codes = 0
        self._frames: dict[tuple[str, int], tuple[Any, float, Any]] = {}
        self._code_effort = _A_CODE + _A_SCORE * structure.kinds[0].width

    def best(self, length: int, codes: bytes) -> float:
        """The score of the best labelling; NaN if the example cannot be answered here, −inf if it has none."""
        return self._answer("best", length, codes, 1.0)

    def sums(self, length: int, codes: bytes, scale: float) -> float:
        """The log-partition at scale · scores; NaN if the example cannot be answered here."""
        return self._answer("sums", length, codes, scale)

    def _answer(self, which: str, length: int, codes: bytes, scale: float) -> float:
        n_codes = len(codes) // 4
        if length > self._longest or n_codes > self._most_codes:
            if length > _LONGEST or n_codes > _MOST_CODES:
                return float("nan")
            self._make_room(length, n_codes)
        address, effort, _ = self._frames.get((which, length)) or self._frame(which, length)
        is_long = effort + n_codes * self._code_effort > _LONG
        return _compiled(which, is_long)(address, codes, n_codes, scale)

    def _make_room(self, length: int, n_codes: int) -> None:
        """Arrays for examples of twice this size."""
        self._longest = min(max(2 * length, self._longest), _LONGEST)
        self._most_codes = min(max(2 * n_codes, self._most_codes), _MOST_CODES)
        structure, longest = self._structure, self._structure.shapes([self._longest])
        self._frames.clear()
        self.work = structure.workspace(longest)
        self._specification = structure.specification()
        most_parts = int(structure.n_parts(longest)[0]) + 2 * LANES
        self._scores, self.counts = np.zeros(most_parts), np.zeros(most_parts)
        self._row = np.zeros(max(LANES, *(each.stride for each in self._maps.values())))
        self.labels = np.zeros(self._longest, np.int64)
        own = [kind.name for kind in structure.kinds if not kind.tied]
        self._rooms = {name: self._room(self._maps[name]) for name in own}
        self._packed_rooms = stack_packed([pack(room) for room in self._rooms.values()])
        self._plain_kinds, self._valued_kinds = self._kinds(False), self._kinds(True)

    def _room(self, own_map: FeatureMap) -> KindRoom:
        n_rows, n = self._longest + 1, self._most_codes
        values = np.zeros(n + 1)
        return KindRoom(
            start=own_map.start, count=own_map.count,
            row_ptr=np.zeros(n_rows, np.int64), ids=np.zeros(n, np.int32), values=values, words=values.view(np.int32),
            wide_ptr=np.zeros(n_rows, np.int64), wide_start=np.zeros(n, np.int32), wide_value=np.ones(n, np.float32),
            narrow_ptr=np.zeros(n_rows, np.int64), narrow_start=np.zeros(n, np.int32),
            narrow_count=np.zeros(n, np.int32), narrow_value=np.ones(n, np.float32),
        )  # fmt: skip

    def _kinds(self, valued: bool) -> list[KindRows]:
        """The rows of all kinds over the arrays of `_rooms`, for attributes with values or without."""
        kinds, first_weight = [], 0
        for kind in self._structure.kinds:
            own_map = self._maps[kind.name]
            bound = own_map.bind(shared_row() if kind.tied else None, 1, first_weight)
            if not kind.tied:
                room = self._rooms[kind.name]
                bound = bound._replace(
                    wide_ptr=room.wide_ptr,
                    wide_start=room.wide_start,
                    wide_value=room.wide_value if valued else room.wide_value[:0],
                    narrow_ptr=room.narrow_ptr,
                    narrow_start=room.narrow_start,
                    narrow_count=room.narrow_count,
                    narrow_value=room.narrow_value if valued else room.narrow_value[:0],
                )
            kinds.append(bound)
            first_weight += own_map.n_weights
        return kinds

    def _frame(self, which: str, length: int) -> tuple[Any, float, Any]:
        """The address of the packed frame of examples of this length, the nanoseconds that the structure needs for
        them, and what must stay alive with the frame."""
        structure, shapes = self._structure, self._structure.shapes([length])
        runs = structure.runs(shapes)
        plain, valued = (packed_rows(kinds, *runs) for kinds in (self._plain_kinds, self._valued_kinds))
        score, answer = map(obtain, (row_tasks("double")[0], structure.oracle.task(which)))
        specification, work = pack(self._specification), pack(self.work)
        frame = Frame(
            score=score.__wrapped__ if IS_OFF else score.address,
            answer=answer.__wrapped__ if IS_OFF else answer.address,
            specification=array_address(specification),
            work=array_address(work),
            plain_rows=array_address(plain[0]),
            valued_rows=array_address(valued[0]),
            kinds=self._packed_rooms,
            n_rows=np.array([int(count[0]) for count in structure.row_counts(shapes)], np.int64),
            weights=self._weights,
            shape=np.ascontiguousarray(shapes.values, np.int32),
            n_parts=int(structure.n_parts(shapes)[0]),
            width=structure.kinds[0].width,
            scores=self._scores,
            counts=self.counts,
            row=self._row,
            labels=self.labels,
        )
        record = pack(frame)
        if len(self._frames) >= _MOST_FRAMES:
            self._frames.clear()
        held = record, frame, specification, work, plain, valued
        found = array_address(record), structure.sums_effort(shapes), held
        self._frames[which, length] = found
        return found


@cache
def _compiled(which: str, is_long: bool) -> Callable[..., float]:
    """A pass as a function of a frame's address, codes, their number of words, and a scale.

    Other threads may run during long calls.
    """
    compiled = obtain(f"{one_example_pass.__name__}:compiled_pass:{which}")
    if IS_OFF:
        function = compiled.__wrapped__
        return lambda frame, codes, *rest: function(frame, np.frombuffer(codes, np.int32), *rest)
    make = CFUNCTYPE if is_long else PYFUNCTYPE
    return make(c_double, c_int64, c_char_p, c_int64, c_double)(compiled.address)
