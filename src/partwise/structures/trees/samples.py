# mypy: ignore-errors
"""Samples of trees, one sentence at a time: projective ones from the inside charts, others by random walks."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.simd import LANES, exponential_row, maximum
from partwise.structures.trees.arc_tables import stride_of, tree_workspace
from partwise.structures.trees.eisner.logs import projective_charts_in_logs
from partwise.structures.trees.eisner.sums import nothing_lost, projective_inside, projective_weights
from partwise.structures.trees.inference import read_dense
from partwise.structures.trees.matrix_tree.sums import spanning_marginals, spanning_weights


@inner
def log_of(x):  # type: ignore
    return math.log(x) if x > 0.0 else -np.inf


@inner(allocates=True)
def _log_charts(n, first_row, work):  # type: ignore
    """Logarithms of the charts: of those in the linear domain where nothing was lost there."""
    stride = stride_of(n)
    shifts = projective_weights(n, work)
    if shifts == shifts:
        total = projective_inside(n, first_row, False, work)
        if nothing_lost(n, total):
            charts = np.empty((4, n + 1, n + 1))
            for i in range(first_row, n + 1):
                for j in range(i, n + 1):
                    at = i * stride + j
                    charts[0, i, j] = log_of(work.right[at])
                    charts[1, i, j] = log_of(work.left[at])
                    if j > i:
                        charts[2, i, j] = log_of(work.inner_right[at])
                        charts[3, i, j] = log_of(work.inner_left[at])
            for m in range(1, n + 1):
                work.scores[m * stride] = log_of(work.weights[m * stride])
            return math.log(total), charts[0], charts[1], charts[2], charts[3]
    return projective_charts_in_logs(n, first_row, stride, work.scores)


@inner
def _draw(logs, log_total, uniform):  # type: ignore
    """An index with probability exp(logs − log_total); the last possible one takes what rounding leaves over."""
    chosen = -1
    for k in range(logs.size):
        if logs[k] > -np.inf:
            if chosen >= 0 and uniform < 0.0:
                break
            chosen = k
            uniform -= math.exp(logs[k] - log_total)
    return chosen


@entry(allocates=True)
def sample_projective(specification, n, arcs, relations, uniforms, heads):  # type: ignore
    """Fill `heads` (n_samples, n) from `uniforms` (n_samples, 3 n); returns −inf where no tree is possible.

    Spans are split from the outside in, each alternative with its share of the chart's entry.
    """
    work = tree_workspace(specification, n)
    read_dense(n, arcs, np.int64(0), relations, specification.n_relations, False, work)
    first_row, stride = (1 if specification.single_root else 0), stride_of(n)
    total, right, left, inner_right, inner_left = _log_charts(n, first_row, work)
    if total == -np.inf:
        return total
    logs, spans = np.empty(n + 1), np.empty((2 * n + 4, 3), np.int64)
    for sample in range(heads.shape[0]):
        spans[0, 0], spans[0, 1], spans[0, 2], count, used = 0, n, 1, 1, 0
        if specification.single_root:
            for r in range(1, n + 1):
                logs[r - 1] = work.scores[r * stride] + left[1, r] + right[r, n]
            root = 1 + _draw(logs[:n], total, uniforms[sample, 0])
            heads[sample, root - 1] = 0
            spans[0, 0], spans[0, 1], spans[0, 2] = 1, root, 0
            spans[1, 0], spans[1, 1], spans[1, 2], count, used = root, n, 1, 2, 1
        while count > 0:
            count -= 1
            i, j, kind = spans[count, 0], spans[count, 1], spans[count, 2]
            if i == j:
                continue
            size = j - i
            if kind == 1:
                for k in range(size):
                    logs[k] = inner_right[i, i + 1 + k] + right[i + 1 + k, j]
                split = i + 1 + _draw(logs[:size], right[i, j], uniforms[sample, used])
                heads[sample, split - 1] = i
                spans[count, 0], spans[count, 1], spans[count, 2] = split, j, 1
                low, high = i, split
            else:
                for k in range(size):
                    logs[k] = left[i, i + k] + inner_left[i + k, j]
                split = i + _draw(logs[:size], left[i, j], uniforms[sample, used])
                heads[sample, split - 1] = j
                spans[count, 0], spans[count, 1], spans[count, 2] = i, split, 0
                low, high = split, j
            for k in range(low, high):
                logs[k - low] = right[low, k] + left[k + 1, high]
            top = logs[: high - low].max()
            half = top + math.log(np.exp(logs[: high - low] - top).sum())
            meeting = low + _draw(logs[: high - low], half, uniforms[sample, used + 1])
            spans[count + 1, 0], spans[count + 1, 1], spans[count + 1, 2] = low, meeting, 1
            spans[count + 2, 0], spans[count + 2, 1], spans[count + 2, 2] = meeting + 1, high, 0
            count, used = count + 3, used + 2
    return total


@entry(allocates=True)
def sample_walks(specification, n, arcs, relations, roots, uniforms, done, heads):  # type: ignore
    """Wilson's (1996) algorithm: walk from each word to the tree so far; the last departures are its arcs.

    Fills rows of `heads` (n_samples, n) from row `done` on, until `uniforms` are used up; returns the rows then
    done. `roots` (n_samples,) holds the word below the root where there is a single one. A row for which the numbers
    did not suffice is to be done again: how long a walk takes says nothing about the tree it finds.
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

    Much slower than a walk, and not to be held up by cycles that a walk leaves once in 1e300 times. Fills `heads`
    (n_samples, n) from `uniforms` of the same shape; returns −inf where no tree is possible.
    """
    work, stride = tree_workspace(specification, n), stride_of(n)
    # By a name of its own: Numba takes a write to an attribute of a local object for dead code.
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
