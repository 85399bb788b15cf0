# mypy: ignore-errors
"""Hashes: of keys, of all words of a row together, and of the features of tokens."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, fragment
from partwise.features.keys.rows import code_of


@fragment
def product(a, b):
    """The lowest 64 bits of a product.

    LLVM takes it that products of signed numbers do not overflow. It then tells their sign from those of the factors,
    and shifts of the same product give other bits in another place of the code.
    """
    return np.int64(np.uint64(a) * np.uint64(b))


@fragment
def mixed(key):
    """Spread a key over 64 bits, of which the highest are the best."""
    first = product(key, 0x1E3779B97F4A7C15)
    return product(first ^ (first >> 32), 0x2545F4914F6CDD1D)


@entry
def window_keys(codes, sources, longest, sentence_ptr, row_ptr, first, last, keys):
    """Hash the codes of all words of every row, int64 (n_windows, n_rows); -1 if one has no value or they are too many.

    A row that is the one before it and one word more goes on from there.
    """
    for w in range(len(sources)):
        source = sources[w]
        for s in range(len(sentence_ptr) - 1):
            begin, previous, reached, key = sentence_ptr[s], np.int64(-1), np.int64(-1), np.int64(0)
            for row in range(row_ptr[s], row_ptr[s + 1]):
                if first[row] != previous or last[row] < reached:
                    previous, reached, key = np.int64(first[row]), np.int64(first[row]) - 1, np.int64(1)
                while reached < last[row]:
                    reached += 1
                    code = np.int64(codes[source, begin + reached])
                    if code < 0 or reached - previous >= longest[w]:
                        key = np.int64(-1)
                    elif key >= 0:
                        mixed_key = product(key ^ (code + 1), 0x1E3779B97F4A7C15) & 0x3FFFFFFFFFFFFFFF
                        key = mixed_key ^ (mixed_key >> 31)
                keys[w, row] = key


@entry
def hash_rows(program, words, tokens, seeds, hash_ptr, hashes, size, row_ptr, ids):
    """Hash the features of tokens to `size` numbers by their strings alone; returns how many were written.

    The hashes of source k's strings begin at ``hash_ptr[k]``.
    """
    n_written = 0
    for sentence in range(len(tokens.row_ptr) - 1):
        begin = words.sentence_ptr[sentence]
        length = words.sentence_ptr[sentence + 1] - begin
        for row in range(tokens.row_ptr[sentence], tokens.row_ptr[sentence + 1]):
            place = row - tokens.row_ptr[sentence] + tokens.skip + 1
            relation_part = program.relation_part[(place == 1) + 2 * (place == length)]
            for t in range(len(program.base)):
                key = seeds[t] if relation_part[t] >= 0 else np.int64(-1)
                for piece in range(program.piece_ptr[0, t], program.piece_ptr[0, t + 1]):
                    at, source = place + program.piece_offset[piece], program.piece_source[piece]
                    code = code_of(program, words, begin, length, source, at)
                    if key >= 0 and code >= 0:
                        mixed_key = product(key ^ hashes[hash_ptr[source] + code], 0x2545F4914F6CDD1D)
                        key = (mixed_key ^ (mixed_key >> 29)) & 0x7FFFFFFFFFFFFFFF
                    else:
                        key = np.int64(-1)
                if key >= 0:
                    ids[n_written] = key % size
                    n_written += 1
            row_ptr[row + 1] = n_written
    return n_written
