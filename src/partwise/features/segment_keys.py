# mypy: ignore-errors
"""Keys of features of segments in compiled code: the codes of a template's fields, hashed to one integer.

A feature is a template and a list of codes: a length, the code of a string, or for ``all`` the codes of every position.
Its key depends only on them, so a vocabulary can be stored as lists of codes and keys computed again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.features.attribute_keys import find_slot

LENGTH, FIRST, LAST, ALL, ANY = range(5)
_MASK = 2**62 - 1  # Keys are not negative.


class SegmentProgram(NamedTuple):
    """Templates as numbers: fields of template t are ``field_ptr[t]`` to ``field_ptr[t + 1]``.

    Attributes
    ----------
    field_ptr : int64 (n_templates + 1,)
    place, source, offset : int64 (n_fields,)
        The observed positions, the row of the codes, the distance from the border.
    """

    field_ptr: np.ndarray
    place: np.ndarray
    source: np.ndarray
    offset: np.ndarray


class Spans(NamedTuple):
    """Segments of a corpus by positions over all of it: int64 arrays (n,), `end` and `last` not included.

    Attributes
    ----------
    begin, end : bounds of the sentence.
    first, last : bounds of the segment.
    """

    begin: np.ndarray
    end: np.ndarray
    first: np.ndarray
    last: np.ndarray


@inner
def _mix(key, code):
    mixed = ((key ^ (code + 1)) * 0x1E3779B97F4A7C15) & _MASK
    return mixed ^ (mixed >> 31)


@inner
def _seed(template):
    return _mix(np.int64(0x2545F4914F6CDD1D & _MASK), np.int64(template))


@inner
def _code_at(codes, source, at, begin, end):
    """Code 0 of every source stands for all places outside the sentence."""
    return np.int64(codes[source, at]) if begin <= at < end else np.int64(0)


@inner
def _key(program, codes, template, begin, end, first, last, inside):
    """The key of one feature, or −1 if it is absent; `inside` is the position that ``any`` observes."""
    key = _seed(template)
    for f in range(program.field_ptr[template], program.field_ptr[template + 1]):
        place, source = program.place[f], program.source[f]
        if place == LENGTH:
            key = _mix(key, last - first)
        elif place == ALL:
            for at in range(first, last):
                if codes[source, at] < 0:
                    return np.int64(-1)
                key = _mix(key, np.int64(codes[source, at]))
        else:
            at = inside
            if place == FIRST:
                at = first + program.offset[f]
            elif place == LAST:
                at = last - 1 + program.offset[f]
            code = _code_at(codes, source, at, begin, end)
            if code < 0:
                return np.int64(-1)
            key = _mix(key, code)
    return key


@inner
def _has_any(program, template):
    found = False
    for f in range(program.field_ptr[template], program.field_ptr[template + 1]):
        found = found or program.place[f] == ANY
    return found


@inner
def _keys_of(program, codes, begin, end, first, last, keys, written, origin):
    """Append the keys of one segment, each once; returns the number of keys so far.

    Template and position of each key are written to `origin` unless it is empty."""
    for template in range(len(program.field_ptr) - 1):
        stop = last if _has_any(program, template) else first + 1
        own = written
        for inside in range(first, stop):
            key = _key(program, codes, template, begin, end, first, last, inside)
            known = key < 0
            for k in range(own, written):
                known = known or keys[k] == key
            if not known:
                keys[written] = key
                if len(origin):
                    origin[written, 0], origin[written, 1] = template, inside
                written += 1
    return written


@entry
def list_keys(program, codes, spans, row_ptr, keys, origin):
    """Keys of all segments, one after another, with template and position of each."""
    written = 0
    for row in range(len(spans.first)):
        begin, end, first, last = spans.begin[row], spans.end[row], spans.first[row], spans.last[row]
        written = _keys_of(program, codes, begin, end, first, last, keys, written, origin)
        row_ptr[row + 1] = written
    return written


@entry
def find_rows(program, codes, spans, table, keys, nothing, row_ptr, ids):
    """Numbers of the features of segments that are in the table; returns how many there are. `nothing` is empty."""
    written = 0
    for row in range(len(spans.first)):
        begin, end, first, last = spans.begin[row], spans.end[row], spans.first[row], spans.last[row]
        n_keys = _keys_of(program, codes, begin, end, first, last, keys, 0, nothing)
        for k in range(n_keys):
            number = table[find_slot(keys[k], table), 1]
            if number >= 0:
                ids[written] = number
                written += 1
        row_ptr[row + 1] = written
    return written


@inner
def _write(out, at, code):
    """Write a code if there is room, and count it."""
    if at < len(out):
        out[at] = code
    return at + 1


@entry
def list_codes(program, codes, spans, chosen, origin, ptr, out):
    """The lists of codes behind features: of segment ``chosen[k]``, template and position ``origin[k]``.

    With an empty `out` only their sizes are found, as differences of `ptr`.
    """
    at = 0
    for k in range(len(chosen)):
        row, template, inside = chosen[k], origin[k, 0], origin[k, 1]
        begin, end, first, last = spans.begin[row], spans.end[row], spans.first[row], spans.last[row]
        for f in range(program.field_ptr[template], program.field_ptr[template + 1]):
            place, source = program.place[f], program.source[f]
            if place == LENGTH:
                at = _write(out, at, last - first)
            elif place == ALL:
                for position in range(first, last):
                    at = _write(out, at, np.int64(codes[source, position]))
            else:
                where = inside
                if place == FIRST:
                    where = first + program.offset[f]
                elif place == LAST:
                    where = last - 1 + program.offset[f]
                at = _write(out, at, _code_at(codes, source, where, begin, end))
        ptr[k + 1] = at


@entry
def keys_from_codes(template_of, ptr, listed, keys):
    """Compute the keys of features from their templates and lists of codes."""
    for k in range(len(template_of)):
        key = _seed(template_of[k])
        for at in range(ptr[k], ptr[k + 1]):
            key = _mix(key, listed[at])
        keys[k] = key
