# mypy: ignore-errors
"""The k best labellings by partition (Lawler 1972), for structures whose lists of the k best would be too long.

A labelling is a row of codes, one per place. A set of labellings has a prefix of codes in common, and codes that are
banned at the next place. When the best labelling of a set is found, the rest of the set is partitioned: each new set
has a longer prefix of that labelling, and bans its next code. The set whose best labelling scores highest goes first.

A structure answers two questions about a set, in a problem record of its own.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, inner


@chosen_by_type
def best_of_set(problem, labellings, rank, place, banned, value, candidate):
    """The best score of the labellings that begin as number `rank` and have none of the codes `banned` at `place`.

    −inf if there is no labelling. `labellings` (k, places) are those found so far, and `value` is the score of number
    `rank`. Nothing is banned in the set of all labellings. The problem may keep its answer under the number
    `candidate`, which is at most (k − 1) · places.
    """


@chosen_by_type
def write_labelling(problem, labellings, rank, place, candidate):
    """Write the codes of the best labelling of a set to ``labellings[rank, place:]``; those before are there."""


@inner(allocates=True)
def rank_labellings(problem, labellings, values):  # type: ignore
    """Fill `labellings` (k, places) and `values` (k,), best first. Returns their number.

    Ties go to the set that was made first.
    """
    n_best, n_places = labellings.shape
    capacity = 1 + (n_best - 1) * n_places
    scores, banned = np.empty(capacity), np.empty(n_best, np.int64)
    n_fixed, origin = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    n_sets, last, fixed, end, value = 0, 0, 0, 1, np.inf
    for rank in range(n_best):
        # Partition the set whose best labelling was found last. At first, make the set of all labellings.
        for place in range(fixed, end):
            # Banned are the codes of all labellings found that begin as the last one. Beyond its own prefix there is
            # no other.
            n_banned = 0
            for other in range(0 if place == fixed else last, rank):
                same = 0
                while same < place and labellings[other, same] == labellings[last, same]:
                    same += 1
                if same == place:
                    banned[n_banned] = labellings[other, place]
                    n_banned += 1
            score = best_of_set(problem, labellings, last, place, banned[:n_banned], value, n_sets)
            if score > -np.inf:
                # Rounding must not rank a set's best above the labelling that the set was made from.
                scores[n_sets] = score if score < value else value
                n_fixed[n_sets], origin[n_sets] = place, last
                n_sets += 1
        best = 0
        for candidate in range(n_sets):
            if scores[candidate] > scores[best]:
                best = candidate
        if n_sets == 0 or scores[best] == -np.inf:
            return rank
        last, fixed, end, value = rank, n_fixed[best], n_places, scores[best]
        values[rank], scores[best] = value, -np.inf
        for place in range(fixed):
            labellings[rank, place] = labellings[origin[best], place]
        write_labelling(problem, labellings, rank, fixed, best)
    return n_best
