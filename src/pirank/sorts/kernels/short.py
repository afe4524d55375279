"""Kernels for lists of up to 2,048 items: one program a list, the sort inside, one kernel a direction.

Lists are padded, ``[lists, list_size]`` with an optional mask, or flat, ``[items]`` with offsets; flat lists of
different lengths share a launch, each in a block of its own size.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pirank.sorts.kernels.rows import pull_of_rows, sums_of_rows, tie_bounds

# Flat lists up to this long are sorted in a block of this size, whatever the size of the launch's.
SMALL = tl.constexpr(256)

_TINY = tl.constexpr(1.1754943508222875e-38)
_EPS = tl.constexpr(1.1920928955078125e-07)
_MOST = tl.constexpr(3.4028234663852886e38)


@triton.jit
def list_bounds(offsets, which, list_size, FLAT: tl.constexpr):
    """Where a list begins, and how many places it has."""
    if FLAT:
        base = tl.load(offsets + which)
        width = (tl.load(offsets + which + 1) - base).to(tl.int32)
    else:
        base = which.to(tl.int64) * list_size
        width = list_size
    return base, width


@triton.jit
def sort_list(scores, mask, order, ordered, width, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """Put a list in descending order, ties as they came, absent items last.

    Scores and places are sorted as one 64-bit number. Returns the scores, [BLOCK], which of them are there, and how
    many those are; ``order`` and ``ordered`` are written.
    """
    place = tl.arange(0, BLOCK)
    present = place < width
    score = tl.load(scores + place, mask=present, other=0.0).to(tl.float32)
    if MASKED:
        present = present & (tl.load(mask + place, mask=present, other=0) != 0)
    score = tl.where(score == 0, 0.0, score)  # −0 and 0 are a tie
    bits = score.to(tl.int32, bitcast=True)
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # whole numbers in the order of the scores
    rising = tl.where(present, rising, -2147483648)
    key = (rising.to(tl.int64) << 32) | (-place + (BLOCK - 1)).to(tl.int64)
    key = tl.sort(key, descending=True)
    length = tl.sum(present.to(tl.int32), 0)
    rising = (key >> 32).to(tl.int32)
    sorted_score = (rising ^ ((rising >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    tl.store(order + place, -(key & 0x7FFFFFFF).to(tl.int32) + (BLOCK - 1), mask=place < width)
    tl.store(ordered + place, sorted_score, mask=place < length)
    return score, present, length


@triton.jit
def temperature_of(
    score, present, length, temperature, temperatures, which, RELATIVE: tl.constexpr, PER_LIST: tl.constexpr
):
    """A list's temperature: the launch's, its own, or in units of its length × the spread of its scores."""
    if PER_LIST:
        temperature = tl.load(temperatures + which)
    if RELATIVE:
        count = tl.maximum(length, 1).to(tl.float32)
        # Scaled by the largest score, so that squares neither overflow nor vanish.
        scale = tl.maximum(tl.max(tl.where(present, tl.abs(score), 0.0), 0), _TINY)
        unit = tl.where(present, tl.div_rn(score, scale), 0.0)
        mean = tl.div_rn(tl.sum(unit, 0), count)
        square = tl.where(present, (unit - mean) * (unit - mean), 0.0)
        deviation = tl.sqrt_rn(tl.div_rn(tl.sum(square, 0), count))
        spread = tl.where(deviation > _EPS, deviation * scale, 1.0)
        temperature = temperature * tl.minimum(tl.maximum(count * spread, _TINY), _MOST)
    return temperature


@triton.jit
def gather_values(values, order, ordered_values, length, BLOCK: tl.constexpr):
    """Put one channel of values in the list's order."""
    rank = tl.arange(0, BLOCK)
    place = tl.load(order + rank, mask=rank < length, other=0)
    tl.store(
        ordered_values + rank, tl.load(values + place, mask=rank < length, other=0.0), mask=rank < length
    )


@triton.jit
def normaliser_of(
    values, weights, mask, width, length, k, at_most,
    BLOCK: tl.constexpr, MASKED: tl.constexpr, PER: tl.constexpr,
):  # fmt: skip
    """What a linear metric is divided by: the best it can be, the sum of the values, the number of items, or 1."""
    place = tl.arange(0, BLOCK)
    present = place < width
    if MASKED:
        present = present & (tl.load(mask + place, mask=present, other=0) != 0)
    normaliser = at_most
    if PER == "ideal":
        best = tl.sort(tl.load(values + place, mask=present, other=0.0), descending=True)
        normaliser = tl.sum(best * tl.load(weights + place, mask=place < tl.minimum(k, length), other=0.0), 0)
    elif PER == "values":
        normaliser = tl.sum(tl.load(values + place, mask=present, other=0.0), 0)
    elif PER == "items":
        normaliser = length.to(tl.float32)
    if PER != "ideal":
        normaliser = tl.minimum(normaliser, at_most)
    return tl.where(normaliser > 0, normaliser, 1.0)


@triton.jit
def found_in(found, mask, width, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    """Whether a list has a relevant item."""
    place = tl.arange(0, BLOCK)
    present = place < width
    if MASKED:
        present = present & (tl.load(mask + place, mask=present, other=0) != 0)
    return tl.max((tl.load(found + place, mask=present, other=0) != 0).to(tl.int32), 0)


@triton.jit
def _open_block(
    scores, values, mask, found, weights, order, ordered, ordered_values, temperatures,
    which, width, value_channel, k, temperature, at_most,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
    RELATIVE: tl.constexpr, PER_LIST: tl.constexpr, PER: tl.constexpr,
):  # fmt: skip
    score, present, length = sort_list(scores, mask, order, ordered, width, BLOCK, MASKED)
    temperature = temperature_of(score, present, length, temperature, temperatures, which, RELATIVE, PER_LIST)
    tl.debug_barrier()
    for channel in tl.static_range(CHANNELS):
        gather_values(
            values + channel * value_channel, order, ordered_values + channel * value_channel, length, BLOCK
        )
    counted, normaliser = 1, 1.0
    if PER != "":
        counted = found_in(found, mask, width, BLOCK, MASKED)
        normaliser = normaliser_of(values, weights, mask, width, length, k, at_most, BLOCK, MASKED, PER)
    tl.debug_barrier()
    return length, temperature, counted, normaliser


@triton.jit
def open_list(
    scores, values, mask, found, weights, order, ordered, ordered_values, temperatures,
    which, width, value_channel, k, temperature, at_most,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, FLAT: tl.constexpr, MASKED: tl.constexpr,
    RELATIVE: tl.constexpr, PER_LIST: tl.constexpr, PER: tl.constexpr,
):  # fmt: skip
    """Sort a list and its values; its length, temperature, whether it counts, and its normaliser."""
    if FLAT and BLOCK > SMALL:
        if width <= SMALL:
            length, temperature, counted, normaliser = _open_block(
                scores, values, mask, found, weights, order, ordered, ordered_values, temperatures,
                which, width, value_channel, k, temperature, at_most,
                CHANNELS, SMALL, MASKED, RELATIVE, PER_LIST, PER,
            )  # fmt: skip
        else:
            length, temperature, counted, normaliser = _open_block(
                scores, values, mask, found, weights, order, ordered, ordered_values, temperatures,
                which, width, value_channel, k, temperature, at_most,
                CHANNELS, BLOCK, MASKED, RELATIVE, PER_LIST, PER,
            )  # fmt: skip
    else:
        length, temperature, counted, normaliser = _open_block(
            scores, values, mask, found, weights, order, ordered, ordered_values, temperatures,
            which, width, value_channel, k, temperature, at_most,
            CHANNELS, BLOCK, MASKED, RELATIVE, PER_LIST, PER,
        )  # fmt: skip
    return length, temperature, counted, normaliser


@triton.jit
def clear(array, width, BLOCK: tl.constexpr):
    """Zeros, for sums to be added to."""
    rank = tl.arange(0, BLOCK)
    tl.store(array + rank, tl.zeros([BLOCK], tl.float32), mask=rank < width)


@triton.jit
def share_rows(scores, by_row, shared, length, rows, ROWS: tl.constexpr, TILE: tl.constexpr):
    """SoftSort: the items of a tie group share what goes to the rows they hold."""
    at = 0
    while at < length:
        rank = at + tl.arange(0, TILE)
        there = rank < length
        low, high = tie_bounds(scores, tl.load(scores + rank, mask=there, other=0.0), rank, length, there)
        share = tl.zeros([TILE], tl.float32)
        first = 0
        while first < rows:
            row = first + tl.arange(0, ROWS)
            to_row = tl.load(by_row + row, mask=row < rows, other=0.0)
            holds = (row[:, None] >= low[None, :]) & (row[:, None] <= high[None, :])
            share += tl.sum(tl.where(holds, to_row[:, None], 0.0), 0)
            first += ROWS
        tl.store(shared + rank, share / (high - low + 1).to(tl.float32), mask=there)
        at += TILE


@triton.jit
def _finish_block(
    scores, order, total, tilt, prefix, gradient, length, width, rows, temperature, keep,
    BLOCK: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """From what pulls at the items to the gradient by their scores, put where the items came from.

    NeuralSort: ∂ℓ/∂s_m = 2(m̄ U_m − V_m) + C_{lo−1} + C_{hi}, with [lo, hi] the tie group, m̄ its middle, and C the
    prefix sum of U, which past the rows is taken from the far end, where it is small. SoftSort: what pulls at the item
    itself, and its share of what goes to the rows, which :func:`share_rows` has put into ``prefix``.
    """
    rank = tl.arange(0, BLOCK)
    there = rank < length
    pulled = tl.load(total + rank, mask=there, other=0.0)
    if SOFT:
        by_score = pulled + tl.load(prefix + rank, mask=there, other=0.0)
    else:
        here = tl.load(scores + rank, mask=there, other=0.0)
        low, high = tie_bounds(scores, here, rank, length, there)
        beyond = tl.load(total + rank + 1, mask=rank + 1 < length, other=0.0)
        upto = tl.where(rank < rows, tl.cumsum(pulled, 0), -tl.cumsum(beyond, 0, reverse=True))
        tl.store(prefix + rank, upto, mask=there)
        tl.debug_barrier()
        around = tl.load(prefix + high, mask=there, other=0.0)
        around += tl.load(prefix + low - 1, mask=there & (low > 0), other=0.0)
        lean = tl.load(tilt + rank, mask=there, other=0.0)
        by_score = 2 * lean + (low + high - 2 * rank).to(tl.float32) * pulled + around
    by_score = tl.where(there & keep, tl.div_rn(by_score, temperature), 0.0)
    place = tl.load(order + rank, mask=rank < width, other=0)
    tl.store(gradient + place, by_score, mask=rank < width)


@triton.jit
def finish_list(
    scores, order, total, tilt, prefix, by_row, gradient, length, width, rows, temperature, keep,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, FLAT: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """From what pulls at the items to the gradient, in a block of the list's size."""
    tl.debug_barrier()
    if SOFT:
        share_rows(scores, by_row, prefix, length, rows, ROWS, TILE)
        tl.debug_barrier()
    if FLAT and BLOCK > SMALL:
        if width <= SMALL:
            _finish_block(
                scores, order, total, tilt, prefix, gradient, length, width, rows, temperature, keep, SMALL, SOFT
            )  # fmt: skip
        else:
            _finish_block(
                scores, order, total, tilt, prefix, gradient, length, width, rows, temperature, keep, BLOCK, SOFT
            )  # fmt: skip
    else:
        _finish_block(
            scores, order, total, tilt, prefix, gradient, length, width, rows, temperature, keep, BLOCK, SOFT
        )  # fmt: skip


@triton.jit(do_not_specialize=["k", "list_size"])
def forward_short(
    scores, values, mask, offsets, temperatures, order, ordered, ordered_values, used, row_sums, shift, ranked,
    list_size, value_list, value_channel, k, temperature,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, SEVERAL: tl.constexpr,
    FLAT: tl.constexpr, MASKED: tl.constexpr, RELATIVE: tl.constexpr, PER_LIST: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """Relaxed ranked values ``[lists, CHANNELS, k]``, and what the way back needs."""
    which = tl.program_id(0)
    base, width = list_bounds(offsets, which, list_size, FLAT)
    scores, order, ordered = scores + base, order + base, ordered + base
    if MASKED:
        mask += base
    values, ordered_values = values + base * value_list, ordered_values + base * value_list
    row_sums, shift, ranked = (
        row_sums + which * k,
        shift + which * CHANNELS * k,
        ranked + which * CHANNELS * k,
    )
    length, temperature, _, _ = open_list(
        scores, values, mask, mask, mask, order, ordered, ordered_values, temperatures,
        which, width, value_channel, k, temperature, 1.0,
        CHANNELS, BLOCK, FLAT, MASKED, RELATIVE, PER_LIST, "",
    )  # fmt: skip
    tl.store(used + which, temperature)
    rows = tl.minimum(k, length)
    first = 0
    while first < k:
        row = first + tl.arange(0, ROWS)
        stop = tl.minimum(first + ROWS, rows)
        for channel in tl.static_range(CHANNELS):
            kept = ordered_values + channel * value_channel
            mass, away = tl.full([ROWS], 1.0, tl.float32), tl.zeros([ROWS], tl.float32)
            if first < rows:
                mass, moved = sums_of_rows(
                    ordered, kept, first, stop, length, temperature, ROWS, TILE, SEVERAL, SOFT
                )
                away = tl.div_rn(moved, mass)
            own = tl.load(kept + row, mask=row < stop, other=0.0)
            tl.store(shift + channel * k + row, away, mask=row < k)
            tl.store(ranked + channel * k + row, own + away, mask=row < k)
            if channel == 0:
                tl.store(row_sums + row, mass, mask=row < k)
        first += ROWS


@triton.jit(do_not_specialize=["k", "list_size"])
def backward_short(
    by_ranked, mask, offsets, order, ordered, ordered_values, used, row_sums, shift,
    total, tilt, prefix, by_row, by_sorted_value, by_value, gradient,
    list_size, value_list, value_channel, k,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
    FLAT: tl.constexpr, MASKED: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr, SEVERAL: tl.constexpr,
):  # fmt: skip
    """The gradient by the scores, and by the values where VALUES."""
    which = tl.program_id(0)
    base, width = list_bounds(offsets, which, list_size, FLAT)
    order, ordered, gradient = order + base, ordered + base, gradient + base
    total, tilt, prefix = total + base, tilt + base, prefix + base
    if VALUES:
        by_sorted_value, by_value = by_sorted_value + base * value_list, by_value + base * value_list
    ordered_values += base * value_list
    row_sums, by_row = row_sums + which * k, by_row + which * k
    shift, by_ranked = shift + which * CHANNELS * k, by_ranked + which * CHANNELS * k
    place = tl.arange(0, BLOCK)
    length = width
    if MASKED:
        length = tl.sum((tl.load(mask + base + place, mask=place < width, other=0) != 0).to(tl.int32), 0)
    temperature = tl.load(used + which)
    clear(total, width, BLOCK)
    clear(tilt, width, BLOCK)
    if VALUES:
        for channel in tl.static_range(CHANNELS):
            clear(by_sorted_value + channel * value_channel, width, BLOCK)
    tl.debug_barrier()
    rows = tl.minimum(k, length)
    first = 0
    while first < rows:
        row = first + tl.arange(0, ROWS)
        stop = tl.minimum(first + ROWS, rows)
        to_rows = tl.zeros([ROWS], tl.float32)
        for channel in tl.static_range(CHANNELS):
            mass = tl.load(row_sums + row, mask=row < stop, other=1.0)
            pulled = tl.div_rn(tl.load(by_ranked + channel * k + row, mask=row < stop, other=0.0), mass)
            away = tl.load(shift + channel * k + row, mask=row < stop, other=0.0)
            to_rows += pull_of_rows(
                ordered, ordered_values + channel * value_channel, first, stop, length, temperature, away, pulled,
                total, tilt, by_sorted_value + channel * value_channel if VALUES else by_sorted_value,
                ROWS, TILE, SEVERAL, SEVERAL or CHANNELS > 1, SOFT, VALUES,
            )  # fmt: skip
        tl.store(by_row + row, to_rows, mask=row < stop)
        first += ROWS
    finish_list(
        ordered, order, total, tilt, prefix, by_row, gradient, length, width, rows, temperature, True,
        BLOCK, ROWS, TILE, FLAT, SOFT,
    )  # fmt: skip
    if VALUES:
        to = tl.load(order + place, mask=place < width, other=0)
        for channel in tl.static_range(CHANNELS):
            pulled = tl.load(
                by_sorted_value + channel * value_channel + place, mask=place < length, other=0.0
            )
            tl.store(by_value + channel * value_channel + to, pulled, mask=place < width)


@triton.jit(do_not_specialize=["k", "list_size"])
def linear_short(
    scores, values, mask, found, offsets, temperatures, weights, order, ordered, ordered_values,
    total, tilt, prefix, by_row, losses, counts, gradient,
    list_size, k, temperature, at_most, upper, direction,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
    FLAT: tl.constexpr, MASKED: tl.constexpr, RELATIVE: tl.constexpr, PER_LIST: tl.constexpr,
    SOFT: tl.constexpr, PER: tl.constexpr, HARD: tl.constexpr, SEVERAL: tl.constexpr, PULL: tl.constexpr,
):  # fmt: skip
    """The loss of each list by a metric Σ_j weights_j r_j / normaliser, and its gradient, in one pass.

    The loss is upper + direction · metric, 0 with a gradient of 0 where no item is relevant. HARD reports the metric
    of the hard sort; the gradient stays that of the relaxed one. Without PULL there is no gradient.
    """
    which = tl.program_id(0)
    base, width = list_bounds(offsets, which, list_size, FLAT)
    scores, values, found, gradient = scores + base, values + base, found + base, gradient + base
    if MASKED:
        mask += base
    order, ordered, ordered_values = order + base, ordered + base, ordered_values + base
    total, tilt, prefix, by_row = total + base, tilt + base, prefix + base, by_row + which * k
    length, temperature, counted, normaliser = open_list(
        scores, values, mask, found, weights, order, ordered, ordered_values, temperatures,
        which, width, 0, k, temperature, at_most,
        1, BLOCK, FLAT, MASKED, RELATIVE, PER_LIST, PER,
    )  # fmt: skip
    if PULL:
        clear(total, width, BLOCK)
        clear(tilt, width, BLOCK)
        tl.debug_barrier()
    rows = tl.minimum(k, length)
    metric = 0.0
    first = 0
    while first < rows:
        row = first + tl.arange(0, ROWS)
        stop = tl.minimum(first + ROWS, rows)
        weight = tl.load(weights + row, mask=row < stop, other=0.0)
        own = tl.load(ordered_values + row, mask=row < stop, other=0.0)
        mass, moved = sums_of_rows(
            ordered, ordered_values, first, stop, length, temperature, ROWS, TILE, SEVERAL, SOFT
        )
        away = tl.div_rn(moved, mass)
        metric += tl.sum(weight * (own if HARD else own + away), 0)
        if PULL:
            pulled = tl.div_rn(tl.div_rn(direction * weight, normaliser), mass)
            to_rows = pull_of_rows(
                ordered, ordered_values, first, stop, length, temperature, away, pulled,
                total, tilt, total, ROWS, TILE, SEVERAL, SEVERAL, SOFT, False,
            )  # fmt: skip
            tl.store(by_row + row, to_rows, mask=row < stop)
        first += ROWS
    loss = upper + direction * tl.div_rn(metric, normaliser)
    tl.store(losses + which, tl.where(counted > 0, loss, 0.0))
    tl.store(counts + which, counted.to(tl.float32))
    if PULL:
        finish_list(
            ordered, order, total, tilt, prefix, by_row, gradient, length, width, rows, temperature, counted > 0,
            BLOCK, ROWS, TILE, FLAT, SOFT,
        )  # fmt: skip
