# mypy: ignore-errors
"""The best spanning tree: Chu–Liu–Edmonds on a dense table, n² operations (Tarjan 1977; Camerini et al. 1979).

Follow best heads from word to word. If that closes a cycle, merge its words. The merged row has, for every head outside
the cycle, the best gain of entering the cycle from there instead of using the cycle's own arc. Only rows are merged,
not columns. At the end cycles are opened again, the last one first.

With a single root, an arc from the root is used only if no other arc is possible. This finds the best tree among those
with the fewest arcs from the root.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.structures.trees.arc_tables import stride_of


@inner(allocates=True)
def spanning_best(n, single_root, work):  # type: ignore
    """Fill ``work.heads`` with the best tree. Returns its score, −inf if no tree is possible."""
    stride = stride_of(n)
    size = 2 * n + 2
    parent, row_of = np.zeros(size, np.int64), np.zeros(size, np.int64)
    member = np.arange(n + 1)  # the node, word or merged, that each word is in
    head, modifier = np.zeros(size, np.int64), np.zeros(size, np.int64)
    state = np.zeros(size, np.int64)  # 0 not seen, 1 on the path, 2 connected to the root
    path = np.zeros(size, np.int64)
    rows = work.levels  # merged in place
    for m in range(1, n + 1):
        row_of[m] = m
        for j in range(m * stride, m * stride + n + 1):
            rows[j] = work.scores[j]
            work.origins[j] = m
        rows[m * stride + m] = -np.inf
    n_nodes = n + 1
    state[0] = 2
    for start in range(1, n + 1):
        length, node = 0, member[start]
        while state[node] != 2:
            if state[node] == 1:
                begin = length - 1
                while path[begin] != node:
                    begin -= 1
                node = _merge(
                    n, stride, path, begin, length, n_nodes, rows, row_of, parent, head, member, work
                )
                n_nodes += 1
                length = begin
            row = row_of[node] * stride
            found = _best_entry(rows, row, n, single_root)
            if rows[row + found] == -np.inf:
                return -np.inf
            head[node], modifier[node] = found, work.origins[row + found]
            state[node] = 1
            path[length] = node
            length += 1
            node = member[found]
        for k in range(length):
            state[path[k]] = 2
    return _open_cycles(n, n_nodes, single_root, parent, head, modifier, work)


@fragment
def _best_entry(rows, row, n, single_root):  # type: ignore
    """The best head of a row. With `single_root`, the root only if no other head is possible."""
    found, top = 0, -np.inf if single_root else rows[row]
    for h in range(1, n + 1):
        if rows[row + h] > top:
            found, top = h, rows[row + h]
    return found


@fragment
def _merge(n, stride, path, begin, end, new, rows, row_of, parent, head, member, work):  # type: ignore
    """Merge the nodes path[begin:end] into node `new` in the row of the first. Returns `new`."""
    into = row_of[path[begin]] * stride
    own = rows[into + head[path[begin]]]
    for h in range(n + 1):
        rows[into + h] -= own
    for k in range(begin + 1, end):
        row = row_of[path[k]] * stride
        own = rows[row + head[path[k]]]
        for h in range(n + 1):
            gain = rows[row + h] - own
            better = gain > rows[into + h]
            rows[into + h] = gain if better else rows[into + h]
            work.origins[into + h] = work.origins[row + h] if better else work.origins[into + h]
    for k in range(begin, end):
        parent[path[k]] = new
    for m in range(1, n + 1):
        # The node of a word was on the cycle if its parent is now the new node.
        if parent[member[m]] == new:
            member[m] = new
            rows[into + m] = -np.inf
    row_of[new] = row_of[path[begin]]
    return new


@fragment
def _open_cycles(n, n_nodes, single_root, parent, head, modifier, work):  # type: ignore
    """Pass the arc into a merged node on to the word that it enters. Other words keep their arcs."""
    for node in range(n_nodes - 1, n, -1):
        inside = modifier[node]
        while parent[inside] != node:
            inside = parent[inside]
        head[inside], modifier[inside] = head[node], modifier[node]
    stride, total, n_roots = stride_of(n), 0.0, 0
    for m in range(1, n + 1):
        work.heads[m] = head[m]
        total += work.scores[m * stride + head[m]]
        n_roots += head[m] == 0
    return total if n_roots == 1 or not single_root else -np.inf
