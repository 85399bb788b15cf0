# mypy: ignore-errors
"""Sweeps of coordinate descent on a quadratic model with an l1 term."""

from __future__ import annotations

from partwise.compiled.dispatch import entry, inner

_TURNS = 3  # over the labels of an attribute, before its neighbours hear of it


@inner
def _note(own, mix, ridge, slope, moved, turned, along, k, move):  # type: ignore
    """The weight of label k has moved: what the model's slope is now."""
    moved[k] += move
    for r in range(along.size):
        along[r] += turned[k, r] * move
    for other in range(slope.size):
        slope[other] += own * mix[other, k] * move
    slope[k] += ridge[k] * move


@inner
def _turn(own, mix, ridge, bend, weights, slope, moved, shared, turned, along, l1, only_active):  # type: ignore
    """Minimise over the weights of one attribute, label after label; `slope` is the model's, but for what pairs add."""
    width, rank, fall = weights.size, along.size, 0.0
    for k in range(width):
        here = weights[k]
        if only_active and here == 0.0:
            continue
        derivative = slope[k]
        for r in range(rank):
            derivative += shared[k, r] * along[r]
        target, bound = here - derivative / bend[k], l1 / bend[k]
        target = target - bound if target > bound else (target + bound if target < -bound else 0.0)
        move = target - here
        if move == 0.0:
            continue
        fall -= move * (derivative + 0.5 * bend[k] * move) + l1 * (abs(target) - abs(here))
        weights[k] = target
        _note(own, mix, ridge, slope, moved, turned, along, k, move)
    return fall


@inner
def _is_zero(weights):  # type: ignore
    size = 0.0
    for k in range(weights.size):
        size += abs(weights[k])
    return size == 0.0


@inner
def _best_shift(weights, slope, bend, l1):  # type: ignore
    """The minimum over a of slope a + bend a² / 2 + l1 Σ |weights + a|."""
    width = weights.size
    below, above = -1, -1  # the breakpoints next to it
    for k in range(width):
        # The derivative just below and just above a = −weights[k].
        left = slope - bend * weights[k]
        right = left
        for other in range(width):
            apart = weights[other] - weights[k]
            left += -l1 if apart <= 0.0 else l1
            right += l1 if apart >= 0.0 else -l1
        if left <= 0.0 and right >= 0.0:
            return -weights[k]
        if right < 0.0:
            if below < 0 or weights[k] < weights[below]:
                below = k
        elif above < 0 or weights[k] > weights[above]:
            above = k
    signs = 0.0
    for k in range(width):  # those that are positive in between
        if below >= 0:
            signs += 1.0 if weights[k] >= weights[below] else -1.0
        else:
            signs += 1.0 if weights[k] > weights[above] else -1.0
    return -(slope + l1 * signs) / bend


@inner
def _shift(own, mix, ridge, whole, weights, slope, moved, shared, turned, along, l1):  # type: ignore
    """Move the weights of all labels of one attribute together; the model may be all but flat that way."""
    width, rank, fall, total = weights.size, along.size, 0.0, 0.0
    for k in range(width):
        total += slope[k]
        for r in range(rank):
            total += shared[k, r] * along[r]
    move = _best_shift(weights, total, whole, l1)
    if move == 0.0:
        return 0.0
    fall = -move * (total + 0.5 * whole * move)
    for k in range(width):
        target = weights[k] + move
        fall -= l1 * (abs(target) - abs(weights[k]))
        weights[k] = target
        _note(own, mix, ridge, slope, moved, turned, along, k, move)
    return fall


@entry
def sweep(gram, mix, ridge, bend, whole, weights, slope, workspace, shared, turned, along, l1, only_active):  # type: ignore
    """Minimise over the weights of one attribute after another; returns by how much the model fell.

    Parameters
    ----------
    gram, mix, ridge : ndarrays (n, n), (width, width) and (n, width)
        The curvature is gram ⊗ mix + diag(ridge); without gram, which is then empty, ridge alone.
    bend, whole : ndarrays (n, width) and (n,)
        The diagonal of all of it, what pairs add included, and the sum over all labels of an attribute.
    weights, slope : ndarray (n, width)
        Where the model is now, and its derivative there, without what pairs add; both change.
    workspace : ndarray (2, width)
    shared, turned : ndarray (n, width, 2 m)
        U and U M, where pairs add U M Uᵀ to the curvature.
    along : ndarray (2 m,)
        M Uᵀ of the move so far, which changes.
    only_active : bool
        Leave weights of zero at that.
    """
    n, width = weights.shape
    is_block, fall, moved, amount = gram.size > 0, 0.0, workspace[0], workspace[1]
    for j in range(n):
        own = gram[j, j] if is_block else 0.0
        for k in range(width):
            moved[k] = 0.0
        for _ in range(_TURNS if width > 1 else 1):
            gained = _turn(
                own,
                mix,
                ridge[j],
                bend[j],
                weights[j],
                slope[j],
                moved,
                shared[j],
                turned[j],
                along,
                l1,
                only_active,
            )
            fall += gained
            if gained == 0.0:
                break
        if not is_block:
            continue
        if width > 1 and not (only_active and _is_zero(weights[j])):
            fall += _shift(
                own, mix, ridge[j], whole[j], weights[j], slope[j], moved, shared[j], turned[j], along, l1
            )
        is_moved = False
        for k in range(width):
            amount[k] = 0.0
            for other in range(width):
                amount[k] += mix[k, other] * moved[other]
            is_moved = is_moved or moved[k] != 0.0
        if is_moved:
            for i in range(n):
                if i != j:  # whose own slope knows already
                    for k in range(width):
                        slope[i, k] += gram[j, i] * amount[k]
    return fall
