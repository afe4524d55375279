r"""The device code of a long list's items past the rows: what a tile of them weighs, and what it is pulled by.

The rows, at most 64, come first in the list; the last of them is the anchor a. An item past it weighs in row i

    e_i(r) = exp(−c_i(a)/τ) E_r F_r^{a−i}

    NeuralSort:  E_r = exp(−G_r/τ),  F_r = exp(−2 D_r/τ)
    SoftSort:    E_r = exp(−D_r/τ),  F_r = 1

with G and D of :mod:`pirank.sorts.kernels.rows`. All factors are at most 1, so one that vanishes belongs to a weight
that does; a row's own item weighs 1. The row's factor is left to the end: of the items only E and F are needed,
SoftSort needs one sum for all rows, and the sums over NeuralSort's rows are polynomials in F.

A tile is EACH items of each of LANES lanes, one a thread: sums of a lane are taken by itself, and threads meet once a
chunk. Rows are taken GROUP at a time, from the anchor's on.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pirank.sorts.kernels.rows import FAR, drops_inside, drops_of_column

_MOST = tl.constexpr(3.4028234663852886e38)
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def by_lane(numbers, EACH: tl.constexpr, LANES: tl.constexpr):
    """The sums of a tile's numbers in each lane."""
    return tl.sum(tl.reshape(numbers, [EACH, LANES]), 0)


@triton.jit
def factors(scores, row, rows, temperature, ROWS: tl.constexpr, SOFT: tl.constexpr):
    """exp(−c_i(a)/τ), 0 where there is no row."""
    drops = drops_inside(scores, 0, rows, temperature, ROWS, SOFT)
    return tl.where(row < rows, tl.exp(-drops_of_column(drops, row, rows - 1)), 0.0)


@triton.jit
def unit_of(temperature):
    """One over the temperature, bounded, so that a difference of 0 stays 0."""
    unit = tl.div_rn(1.0, temperature)
    return tl.where(unit > _MOST, _MOST, unit)


@triton.jit
def in_units(difference, unit):
    """As :func:`~pirank.sorts.kernels.rows.in_temperatures`, by a product: of many items a division takes longer."""
    scaled = difference * unit
    return tl.where(scaled > FAR, FAR, scaled)


@triton.jit
def exponents(at_anchor, here, heights, carry, there, unit, SOFT: tl.constexpr):
    """log2 E, −∞ where there is no item, and log2 F."""
    distance = in_units(tl.abs(at_anchor - here), unit) * -_LOG2_E
    start, slope = distance, distance
    if not SOFT:
        start = (tl.load(heights, mask=there, other=0.0) + carry.to(tl.float32)) * -_LOG2_E
        slope = 2 * distance
    return tl.where(there, start, float("-inf")), slope


@triton.jit
def no_sums(LANES: tl.constexpr, GROUP: tl.constexpr):
    """Room for a sum of each of some rows."""
    sums = ()
    for _ in tl.static_range(GROUP):
        sums += (tl.zeros([LANES], tl.float32),)
    return sums


@triton.jit
def add_tile(
    held, moves, start, slope, difference, first,
    GROUP: tl.constexpr, STRIDE: tl.constexpr, EACH: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Add Σ E F^j and Σ E F^j (g − reference), j = first, first + 1, …, to the sums of GROUP rows.

    Every STRIDE rows the weight is worked out as a power of two; the others are the one before times F.
    """
    now_held, now_moves = (), ()
    factor = tl.exp2(slope)
    weight = factor
    for j in tl.static_range(GROUP):
        if j == 0:
            weight = tl.exp2(start + first * slope)
        elif j % STRIDE == 0:
            weight = tl.exp2(start + (first + j) * slope)
        else:
            weight = weight * factor
        now_held += (held[j] + by_lane(weight, EACH, LANES),)
        now_moves += (moves[j] + by_lane(weight * difference, EACH, LANES),)
    return now_held, now_moves


@triton.jit
def to_rows_of(held, moves, gained, moved, row, anchor, GROUP: tl.constexpr, SOFT: tl.constexpr):
    """Put the lanes' sums of GROUP rows, from the anchor's back, in their places among all rows."""
    for j in tl.static_range(GROUP):
        mine = (row <= anchor) if SOFT else (row == anchor - j)
        gained = tl.where(mine, tl.sum(held[j], 0), gained)
        moved = tl.where(mine, tl.sum(moves[j], 0), moved)
    return gained, moved


@triton.jit
def of_rows(numbers, row, anchor, GROUP: tl.constexpr, SOFT: tl.constexpr):
    """The numbers of GROUP rows, from the anchor's back, one by one, 0 where there is no row; SoftSort's all in one."""
    each = ()
    for j in tl.static_range(GROUP):
        mine = (row <= anchor) if SOFT else (row == anchor - j)
        each += (tl.sum(tl.where(mine, numbers, 0.0), 0),)
    return each


@triton.jit
def polynomials(value, factor, slopes, lifts, GROUP: tl.constexpr):
    """Σ_j x_j F^j with x_j = slope_j g + lift_j, Σ_j j x_j F^j, and Σ_j slope_j F^j, by Horner's rule."""
    total = slopes[GROUP - 1] * value + lifts[GROUP - 1]
    scale = tl.zeros_like(value) + slopes[GROUP - 1]
    lean = tl.zeros_like(value)
    for back in tl.static_range(1, GROUP):
        lean = lean * factor + total
        total = total * factor + (slopes[GROUP - 1 - back] * value + lifts[GROUP - 1 - back])
        scale = scale * factor + slopes[GROUP - 1 - back]
    return total, lean * factor, scale


@triton.jit
def put(pointer, added, there, again, ADD: tl.constexpr):
    """Write down what is added, to what is there where ``again``, which may only be where ADD."""
    if ADD:
        added += tl.load(pointer, mask=there & again, other=0.0)
    tl.store(pointer, added, mask=there)
