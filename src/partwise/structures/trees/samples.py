# mypy: ignore-errors
"""Samples of trees of one sentence: projective trees from the inside charts, spanning trees by random walks."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry
from partwise.compiled.simd import LANES, exponential_row, maximum
from partwise.structures.trees.arc_tables import stride_of, tree_workspace
from partwise.structures.trees.eisner.oracle import sample_heads
from partwise.structures.trees.inference import read_dense
from partwise.structures.trees.matrix_tree.sums import spanning_marginals, spanning_weights


@entry(allocates=True)
def sample_projective(specification, n, arcs, relations, uniforms, heads):  # type: ignore
    """Fill `heads` (n_samples, n) from `uniforms` (n_samples, 3 n). Returns −inf if no tree is possible."""
    work = tree_workspace(specification, n)
    read_dense(n, arcs, np.int64(0), relations, specification.n_relations, False, work)
    return sample_heads(specification, n, uniforms, heads, work)


@entry(allocates=True)
def sample_walks(specification, n, arcs, relations, roots, uniforms, done, heads):  # type: ignore
    """Wilson's (1996) algorithm: walk from each word to the tree so far. The last departures are its arcs.

    Fills rows of `heads` (n_samples, n) from row `done` on, until `uniforms` are used up. Returns the number of
    finished rows. With a single root, `roots` (n_samples,) has the word below the root. An unfinished row can be drawn
    again: the length of a walk is independent of the tree that it finds.
    """
    work = tree_workspace(specification, n)
    read_dense(n, arcs, np.int64(0), relations, specification.n_relations, False, work)
    single_root, width = specification.single_root and n > 1, (n + LANES - 1) & ~(LANES - 1)
    shifts = spanning_weights(n, single_root, work)
    if shifts != shifts:
        return done
    cumulative = np.empty((n, n + 1))
    for m in range(n):
        total = 0.0 if single_root else work.roots[m]
        cumulative[m, 0] = total
        for h in range(n):
            total += work.levels[m * width + h]
            cumulative[m, h + 1] = total
    used, in_tree = 0, np.empty(n + 1, np.bool_)
    while done < heads.shape[0]:
        own = heads[done]
        in_tree[:] = False
        in_tree[0] = True
        if single_root:
            in_tree[roots[done]] = True
            own[roots[done] - 1] = 0
        for start in range(1, n + 1):
            word = start
            while not in_tree[word]:
                if used == uniforms.size:
                    return done
                row = cumulative[word - 1]
                target = min(uniforms[used], 1.0 - 1e-15) * row[n]
                own[word - 1] = np.searchsorted(row, target, side="right")
                word = own[word - 1]
                used += 1
            word = start
            while not in_tree[word]:
                in_tree[word] = True
                word = own[word - 1]
        done += 1
    return done


@entry(allocates=True)
def sample_one_by_one(specification, n, arcs, relations, uniforms, heads):  # type: ignore
    """Colbourn et al. (1996): draw each word's head from its marginals given those drawn before.

    Much slower than a walk, but its time does not depend on cycles that a walk almost never leaves. Fills `heads`
    (n_samples, n) from `uniforms` of the same shape. Returns −inf if no tree is possible.
    """
    work, stride = tree_workspace(specification, n), stride_of(n)
    # Numba drops a write to an attribute of a local object, so the array needs a name.
    scores = work.scores
    for sample in range(heads.shape[0]):
        read_dense(n, arcs, np.int64(0), relations, specification.n_relations, False, work)
        for m in range(1, n + 1):
            if spanning_marginals(specification, n, work) == -np.inf:
                return -np.inf
            left, head = uniforms[sample, m - 1], -1
            for h in range(n + 1):
                share = work.marginals[m * stride + h] if h != m else 0.0
                if share > 0.0:
                    if head >= 0 and left < 0.0:
                        break
                    head = h
                    left -= share
            heads[sample, m - 1] = head
            for h in range(n + 1):
                if h != head:
                    scores[m * stride + h] = -np.inf
    return 0.0


@entry(allocates=True)
def sample_relations(n, relations, n_relations, uniforms, heads, labels):  # type: ignore
    """Fill `labels` (n_samples, n) with relations of the arcs in `heads`, from `uniforms` of the same shape."""
    stride = (n_relations + LANES - 1) & ~(LANES - 1)
    row = np.empty(stride)
    for sample in range(heads.shape[0]):
        for m in range(1, n + 1):
            at = (heads[sample, m - 1] * (n + 1) + m) * n_relations
            exponential_row(row, 0, relations, at, n_relations, stride, maximum(relations, at, n_relations))
            left, found = uniforms[sample, m - 1] * row[:n_relations].sum(), -1
            for r in range(n_relations):
                if row[r] > 0.0:
                    if found >= 0 and left < 0.0:
                        break
                    found = r
                    left -= row[r]
            labels[sample, m - 1] = found
