"""Kernels for long lists, sorted beforehand: a program for every few thousand items.

Forward, how high G stands at each item and the greatest values of each chunk, then what each chunk weighs, then the
rows; backward, what pulls at each item, then the prefix sums of that, then the gradient. A chunk that no row reaches is
left out. The rows, at most 64, stand before the first chunk. Sums over chunks are taken in their order, by one program:
the same bits in every run.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pirank.sorts.kernels.past import (
    add_tile,
    by_lane,
    exponents,
    factors,
    in_units,
    no_sums,
    of_rows,
    polynomials,
    put,
    to_rows_of,
    unit_of,
)
from pirank.sorts.kernels.rows import (
    LIMIT,
    any_below,
    drops_inside,
    in_temperatures,
    pull_inside,
    sums_inside,
    tie_bounds_of_tile,
)
from pirank.sorts.kernels.short import mean_of
from pirank.sorts.kernels.values import value_of, values_at, weighed_bests, write_bests

# Chunks whose sums are added up at a time.
_MANY = tl.constexpr(1024)
_FEW = tl.constexpr(64)


@triton.jit
def _chunk_at(offsets, chunk_lists, first_chunks, list_size, FLAT: tl.constexpr, PARTS: tl.constexpr = 1):
    """Which list this program works on (−1: none), which of its chunks, the list's first chunk, and its beginning."""
    chunk = tl.program_id(0) // PARTS
    if FLAT:
        which = tl.load(chunk_lists + chunk)
        first_chunk = tl.load(first_chunks + tl.maximum(which, 0))
        chunk -= first_chunk
        base = tl.load(offsets + tl.maximum(which, 0))
    else:
        which = tl.program_id(1)
        first_chunk = which * (tl.num_programs(0) // PARTS)
        base = which.to(tl.int64) * list_size
    return which, chunk, first_chunk, base


@triton.jit
def _reach(lengths, which, chunk, k, CHUNK: tl.constexpr):
    """The rows of a list, and where a chunk of the items past them begins and ends."""
    length = tl.load(lengths + which).to(tl.int32)
    rows = tl.minimum(k, length)
    begin = chunk * CHUNK
    return length, rows, begin, tl.minimum(begin + CHUNK, length - rows)


@triton.jit
def _sum_of(parts, begin, end):
    """The sum of some chunks' numbers, in float64."""
    total = tl.full((), 0.0, tl.float64)
    at = begin
    while at < end:
        index = at + tl.arange(0, _MANY)
        total += tl.sum(tl.load(parts + index, mask=index < end, other=0.0), 0)
        at += _MANY
    return total


@triton.jit
def _carry_at(scores, rises, first_chunk, chunk, rows, begin, end, temperature, SOFT: tl.constexpr):
    """A lower bound of the drop of every item from a chunk on."""
    carry = tl.full((), 0.0, tl.float64)
    if SOFT:
        if (begin < end) & (rows > 0):
            away = tl.load(scores + rows - 1) - tl.load(scores + rows + begin)
            carry = in_temperatures(tl.abs(away), temperature).to(tl.float64)
    else:
        carry = _sum_of(rises + first_chunk, 0, chunk)
    return carry


@triton.jit(do_not_specialize=["k", "list_size"])
def heights_of_chunks(
    ordered, lengths, offsets, chunk_lists, first_chunks, used, rises, heights, list_size, k,
    CHUNK: tl.constexpr, WIDE: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """How far G has risen at each item since its chunk began, and over the whole chunk."""
    which, chunk, first_chunk, base = _chunk_at(offsets, chunk_lists, first_chunks, list_size, FLAT)
    if which >= 0:
        _, rows, begin, end = _reach(lengths, which, chunk, k, CHUNK)
        scores, heights = ordered + base + rows, heights + base + rows
        unit = unit_of(tl.load(used + which))
        total = tl.full((), 0.0, tl.float64)
        at = begin
        while at < end:
            step = at + tl.arange(0, WIDE)
            there = step < end
            fall = tl.load(scores + step - 1, mask=there, other=0.0) - tl.load(
                scores + step, mask=there, other=0.0
            )
            rise = tl.where(there, in_units(fall, unit) * (2 * step + 1).to(tl.float32), 0.0)
            tl.store(heights + step, tl.cumsum(rise, 0) + total.to(tl.float32), mask=there)
            total += tl.sum(rise, 0).to(tl.float64)
            at += WIDE
        tl.store(rises + first_chunk + chunk, total)


@triton.jit(do_not_specialize=["k", "list_size"])
def bests_of_chunks(
    labels, mask, lengths, offsets, chunk_lists, first_chunks, bests, sums, list_size, k, threshold,
    CHUNK: tl.constexpr, WIDE: tl.constexpr, FLAT: tl.constexpr, MASKED: tl.constexpr,
    GAIN: tl.constexpr, IDEAL: tl.constexpr,
):  # fmt: skip
    """Of each chunk the k greatest values, the sum of all, and whether a label is above the threshold."""
    which, chunk, first_chunk, base = _chunk_at(offsets, chunk_lists, first_chunks, list_size, FLAT)
    if which >= 0:
        begin = chunk * CHUNK
        width = list_size
        if FLAT:
            width = tl.load(lengths + which).to(tl.int32)
        end = tl.minimum(begin + CHUNK, width)
        labels += base
        if MASKED:
            mask += base
        total = tl.zeros([WIDE], tl.float32)
        found = 0
        at = begin
        while at < end:
            value, above = values_at(labels, mask, at + tl.arange(0, WIDE), end, threshold, MASKED, GAIN)
            found = tl.maximum(found, tl.max(above.to(tl.int32), 0))
            total += value
            at += WIDE
        at_chunk = first_chunk + chunk
        tl.store(sums + 2 * at_chunk, tl.sum(total.to(tl.float64), 0))
        tl.store(sums + 2 * at_chunk + 1, found.to(tl.float64))
        if IDEAL:
            write_bests(labels, mask, bests + at_chunk * k, begin, end, k, threshold, WIDE, MASKED, GAIN)


@triton.jit
def _gather(labels, order, ordered_values, begin, end, threshold, WIDE: tl.constexpr, GAIN: tl.constexpr):
    at = begin
    while at < end:
        rank = at + tl.arange(0, WIDE)
        place = tl.load(order + rank, mask=rank < end, other=0, eviction_policy="evict_first")
        label = tl.load(labels + place, mask=rank < end, other=0.0)
        tl.store(ordered_values + rank, value_of(label, threshold, GAIN), mask=rank < end)
        at += WIDE


@triton.jit(do_not_specialize=["k", "list_size", "value_channel"])
def sums_of_chunks(
    labels, order, ordered, ordered_values, lengths, offsets, chunk_lists, first_chunks, used, rises, heights, partial,
    list_size, value_list, value_channel, k, threshold,
    CHANNELS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, GROUP: tl.constexpr, SEVERAL: tl.constexpr,
    STRIDE: tl.constexpr, EACH: tl.constexpr, LANES: tl.constexpr, WIDE: tl.constexpr, FLAT: tl.constexpr,
    SOFT: tl.constexpr, GAIN: tl.constexpr,
):  # fmt: skip
    """What each chunk adds to the rows' Σ e and Σ e (g − g_i), ``[chunks, 1 + CHANNELS, ROWS]``; sorts the values."""
    which, chunk, first_chunk, base = _chunk_at(offsets, chunk_lists, first_chunks, list_size, FLAT)
    if which >= 0:
        _, rows, begin, end = _reach(lengths, which, chunk, k, CHUNK)
        scores, order, heights = ordered + base, order + base, heights + base + rows
        labels, ordered_values = labels + base * value_list, ordered_values + base * value_list
        temperature = tl.load(used + which)
        row, tile = tl.arange(0, ROWS), tl.arange(0, EACH * LANES)
        carry = _carry_at(scores, rises, first_chunk, chunk, rows, begin, end, temperature, SOFT)
        reached = (carry < LIMIT) & (begin < end)
        partial += (first_chunk + chunk) * (1 + CHANNELS) * ROWS
        for channel in tl.static_range(CHANNELS):
            unsorted, kept = labels + channel * value_channel, ordered_values + channel * value_channel
            if chunk == 0:
                _gather(unsorted, order, kept, 0, rows, threshold, WIDE, GAIN)
            gained, moved = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
            if reached:
                at_anchor, unit = tl.load(scores + rows - 1), unit_of(temperature)
                reference = value_of(tl.load(unsorted + tl.load(order + rows + begin)), threshold, GAIN)
                first = 0
                while first < (1 if SOFT else rows):
                    held, moves = no_sums(LANES, GROUP), no_sums(LANES, GROUP)
                    at = begin
                    while at < end:
                        there = tile < end - at
                        fresh = there
                        if SEVERAL:
                            fresh = there & (first == 0)
                        rank = rows + at
                        place = tl.load(
                            order + rank + tile, mask=fresh, other=0, eviction_policy="evict_first"
                        )
                        here = tl.load(scores + rank + tile, mask=there, other=0.0)
                        start, slope = exponents(
                            at_anchor, here, heights + at + tile, carry, there, unit, SOFT
                        )  # fmt: skip
                        value = value_of(tl.load(unsorted + place, mask=fresh, other=0.0), threshold, GAIN)
                        tl.store(kept + rank + tile, value, mask=fresh)
                        if SEVERAL:
                            again = tl.load(kept + rank + tile, mask=there & (first > 0), other=0.0)
                            value = tl.where(first > 0, again, value)
                        held, moves = add_tile(
                            held, moves, start, slope, value - reference, first, GROUP, STRIDE, EACH, LANES
                        )  # fmt: skip
                        at += EACH * LANES
                    gained, moved = to_rows_of(held, moves, gained, moved, row, rows - 1 - first, GROUP, SOFT)
                    if SEVERAL:
                        tl.debug_barrier()
                    first += GROUP
                # The rows' own values may not be there yet: another program puts them in order.
                place = tl.load(order + row, mask=row < rows, other=0)
                own = value_of(tl.load(unsorted + place, mask=row < rows, other=0.0), threshold, GAIN)
                factor = factors(scores, row, rows, temperature, ROWS, SOFT)
                gained *= factor
                moved = moved * factor + (reference - own) * gained
            if channel == 0:
                tl.store(partial + row, gained)
            tl.store(partial + (1 + channel) * ROWS + row, moved)


@triton.jit
def _sum_rows(partial, chunks, CHANNELS: tl.constexpr, ROWS: tl.constexpr):
    """The sum over chunks of their numbers a row."""
    row = tl.arange(0, ROWS)
    total = tl.zeros([ROWS], tl.float64)
    at = 0
    while at < chunks:
        chunk = at + tl.arange(0, _FEW)
        index = chunk[None, :] * (1 + CHANNELS) * ROWS + row[:, None]
        total += tl.sum(tl.load(partial + index, mask=(chunk < chunks)[None, :], other=0.0).to(tl.float64), 1)
        at += _FEW
    return total.to(tl.float32)


@triton.jit
def _chunks_of(offsets, first_chunks, which, chunks, list_size, FLAT: tl.constexpr):
    """Where a list begins, its first chunk, and how many it has."""
    if FLAT:
        base = tl.load(offsets + which)
        first_chunk = tl.load(first_chunks + which)
        chunks = (tl.load(first_chunks + which + 1) - first_chunk).to(tl.int32)
    else:
        base = which.to(tl.int64) * list_size
        first_chunk = which * chunks
    return base, first_chunk, chunks


@triton.jit(do_not_specialize=["k", "list_size", "value_channel", "chunks"])
def rows_of_lists(
    ordered, ordered_values, lengths, offsets, first_chunks, used, partial, row_sums, shift, ranked,
    list_size, value_list, value_channel, k, chunks,
    CHANNELS: tl.constexpr, ROWS: tl.constexpr, FLAT: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """The relaxed ranked values of each list, from its rows' own part and its chunks' parts."""
    which = tl.program_id(0)
    base, first_chunk, chunks = _chunks_of(offsets, first_chunks, which, chunks, list_size, FLAT)
    rows = tl.minimum(k, tl.load(lengths + which).to(tl.int32))
    row = tl.arange(0, ROWS)
    temperature = tl.load(used + which)
    scores, partial = ordered + base, partial + first_chunk * (1 + CHANNELS) * ROWS
    drops = drops_inside(scores, 0, rows, temperature, ROWS, SOFT)
    beyond = _sum_rows(partial, chunks, CHANNELS, ROWS)
    for channel in tl.static_range(CHANNELS):
        kept = ordered_values + base * value_list + channel * value_channel
        mass, moved = sums_inside(drops, kept, 0, rows, ROWS)
        mass = tl.where(row < rows, mass + beyond, 1.0)
        moved += _sum_rows(partial + (1 + channel) * ROWS, chunks, CHANNELS, ROWS)
        away = tl.where(row < rows, tl.div_rn(moved, mass), 0.0)
        own = tl.load(kept + row, mask=row < rows, other=0.0)
        at = (which * CHANNELS + channel) * k + row
        tl.store(shift + at, away, mask=row < k)
        tl.store(ranked + at, own + away, mask=row < k)
        if channel == 0:
            tl.store(row_sums + which * k + row, mass, mask=row < k)


@triton.jit(do_not_specialize=["k", "list_size", "chunks", "lists"])
def losses_of_lists(
    ordered, ordered_values, lengths, offsets, first_chunks, used, partial, row_sums, shift, by_ranked,
    weights, bests, sums, losses, mean, share, ticket, list_size, k, chunks, lists, at_most, upper, direction,
    ROWS: tl.constexpr, WIDE: tl.constexpr, FLAT: tl.constexpr, SOFT: tl.constexpr, PER: tl.constexpr,
    HARD: tl.constexpr, EVERY: tl.constexpr,
):  # fmt: skip
    """As :func:`rows_of_lists`; then the loss of each list, what it asks of its rows, and the losses' mean."""
    which = tl.program_id(0)
    base, first_chunk, chunks = _chunks_of(offsets, first_chunks, which, chunks, list_size, FLAT)
    length = tl.load(lengths + which).to(tl.int32)
    rows = tl.minimum(k, length)
    row = tl.arange(0, ROWS)
    temperature = tl.load(used + which)
    scores, kept, partial = ordered + base, ordered_values + base, partial + first_chunk * 2 * ROWS
    drops = drops_inside(scores, 0, rows, temperature, ROWS, SOFT)
    mass, moved = sums_inside(drops, kept, 0, rows, ROWS)
    mass = tl.where(row < rows, mass + _sum_rows(partial, chunks, 1, ROWS), 1.0)
    moved += _sum_rows(partial + ROWS, chunks, 1, ROWS)
    away = tl.where(row < rows, tl.div_rn(moved, mass), 0.0)
    value = tl.full((), 0.0, tl.float64)
    found = tl.full((), 0.0, tl.float64)
    at = 0
    while at < chunks:
        chunk = at + tl.arange(0, WIDE)
        parts = sums + 2 * (first_chunk + chunk)
        value += tl.sum(tl.load(parts, mask=chunk < chunks, other=0.0), 0)
        found = tl.maximum(found, tl.max(tl.load(parts + 1, mask=chunk < chunks, other=0.0), 0))
        at += WIDE
    normaliser = at_most
    if PER == "ideal":
        normaliser, _ = weighed_bests(bests + first_chunk * k, weights, chunks * k, k, k, WIDE)
    elif PER == "values":
        normaliser = tl.minimum(value.to(tl.float32), at_most)
    elif PER == "items":
        normaliser = tl.minimum(length.to(tl.float32), at_most)
    normaliser = tl.where(normaliser > 0, normaliser, 1.0)
    weight = tl.load(weights + row, mask=row < rows, other=0.0)
    own = tl.load(kept + row, mask=row < rows, other=0.0)
    metric = tl.sum(weight * (own if HARD else own + away), 0)
    loss = upper + direction * tl.div_rn(metric, normaliser)
    at_row = which * k + row
    tl.store(row_sums + at_row, mass, mask=row < k)
    tl.store(shift + at_row, away, mask=row < k)
    wanted = tl.where(found > 0, tl.div_rn(direction * weight, normaliser), 0.0)
    tl.store(by_ranked + at_row, wanted, mask=row < k)
    tl.store(losses + which, tl.where(found > 0, loss, 0.0))
    tl.store(losses + lists + which, found.to(tl.float32))
    mean_of(losses, mean, share, ticket, lists, EVERY)


@triton.jit(do_not_specialize=["k", "list_size", "value_channel"])
def pull_of_chunks(
    by_ranked, ordered, ordered_values, lengths, offsets, chunk_lists, first_chunks, used, rises, heights, row_sums,
    shift, total, tilt, by_sorted_value, pulls, to_rows, list_size, value_list, value_channel, k,
    CHANNELS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, GROUP: tl.constexpr, SEVERAL: tl.constexpr,
    EACH: tl.constexpr, LANES: tl.constexpr, FLAT: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """What pulls at each item, the sum of it over each chunk, and SoftSort's part for the rows, by chunk.

    Nothing is written of the items of a chunk that no row reaches.
    """
    which, chunk, first_chunk, base = _chunk_at(offsets, chunk_lists, first_chunks, list_size, FLAT)
    if which >= 0:
        length, rows, begin, end = _reach(lengths, which, chunk, k, CHUNK)
        scores, heights = ordered + base, heights + base + rows
        total, tilt = total + base, tilt + base
        temperature = tl.load(used + which)
        row, tile = tl.arange(0, ROWS), tl.arange(0, EACH * LANES)
        carry = _carry_at(scores, rises, first_chunk, chunk, rows, begin, end, temperature, SOFT)
        reached = (carry < LIMIT) & (begin < end)
        by_row = tl.zeros([ROWS], tl.float32)
        sum_of_pull = tl.zeros([LANES], tl.float32)
        for channel in tl.static_range(CHANNELS):
            kept = ordered_values + base * value_list + channel * value_channel
            by_value = by_sorted_value
            if VALUES:
                by_value = by_sorted_value + base * value_list + channel * value_channel
            at_row = (which * CHANNELS + channel) * k + row
            mass = tl.load(row_sums + which * k + row, mask=row < rows, other=1.0)
            pulled = tl.div_rn(tl.load(by_ranked + at_row, mask=row < rows, other=0.0), mass)
            away = tl.load(shift + at_row, mask=row < rows, other=0.0)
            if chunk == 0:
                drops = drops_inside(scores, 0, rows, temperature, ROWS, SOFT)
                by_row = pull_inside(
                    drops, scores, kept, 0, rows, length, away, pulled, total, tilt, by_value, by_row,
                    ROWS, channel > 0, SOFT, VALUES,
                )  # fmt: skip
            if reached:
                level = tl.load(kept + row, mask=row < rows, other=0.0) + away
                pulled *= factors(scores, row, rows, temperature, ROWS, SOFT)
                at_anchor, unit = tl.load(scores + rows - 1), unit_of(temperature)
                reference = tl.load(kept + rows + begin)
                # SoftSort: a row and an item that are tied do not pull at one another. Both are with the anchor then.
                own = tl.load(scores + row, mask=row < rows, other=0.0)
                tied_row = own == at_anchor
                from_above = tl.where(tied_row, 0.0, pulled)
                slope_above, lift_above = tl.sum(from_above, 0), -tl.sum(from_above * level, 0)
                ties, tied_values = tl.zeros([LANES], tl.float32), tl.zeros([LANES], tl.float32)
                first = 0
                while first < (1 if SOFT else rows):
                    slopes = of_rows(pulled, row, rows - 1 - first, GROUP, SOFT)
                    lifts = of_rows(-pulled * level, row, rows - 1 - first, GROUP, SOFT)
                    again = (first > 0) | (channel > 0)
                    at = begin
                    while at < end:
                        there = tile < end - at
                        rank = rows + at
                        here = tl.load(scores + rank + tile, mask=there, other=0.0)
                        value = tl.load(kept + rank + tile, mask=there, other=0.0)
                        start, slope = exponents(
                            at_anchor, here, heights + at + tile, carry, there, unit, SOFT
                        )  # fmt: skip
                        weight = tl.exp2(start + first * slope)
                        u, lean, held = polynomials(value, tl.exp2(slope), slopes, lifts, GROUP)
                        if SOFT:
                            tied = there & (here == at_anchor)
                            u = tl.where(tied, slope_above * value + lift_above, u)
                            ties += by_lane(tl.where(tied, 1.0, 0.0), EACH, LANES)
                            tied_values += by_lane(tl.where(tied, value - reference, 0.0), EACH, LANES)
                        u *= weight
                        put(total + rank + tile, u, there, again, SEVERAL or channel > 0)
                        if not SOFT:
                            between = (at + 1 + first + tile).to(tl.float32)
                            lean = lean * weight + between * u
                            put(tilt + rank + tile, lean, there, again, SEVERAL or channel > 0)
                            sum_of_pull += by_lane(u, EACH, LANES)
                        if VALUES:
                            put(by_value + rank + tile, held * weight, there, first > 0, SEVERAL)
                        at += EACH * LANES
                    tl.debug_barrier()
                    first += GROUP
                if SOFT:
                    to_row = tl.sum(tied_values, 0) + tl.sum(ties, 0) * (reference - level)
                    by_row += tl.where(tied_row, pulled * to_row, 0.0) * any_below(scores, own, length)
            tl.debug_barrier()
        if SOFT:
            tl.store(to_rows + (first_chunk + chunk) * ROWS + row, by_row)
        else:
            tl.store(pulls + first_chunk + chunk, tl.sum(sum_of_pull.to(tl.float64), 0))


@triton.jit(do_not_specialize=["k", "list_size", "chunks"])
def prefix_of_chunks(
    ordered, lengths, offsets, chunk_lists, first_chunks, used, rises, total, pulls, prefix, list_size, k, chunks,
    CHUNK: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """C: the sum of what pulls at all items up to each; past the rows from the far end, where it is small."""
    which, chunk, first_chunk, base = _chunk_at(offsets, chunk_lists, first_chunks, list_size, FLAT)
    if which >= 0:
        if FLAT:
            chunks = (tl.load(first_chunks + which + 1) - first_chunk).to(tl.int32)
        _, rows, begin, end = _reach(lengths, which, chunk, k, CHUNK)
        total, prefix = total + base, prefix + base
        if chunk == 0:
            row = tl.arange(0, ROWS)
            upto = tl.cumsum(tl.load(total + row, mask=row < rows, other=0.0), 0)
            tl.store(prefix + row, upto, mask=row < rows)
        carry = _carry_at(
            ordered + base, rises, first_chunk, chunk, rows, begin, end, tl.load(used + which), False
        )
        if (carry < LIMIT) & (begin < end):
            beyond = _sum_of(pulls + first_chunk, chunk + 1, chunks)
            stop = rows + end
            at = rows + begin + ((end - begin - 1) // WIDE) * WIDE
            while at >= rows + begin:
                rank = at + tl.arange(0, WIDE)
                upto = tl.minimum(at + WIDE, stop)
                later = tl.load(total + rank + 1, mask=rank + 1 < upto, other=0.0)
                below = tl.cumsum(later, 0, reverse=True) + beyond.to(tl.float32)
                tl.store(prefix + rank, -below, mask=rank < upto)
                beyond += tl.sum(tl.load(total + rank, mask=rank < upto, other=0.0), 0).to(tl.float64)
                at -= WIDE


@triton.jit(do_not_specialize=["k", "list_size", "value_channel", "chunks"])
def gradient_of_chunks(
    order, ordered, lengths, offsets, chunk_lists, first_chunks, used, rises, total, tilt, prefix, to_rows,
    by_sorted_value, by_value, gradient, list_size, value_list, value_channel, k, chunks,
    CHANNELS: tl.constexpr, CHUNK: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr,
    FLAT: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """The gradient by the scores, put where the items came from; see ``finish_list`` of the short kernels.

    A chunk is shared out to several programs: they wait for memory, and for few others.
    """
    which, chunk, first_chunk, base = _chunk_at(offsets, chunk_lists, first_chunks, list_size, FLAT, PARTS)
    if which >= 0:
        if FLAT:
            chunks = (tl.load(first_chunks + which + 1) - first_chunk).to(tl.int32)
        length, rows, begin, end = _reach(lengths, which, chunk, k, CHUNK)
        order, scores, gradient = order + base, ordered + base, gradient + base
        total, tilt, prefix = total + base, tilt + base, prefix + base
        temperature = tl.load(used + which)
        carry = _carry_at(scores, rises, first_chunk, chunk, rows, begin, end, temperature, SOFT)
        until = tl.where((carry < LIMIT) & (begin < end), rows + end, tl.where(chunk == 0, rows, 0))
        part = tl.program_id(0) % PARTS
        at = tl.where((chunk == 0) & (part == 0), 0, rows + begin + part * (CHUNK // PARTS))
        stop = tl.minimum(until, rows + begin + (part + 1) * (CHUNK // PARTS))
        # Past what rows reach C is 0 and not written down. A tie group that goes on past the next chunk is reached as
        # far as it goes: G does not rise in it.
        known = length
        if not SOFT:
            after = carry + tl.load(rises + first_chunk + chunk)
            known = tl.where(after < LIMIT, length, until)
        row = tl.arange(0, ROWS)
        by_row = tl.zeros([ROWS], tl.float32)
        if SOFT:
            by_row = _sum_rows(to_rows + first_chunk * ROWS, chunks, 0, ROWS)
        while at < stop:
            rank = at + tl.arange(0, WIDE)
            there = rank < stop
            # All that is at hand is asked for before threads meet.
            here = tl.load(scores + rank, mask=there, other=0.0)
            pulled = tl.load(total + rank, mask=there, other=0.0, eviction_policy="evict_first")
            place = tl.load(order + rank, mask=there, other=0, eviction_policy="evict_first")
            if not SOFT:
                lean = tl.load(tilt + rank, mask=there, other=0.0, eviction_policy="evict_first")
                upto = tl.load(prefix + rank, mask=there, other=0.0)
                below = tl.load(prefix + rank - 1, mask=there & (rank > 0), other=0.0)
            low, high = tie_bounds_of_tile(scores, here, rank, at, tl.minimum(at + WIDE, stop), length)
            if SOFT:
                holds = (
                    (row[:, None] >= low[None, :]) & (row[:, None] <= high[None, :]) & (row < rows)[:, None]
                )
                shared = tl.sum(tl.where(holds, by_row[:, None], 0.0), 0)
                by_score = pulled + shared / (high - low + 1).to(tl.float32)
            else:
                later, sooner = there & (high > rank), there & (low < rank)
                upto = tl.where(later, tl.load(prefix + high, mask=later & (high < known), other=0.0), upto)
                below = tl.where(sooner, tl.load(prefix + low - 1, mask=sooner & (low > 0), other=0.0), below)
                by_score = 2 * lean + (low + high - 2 * rank).to(tl.float32) * pulled + (upto + below)
            tl.store(gradient + place, tl.div_rn(by_score, temperature), mask=there)
            if VALUES:
                for channel in tl.static_range(CHANNELS):
                    shift = base * value_list + channel * value_channel
                    pull = tl.load(by_sorted_value + shift + rank, mask=there, other=0.0)
                    tl.store(by_value + shift + place, pull, mask=there)
            at += WIDE
