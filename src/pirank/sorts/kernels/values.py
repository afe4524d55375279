"""The device code of item values: what a label is worth, and the greatest values of many."""

from __future__ import annotations

import triton
import triton.language as tl

# Equal values that are written down or weighed at a time.
_FEW = tl.constexpr(64)


@triton.jit
def value_of(label, threshold, GAIN: tl.constexpr):
    """What a metric ranks: the label, 2^label − 1, or whether the label is above a threshold."""
    if GAIN == "exp2":
        label = tl.exp2(label) - 1
    elif GAIN == "above":
        label = tl.where(label > threshold, 1.0, 0.0)
    return label


@triton.jit
def values_at(labels, mask, place, end, threshold, MASKED: tl.constexpr, GAIN: tl.constexpr):
    """The values of some items, 0 where there is none, and whether their labels are above the threshold."""
    present = place < end
    if MASKED:
        present = present & (tl.load(mask + place, mask=present, other=0) != 0)
    label = tl.load(labels + place, mask=present, other=0.0)
    return tl.where(present, value_of(label, threshold, GAIN), 0.0), present & (label > threshold)


@triton.jit
def next_best(
    labels, mask, below, begin, end, threshold, WIDE: tl.constexpr, MASKED: tl.constexpr, GAIN: tl.constexpr
):
    """The greatest of some values that are less than ``below``, at least 0, and how many are equal to it."""
    best, count = tl.zeros([WIDE], tl.float32), tl.zeros([WIDE], tl.int32)
    at = begin
    while at < end:
        value, _ = values_at(labels, mask, at + tl.arange(0, WIDE), end, threshold, MASKED, GAIN)
        open = value < below
        count = tl.where(open & (value > best), 1, count + (open & (value == best)).to(tl.int32))
        best = tl.where(open, tl.maximum(best, value), best)
        at += WIDE
    greatest = tl.max(best, 0)
    return greatest, tl.sum(tl.where(best == greatest, count, 0), 0)


@triton.jit
def write_bests(
    labels,
    mask,
    bests,
    begin,
    end,
    k,
    threshold,
    WIDE: tl.constexpr,
    MASKED: tl.constexpr,
    GAIN: tl.constexpr,
):
    """The k greatest values, k at most 64, in descending order: one after the other, with how often it is there."""
    filled = 0
    below = float("inf")
    slot = tl.arange(0, _FEW)
    while filled < k:
        best, count = next_best(labels, mask, below, begin, end, threshold, WIDE, MASKED, GAIN)
        count = tl.where(best > 0, tl.minimum(count, k - filled), k - filled)
        tl.store(bests + filled + slot, tl.zeros([_FEW], tl.float32) + best, mask=slot < count)
        filled += count
        below = best


@triton.jit
def weighed_bests(values, weights, count, k, tries, WIDE: tl.constexpr):
    """Σ_j weights_j times the j-th greatest value, j ≤ k, and how far that went: to ``tries`` different values."""
    total = 0.0
    filled = 0
    below = float("inf")
    tried = 0
    while (filled < k) & (tried < tries):
        best, times = next_best(values, values, below, 0, count, 0.0, WIDE, False, "same")
        upto = tl.where(best > 0, tl.minimum(filled + times, k), k)
        weight = tl.zeros([WIDE], tl.float32)
        at = filled
        while at < upto:
            slot = at + tl.arange(0, WIDE)
            weight += tl.load(weights + slot, mask=slot < upto, other=0.0)
            at += WIDE
        total += best * tl.sum(weight, 0)
        filled = upto
        below = best
        tried += 1
    return total, filled
