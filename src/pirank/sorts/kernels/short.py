"""Kernels for lists that are not very long: one program a list, the sort inside, one kernel a direction.

Lists are padded, ``[lists, list_size]`` with an optional mask, or flat, ``[items]`` with offsets; flat lists of
different lengths share a launch, each taking the time of its own length.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pirank.sorts.kernels.order import key_of, key_of_nothing, number_in, place_in, sort_keys
from pirank.sorts.kernels.rows import pull_of_rows, sums_of_rows, tie_bounds
from pirank.sorts.kernels.values import value_of, weighed_bests

_TINY = tl.constexpr(1.1754943508222875e-38)
_EPS = tl.constexpr(1.1920928955078125e-07)
_MOST = tl.constexpr(3.4028234663852886e38)
# Losses that are added up at a time.
_MANY = tl.constexpr(1024)
# Different values that are looked for before all are sorted.
_GRADES = tl.constexpr(8)


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
def sort_list(scores, mask, keys, spare, order, ordered, width, WIDE: tl.constexpr, MASKED: tl.constexpr):
    """Put a list in descending order, ties as they came, absent items last; returns how many are there.

    ``order`` and ``ordered`` are written.
    """
    length = 0
    at = 0
    while at < width:
        place = at + tl.arange(0, WIDE)
        present = place < width
        if MASKED:
            present = present & (tl.load(mask + place, mask=present, other=0) != 0)
        score = tl.load(scores + place, mask=present, other=0.0).to(tl.float32)
        key = tl.where(present, key_of(score, place), key_of_nothing(place))
        tl.store(keys + place, key, mask=place < width)
        length += tl.sum(present.to(tl.int32), 0)
        at += WIDE
    found = sort_keys(keys, spare, width, WIDE)
    at = 0
    while at < width:
        rank = at + tl.arange(0, WIDE)
        key = tl.load(found + rank, mask=rank < width, other=0)
        tl.store(order + rank, place_in(key), mask=rank < width)
        tl.store(ordered + rank, tl.where(rank < length, number_in(key), 0.0), mask=rank < width)
        at += WIDE
    tl.debug_barrier()
    return length


@triton.jit
def temperature_of(
    ordered, length, temperature, temperatures, which,
    WIDE: tl.constexpr, RELATIVE: tl.constexpr, PER_LIST: tl.constexpr,
):  # fmt: skip
    """A list's temperature: the launch's, its own, or in units of its length × the spread of its scores."""
    if PER_LIST:
        temperature = tl.load(temperatures + which)
    if RELATIVE:
        count = tl.maximum(length, 1).to(tl.float32)
        # Scaled by the largest score, so that squares neither overflow nor vanish.
        greatest = tl.load(ordered, mask=length > 0, other=0.0)
        least = tl.load(ordered + length - 1, mask=length > 0, other=0.0)
        scale = tl.maximum(tl.maximum(tl.abs(greatest), tl.abs(least)), _TINY)
        total = tl.zeros([WIDE], tl.float32)
        at = 0
        while at < length:
            rank = at + tl.arange(0, WIDE)
            total += tl.div_rn(tl.load(ordered + rank, mask=rank < length, other=0.0), scale)
            at += WIDE
        mean = tl.div_rn(tl.sum(total, 0), count)
        total = tl.zeros([WIDE], tl.float32)
        at = 0
        while at < length:
            rank = at + tl.arange(0, WIDE)
            away = tl.div_rn(tl.load(ordered + rank, mask=rank < length, other=0.0), scale) - mean
            total += tl.where(rank < length, away * away, 0.0)
            at += WIDE
        deviation = tl.sqrt_rn(tl.div_rn(tl.sum(total, 0), count))
        spread = tl.where(deviation > _EPS, deviation * scale, 1.0)
        temperature = temperature * tl.minimum(tl.maximum(count * spread, _TINY), _MOST)
    return temperature


@triton.jit
def gather_values(
    labels, order, ordered_values, length, width, threshold, WIDE: tl.constexpr, GAIN: tl.constexpr
):
    """Put one channel of values in the list's order, absent items as 0; whether a label is above the threshold."""
    found = 0
    at = 0
    while at < width:
        rank = at + tl.arange(0, WIDE)
        place = tl.load(order + rank, mask=rank < length, other=0)
        label = tl.load(labels + place, mask=rank < length, other=0.0).to(tl.float32)
        found = tl.maximum(found, tl.max(((rank < length) & (label > threshold)).to(tl.int32), 0))
        value = tl.where(rank < length, value_of(label, threshold, GAIN), 0.0)
        tl.store(ordered_values + rank, value, mask=rank < width)
        at += WIDE
    tl.debug_barrier()
    return found


@triton.jit
def ideal_of(values, weights, keys, spare, length, k, WIDE: tl.constexpr):
    """The most that the weighted sum of a list's values can be.

    Where there are few grades the greatest values are found sooner than all are sorted.
    """
    rows = tl.minimum(k, length)
    ideal, filled = weighed_bests(values, weights, length, rows, _GRADES, WIDE)
    if filled < rows:
        at = 0
        while at < length:
            rank = at + tl.arange(0, WIDE)
            value = tl.load(values + rank, mask=rank < length, other=0.0)
            tl.store(keys + rank, key_of(value, rank), mask=rank < length)
            at += WIDE
        best = sort_keys(keys, spare, length, WIDE)
        total = tl.zeros([WIDE], tl.float32)
        at = 0
        while at < rows:
            rank = at + tl.arange(0, WIDE)
            value = number_in(tl.load(best + rank, mask=rank < rows, other=0))
            weight = tl.load(weights + rank, mask=rank < rows, other=0.0)
            total += tl.where(rank < rows, value * weight, 0.0)
            at += WIDE
        ideal = tl.sum(total, 0)
    tl.debug_barrier()
    return ideal


@triton.jit
def normaliser_of(values, weights, keys, spare, length, k, at_most, WIDE: tl.constexpr, PER: tl.constexpr):
    """What a linear metric is divided by: the most it can be, the sum of the values, the number of items, or 1."""
    normaliser = at_most
    if PER == "ideal":
        normaliser = ideal_of(values, weights, keys, spare, length, k, WIDE)
    elif PER == "values":
        total = tl.zeros([WIDE], tl.float32)
        at = 0
        while at < length:
            rank = at + tl.arange(0, WIDE)
            total += tl.load(values + rank, mask=rank < length, other=0.0)
            at += WIDE
        normaliser = tl.sum(total, 0)
    elif PER == "items":
        normaliser = length.to(tl.float32)
    if PER != "ideal":
        normaliser = tl.minimum(normaliser, at_most)
    return tl.where(normaliser > 0, normaliser, 1.0)


@triton.jit
def clear(array, width, WIDE: tl.constexpr):
    """Zeros, for sums to be added to."""
    at = 0
    while at < width:
        rank = at + tl.arange(0, WIDE)
        tl.store(array + rank, tl.zeros([WIDE], tl.float32), mask=rank < width)
        at += WIDE


@triton.jit
def clear_rest(array, offsets, which, items, WIDE: tl.constexpr):
    """Flat places beyond the last list belong to nobody: the last list's program gives them zeros."""
    if which == tl.num_programs(0) - 1:
        end = tl.load(offsets + which + 1)
        clear(array + end, (items - end).to(tl.int32), WIDE)


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
def sum_up(total, prefix, length, rows, WIDE: tl.constexpr):
    """C, the prefix sum of what pulls at the items; past the rows from the far end, where it is small."""
    carry = tl.full((), 0.0, tl.float64)
    at = 0
    while at < rows:
        rank = at + tl.arange(0, WIDE)
        pulled = tl.load(total + rank, mask=rank < rows, other=0.0)
        tl.store(prefix + rank, tl.cumsum(pulled, 0) + carry.to(tl.float32), mask=rank < rows)
        carry += tl.sum(pulled, 0).to(tl.float64)
        at += WIDE
    beyond = tl.full((), 0.0, tl.float64)
    at = rows + ((length - rows + WIDE - 1) // WIDE - 1) * WIDE
    while at >= rows:
        rank = at + tl.arange(0, WIDE)
        upto = tl.minimum(at + WIDE, length)
        later = tl.load(total + rank + 1, mask=rank + 1 < upto, other=0.0)
        below = tl.cumsum(later, 0, reverse=True) + beyond.to(tl.float32)
        tl.store(prefix + rank, -below, mask=rank < upto)
        beyond += tl.sum(tl.load(total + rank, mask=rank < upto, other=0.0), 0).to(tl.float64)
        at -= WIDE


@triton.jit
def finish_list(
    scores, order, total, tilt, prefix, by_row, gradient, length, width, rows, temperature, keep,
    ROWS: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """From what pulls at the items to the gradient by their scores, put where the items came from.

    NeuralSort: ∂ℓ/∂s_m = 2(m̄ U_m − V_m) + C_{lo−1} + C_{hi}, with [lo, hi] the tie group, m̄ its middle, and C the
    prefix sum of U. SoftSort: what pulls at the item itself, and its share of what goes to the rows.
    """
    tl.debug_barrier()
    if SOFT:
        share_rows(scores, by_row, prefix, length, rows, ROWS, TILE)
    else:
        sum_up(total, prefix, length, rows, WIDE)
    tl.debug_barrier()
    at = 0
    while at < width:
        rank = at + tl.arange(0, WIDE)
        there = rank < length
        pulled = tl.load(total + rank, mask=there, other=0.0)
        if SOFT:
            by_score = pulled + tl.load(prefix + rank, mask=there, other=0.0)
        else:
            here = tl.load(scores + rank, mask=there, other=0.0)
            low, high = tie_bounds(scores, here, rank, length, there)
            around = tl.load(prefix + high, mask=there, other=0.0)
            around += tl.load(prefix + low - 1, mask=there & (low > 0), other=0.0)
            lean = tl.load(tilt + rank, mask=there, other=0.0)
            by_score = 2 * lean + (low + high - 2 * rank).to(tl.float32) * pulled + around
        by_score = tl.where(there & keep, tl.div_rn(by_score, temperature), 0.0)
        place = tl.load(order + rank, mask=rank < width, other=0)
        tl.store(gradient + place, by_score, mask=rank < width)
        at += WIDE


@triton.jit
def sums_in(keys, spare, width):
    """Memory for sums, where the keys of a list are no longer needed: totals, tilts, prefix sums."""
    total = keys.to(tl.pointer_type(tl.float32))
    return total, total + width, spare.to(tl.pointer_type(tl.float32))


@triton.jit
def mean_of(losses, mean, share, ticket, lists, EVERY: tl.constexpr):
    """The mean of the losses of the lists that count, by the last program to come here, and one over their number.

    The losses are added in their order, whoever adds them: the same bits in every run. The ticket is 0 before it and
    after it.
    """
    tl.debug_barrier()
    before = tl.atomic_add(ticket, 1, sem="acq_rel")
    if before == lists - 1:
        loss, count = tl.zeros([_MANY], tl.float32), tl.zeros([_MANY], tl.float32)
        at = 0
        while at < lists:
            which = at + tl.arange(0, _MANY)
            loss += tl.load(losses + which, mask=which < lists, other=0.0, cache_modifier=".cg")
            count += tl.load(losses + lists + which, mask=which < lists, other=0.0, cache_modifier=".cg")
            at += _MANY
        number = tl.maximum(tl.sum(count, 0), 1.0)
        if EVERY:
            number = lists.to(tl.float32)
        tl.store(mean, tl.div_rn(tl.sum(loss, 0), number))
        tl.store(share, tl.div_rn(1.0, number))
        tl.store(ticket, 0)


@triton.jit(do_not_specialize=["k", "list_size", "items", "value_channel"])
def forward_short(
    scores, values, mask, offsets, temperatures, keys, order, ordered, ordered_values, used, row_sums, shift, ranked,
    list_size, items, value_list, value_channel, k, temperature,
    CHANNELS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr, SEVERAL: tl.constexpr,
    FLAT: tl.constexpr, MASKED: tl.constexpr, RELATIVE: tl.constexpr, PER_LIST: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """Relaxed ranked values ``[lists, CHANNELS, k]``, and what the way back needs."""
    which = tl.program_id(0)
    base, width = list_bounds(offsets, which, list_size, FLAT)
    keys, order, ordered = keys + base, order + base, ordered + base
    if MASKED:
        mask += base
    values, ordered_values = values + base * value_list, ordered_values + base * value_list
    row_sums, shift = row_sums + which * k, shift + which * CHANNELS * k
    ranked += which * CHANNELS * k
    length = sort_list(scores + base, mask, keys, keys + items, order, ordered, width, WIDE, MASKED)
    temperature = temperature_of(
        ordered, length, temperature, temperatures, which, WIDE, RELATIVE, PER_LIST
    )  # fmt: skip
    tl.store(used + which, temperature)
    for channel in tl.static_range(CHANNELS):
        shifted = channel * value_channel
        gather_values(values + shifted, order, ordered_values + shifted, length, width, 0.0, WIDE, "same")
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


@triton.jit(do_not_specialize=["k", "list_size", "items", "value_channel"])
def backward_short(
    by_ranked, mask, offsets, order, ordered, ordered_values, used, row_sums, shift,
    keys, by_row, by_sorted_value, by_value, gradient,
    list_size, items, value_list, value_channel, k,
    CHANNELS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr,
    FLAT: tl.constexpr, MASKED: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr, SEVERAL: tl.constexpr,
):  # fmt: skip
    """The gradient by the scores, and by the values where VALUES."""
    which = tl.program_id(0)
    base, width = list_bounds(offsets, which, list_size, FLAT)
    if FLAT:
        clear_rest(gradient, offsets, which, items, WIDE)
    order, ordered, gradient = order + base, ordered + base, gradient + base
    total, tilt, prefix = sums_in(keys + base, keys + items + base, width)
    if VALUES:
        by_sorted_value, by_value = by_sorted_value + base * value_list, by_value + base * value_list
    ordered_values += base * value_list
    row_sums, by_row = row_sums + which * k, by_row + which * k
    shift, by_ranked = shift + which * CHANNELS * k, by_ranked + which * CHANNELS * k
    length = width
    if MASKED:
        length = 0
        at = 0
        while at < width:
            place = at + tl.arange(0, WIDE)
            present = tl.load(mask + base + place, mask=place < width, other=0) != 0
            length += tl.sum(present.to(tl.int32), 0)
            at += WIDE
    temperature = tl.load(used + which)
    clear(total, width, WIDE)
    clear(tilt, width, WIDE)
    if VALUES:
        for channel in tl.static_range(CHANNELS):
            clear(by_sorted_value + channel * value_channel, width, WIDE)
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
        ROWS, TILE, WIDE, SOFT,
    )  # fmt: skip
    if VALUES:
        for channel in tl.static_range(CHANNELS):
            shifted = channel * value_channel
            at = 0
            while at < width:
                rank = at + tl.arange(0, WIDE)
                to = tl.load(order + rank, mask=rank < width, other=0)
                pulled = tl.load(by_sorted_value + shifted + rank, mask=rank < length, other=0.0)
                tl.store(by_value + shifted + to, pulled, mask=rank < width)
                at += WIDE


@triton.jit(do_not_specialize=["k", "list_size", "items", "lists"])
def linear_short(
    scores, labels, mask, offsets, temperatures, weights, scratch, losses, mean, share, ticket, gradient,
    list_size, items, lists, k, temperature, threshold, at_most, upper, direction,
    ROWS: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr,
    FLAT: tl.constexpr, MASKED: tl.constexpr, RELATIVE: tl.constexpr, PER_LIST: tl.constexpr,
    SOFT: tl.constexpr, GAIN: tl.constexpr, PER: tl.constexpr, HARD: tl.constexpr, EVERY: tl.constexpr,
    SEVERAL: tl.constexpr, PULL: tl.constexpr,
):  # fmt: skip
    """The loss of each list by a metric Σ_j weights_j r_j / normaliser, its gradient, and the losses' mean, in one go.

    The loss is upper + direction · metric, 0 with a gradient of 0 where no item is relevant. HARD reports the metric
    of the hard sort; the gradient stays that of the relaxed one. Without PULL there is no gradient. The scratch holds
    for every item two keys, its place, score and value in order, and at the end k numbers a list.
    """
    which = tl.program_id(0)
    base, width = list_bounds(offsets, which, list_size, FLAT)
    if FLAT and PULL:
        clear_rest(gradient, offsets, which, items, WIDE)
    scores, labels, gradient = scores + base, labels + base, gradient + base
    if MASKED:
        mask += base
    far = items.to(tl.int64)
    keys = scratch.to(tl.pointer_type(tl.int64)) + base
    spare = keys + far
    order = (scratch + 4 * far + base).to(tl.pointer_type(tl.int32))
    ordered, ordered_values = scratch + 5 * far + base, scratch + 6 * far + base
    by_row = scratch + 7 * far + which * k
    length = sort_list(scores, mask, keys, spare, order, ordered, width, WIDE, MASKED)
    temperature = temperature_of(
        ordered, length, temperature, temperatures, which, WIDE, RELATIVE, PER_LIST
    )  # fmt: skip
    counted = gather_values(labels, order, ordered_values, length, width, threshold, WIDE, GAIN)
    normaliser = normaliser_of(ordered_values, weights, keys, spare, length, k, at_most, WIDE, PER)
    total, tilt, prefix = sums_in(keys, spare, width)
    if PULL:
        clear(total, width, WIDE)
        clear(tilt, width, WIDE)
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
            if SOFT:
                tl.store(by_row + row, to_rows, mask=row < stop)
        first += ROWS
    loss = upper + direction * tl.div_rn(metric, normaliser)
    tl.store(losses + which, tl.where(counted > 0, loss, 0.0))
    tl.store(losses + lists + which, counted.to(tl.float32))
    if PULL:
        finish_list(
            ordered, order, total, tilt, prefix, by_row, gradient, length, width, rows, temperature, counted > 0,
            ROWS, TILE, WIDE, SOFT,
        )  # fmt: skip
    mean_of(losses, mean, share, ticket, lists, EVERY)
