r"""The device code of a block of rows: what the items weigh in it, and what each of them is pulled by.

A list's scores stand in descending order, s_0 ≥ s_1 ≥ …. Row i's logit of the item at rank r lies c_i(r) below the
row's maximum, which is its own item's (see :mod:`pirank.sorts.anchored`):

    NeuralSort:  c_i(r) = c_i(a) + G_r + 2|a−i| D_r,    G_r = Σ_q |s_q − s_{q±1}| (2|q−a|−1),    D_r = |s_a − s_r|
    SoftSort:    c_i(r) = |s_i − s_r|

with the anchor a the block's last row for the items to its right and its first row for those to its left. Inside the
block the sums are taken as they stand. All terms are at least 0: no maximum, no cancellation, one pass. G never falls,
so a pass ends where nothing beyond can weigh anything.

Functions take pointers to the beginning of a list. Everything is float32; sums over many tiles are carried in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

# A drop of so many temperatures is a weight of exactly 0 in float64 too; the bound keeps sums finite.
FAR = tl.constexpr(1e6)
# The drop past which a weight is below float32's smallest normal number.
LIMIT = tl.constexpr(87.4)
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def in_temperatures(difference, temperature):
    """A difference of scores in units of the temperature, bounded; a NaN stays one."""
    scaled = tl.div_rn(difference, temperature)
    return tl.where(scaled > FAR, FAR, scaled)


@triton.jit
def drops_inside(scores, first, stop, temperature, ROWS: tl.constexpr, SOFT: tl.constexpr):
    """c_i(r) of rows and columns ``first`` to ``stop``: ``[ROWS, ROWS]``; what lies past ``stop`` means nothing."""
    row = first + tl.arange(0, ROWS)
    there = row < stop
    here = tl.load(scores + row, mask=there, other=0.0)
    if SOFT:
        drops = in_temperatures(tl.abs(here[:, None] - here[None, :]), temperature)
    else:
        before = tl.load(scores + row - 1, mask=there & (row > first), other=0.0)
        after = tl.load(scores + row + 1, mask=row + 1 < stop, other=0.0)
        arriving = tl.where(there & (row > first), in_temperatures(before - here, temperature), 0.0)
        leaving = tl.where(row + 1 < stop, in_temperatures(here - after, temperature), 0.0)
        ahead = (2 * (row[None, :] - row[:, None])).to(tl.float32)
        down = tl.cumsum(tl.where(ahead > 0, arriving[None, :] * (ahead - 1), 0.0), 1)
        up = tl.cumsum(tl.where(ahead < 0, leaving[None, :] * (-ahead - 1), 0.0), 1, reverse=True)
        drops = down + up
    return drops


@triton.jit
def drops_of_column(drops, row, column):
    """One column of :func:`drops_inside`, ``[ROWS]``."""
    return tl.sum(tl.where((row == column)[None, :], drops, 0.0), 1)


@triton.jit
def weights_past(scores, row, stop, anchor, at_anchor, far, here, there, temperature, SOFT: tl.constexpr):
    """e_i(r) of items past a block's end, ``[ROWS, TILE]``, from their scores and how far G has risen to them.

    This is what most of the time goes into: NeuralSort's weight is a power of two of a sum and a product.
    """
    if SOFT:
        own = tl.load(scores + row, mask=row < stop, other=0.0)
        drops = in_temperatures(tl.abs(own[:, None] - here[None, :]), temperature)
        weight = tl.where((row < stop)[:, None] & there[None, :], tl.exp(-drops), 0.0)
    else:
        distance = in_temperatures(tl.abs(tl.load(scores + anchor) - here), temperature)
        lean = (2 * tl.abs(row - anchor)).to(tl.float32)
        from_row = tl.where(row < stop, at_anchor * -_LOG2_E, float("-inf"))
        from_item = tl.where(there, far * -_LOG2_E, float("-inf"))
        weight = tl.exp2(
            from_row[:, None] + from_item[None, :] + lean[:, None] * (distance * -_LOG2_E)[None, :]
        )
    return weight


@triton.jit
def weights_beyond(
    scores,
    row,
    stop,
    anchor,
    at_anchor,
    steps,
    there,
    carry,
    temperature,
    TOWARDS: tl.constexpr,
    SOFT: tl.constexpr,
):
    """e_i(r) of the items ``steps`` beyond a block's end, ``[ROWS, TILE]``, their columns, and the new carry.

    ``TOWARDS`` is 1 for the items to the right of the anchor, −1 for those to its left. The carry is a lower bound of
    what all further items drop.
    """
    column = anchor + TOWARDS * (1 + steps)
    here = tl.load(scores + column, mask=there, other=0.0)
    far = here
    if SOFT:
        nearest = in_temperatures(tl.abs(tl.load(scores + anchor) - here), temperature)
        carry = tl.max(tl.where(there, nearest, 0.0), 0).to(tl.float64)
    else:
        nearer = tl.load(scores + column - TOWARDS, mask=there, other=0.0)
        gap = tl.where(there, in_temperatures(tl.abs(nearer - here), temperature), 0.0)
        rise = gap * (2 * steps + 1).to(tl.float32)
        far = carry.to(tl.float32) + tl.cumsum(rise, 0)
        carry += tl.sum(rise, 0).to(tl.float64)
    weight = weights_past(scores, row, stop, anchor, at_anchor, far, here, there, temperature, SOFT)
    return weight, column, carry


@triton.jit
def sums_inside(drops, values, first, stop, ROWS: tl.constexpr):
    """Σ_r e_i(r) and Σ_r e_i(r) (g_r − g_i) over the block's own columns, ``[ROWS]`` each."""
    row = first + tl.arange(0, ROWS)
    there = row < stop
    weight = tl.where(there[:, None] & there[None, :], tl.exp(-drops), 0.0)
    own = tl.load(values + row, mask=there, other=0.0)
    return tl.sum(weight, 1), tl.sum(weight * (own[None, :] - own[:, None]), 1)


@triton.jit
def sums_beyond(
    scores, values, own, first, stop, anchor, at_anchor, begin, end, carry, temperature, mass, moved,
    ROWS: tl.constexpr, TILE: tl.constexpr, TOWARDS: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """Add to ``mass`` and ``moved`` what the items ``begin`` to ``end`` steps beyond the anchor weigh."""
    row = first + tl.arange(0, ROWS)
    # Added up place by place, and over the places at the end: threads need not meet in every tile.
    held, moves = tl.zeros([ROWS, TILE], tl.float32), tl.zeros([ROWS, TILE], tl.float32)
    reference = tl.load(values + anchor)
    at = begin
    while (at < end) & (carry < LIMIT):
        steps = at + tl.arange(0, TILE)
        there = steps < end
        weight, column, carry = weights_beyond(
            scores, row, stop, anchor, at_anchor, steps, there, carry, temperature, TOWARDS, SOFT
        )  # fmt: skip
        value = tl.load(values + column, mask=there, other=0.0)
        held += weight
        moves += weight * (value - reference)[None, :]
        at += TILE
    gained = tl.sum(held, 1)
    return mass + gained, moved + (tl.sum(moves, 1) + (reference - own) * gained)


@triton.jit
def sums_of_rows(
    scores, values, first, stop, length, temperature,
    ROWS: tl.constexpr, TILE: tl.constexpr, SEVERAL: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """Σ_r e_i(r) and Σ_r e_i(r) (g_r − g_i) over the whole list, ``[ROWS]`` each, 1 and 0 past ``stop``."""
    row = first + tl.arange(0, ROWS)
    nothing = tl.full((), 0.0, tl.float64)
    drops = drops_inside(scores, first, stop, temperature, ROWS, SOFT)
    mass, moved = sums_inside(drops, values, first, stop, ROWS)
    last = stop - 1
    own = tl.load(values + row, mask=row < stop, other=0.0)
    mass, moved = sums_beyond(
        scores, values, own, first, stop, last, drops_of_column(drops, row, last), 0, length - stop, nothing,
        temperature, mass, moved, ROWS, TILE, 1, SOFT,
    )  # fmt: skip
    if SEVERAL:
        mass, moved = sums_beyond(
            scores, values, own, first, stop, first, drops_of_column(drops, row, first), 0, first, nothing, temperature,
            mass, moved, ROWS, TILE, -1, SOFT,
        )  # fmt: skip
    return tl.where(row < stop, mass, 1.0), tl.where(row < stop, moved, 0.0)


@triton.jit
def _put(pointer, added, there, ADD: tl.constexpr):
    if ADD:
        added += tl.load(pointer, mask=there, other=0.0)
    tl.store(pointer, added, mask=there)


@triton.jit
def put_pull(
    weight, difference, shift, scaled, sign, leave_below, row, column, there, total, tilt, by_value, by_row,
    ADD: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """u_i(r) = scaled_i e_i(r) ((g_r − g_i) − δ_i), summed over the rows into the items' ``total`` and ``tilt``.

    NeuralSort keeps U_r = Σ_i u_i(r) and Σ_i u_i(r) (r − i). SoftSort keeps Σ_i u_i(r) sign(s_i − s_r), and what of it
    goes to the rows, which is returned.
    """
    pull = weight * scaled[:, None]
    u = pull * (difference - shift[:, None])
    if SOFT:
        # −Σ_r u_i(r) sign, and Σ_r u_i(r) = 0: where there are items below the row's own, they can be left out.
        by_row += tl.sum(u * (leave_below[:, None] - sign), 1)
        u = u * sign
    else:
        away = (column[None, :] - row[:, None]).to(tl.float32)
        _put(tilt + column, tl.sum(u * away, 0), there, ADD)
    _put(total + column, tl.sum(u, 0), there, ADD)
    if VALUES:
        _put(by_value + column, tl.sum(pull, 0), there, ADD)
    return by_row


@triton.jit
def sign_of(left, right):
    return tl.where(left > right, 1.0, tl.where(left < right, -1.0, 0.0))


@triton.jit
def any_below(scores, here, length):
    """1 for the rows whose own item has others below it."""
    return tl.where(here > tl.load(scores + length - 1), 1.0, 0.0)


@triton.jit
def pull_inside(
    drops, scores, values, first, stop, length, shift, scaled, total, tilt, by_value, by_row,
    ROWS: tl.constexpr, ADD: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """The pull on the block's own columns; returns what goes to the rows."""
    row = first + tl.arange(0, ROWS)
    there = row < stop
    weight = tl.where(there[:, None] & there[None, :], tl.exp(-drops), 0.0)
    own = tl.load(values + row, mask=there, other=0.0)
    sign, leave_below = 1.0, 1.0
    if SOFT:
        here = tl.load(scores + row, mask=there, other=0.0)
        sign = sign_of(here[:, None], here[None, :])
        leave_below = any_below(scores, here, length)
    return put_pull(
        weight, own[None, :] - own[:, None], shift, scaled, sign, leave_below, row, row, there, total, tilt,
        by_value, by_row, ADD, SOFT, VALUES,
    )  # fmt: skip


@triton.jit
def put_pull_past(
    scores, weight, value, own, shift, scaled, row, anchor, column, here, there, length, total, tilt, by_value, by_row,
    stop, ADD: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """As :func:`put_pull`, of items past the block's end; NeuralSort's r − i is taken in two parts, to the anchor."""
    if SOFT:
        mine = tl.load(scores + row, mask=row < stop, other=0.0)
        by_row = put_pull(
            weight, value[None, :] - own[:, None], shift, scaled, sign_of(mine[:, None], here[None, :]),
            any_below(scores, mine, length), row, column, there, total, tilt, by_value, by_row, ADD, SOFT, VALUES,
        )  # fmt: skip
    else:
        pull = weight * scaled[:, None]
        u = pull * (value[None, :] - (own + shift)[:, None])
        added = tl.sum(u, 0)
        between = (anchor - row).to(tl.float32)
        lean = (column - anchor).to(tl.float32) * added + tl.sum(u * between[:, None], 0)
        _put(tilt + column, lean, there, ADD)
        _put(total + column, added, there, ADD)
        if VALUES:
            _put(by_value + column, tl.sum(pull, 0), there, ADD)
    return by_row


@triton.jit
def pull_beyond(
    scores, values, own, first, stop, length, anchor, at_anchor, begin, end, carry, temperature, shift, scaled,
    total, tilt, by_value, by_row,
    ROWS: tl.constexpr, TILE: tl.constexpr, TOWARDS: tl.constexpr,
    ADD: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """The pull on the items ``begin`` to ``end`` steps beyond the anchor; returns what goes to the rows."""
    row = first + tl.arange(0, ROWS)
    at = begin
    while (at < end) & (carry < LIMIT):
        steps = at + tl.arange(0, TILE)
        there = steps < end
        weight, column, carry = weights_beyond(
            scores, row, stop, anchor, at_anchor, steps, there, carry, temperature, TOWARDS, SOFT
        )  # fmt: skip
        value = tl.load(values + column, mask=there, other=0.0)
        here = value
        if SOFT:
            here = tl.load(scores + column, mask=there, other=0.0)
        by_row = put_pull_past(
            scores, weight, value, own, shift, scaled, row, anchor, column, here, there, length, total, tilt,
            by_value, by_row, stop, ADD, SOFT, VALUES,
        )  # fmt: skip
        at += TILE
    return by_row


@triton.jit
def pull_of_rows(
    scores, values, first, stop, length, temperature, shift, scaled, total, tilt, by_value,
    ROWS: tl.constexpr, TILE: tl.constexpr, SEVERAL: tl.constexpr,
    ADD: tl.constexpr, SOFT: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """The pull of a block of rows on the whole list; returns what goes to the rows, ``[ROWS]``."""
    row = first + tl.arange(0, ROWS)
    nothing = tl.full((), 0.0, tl.float64)
    by_row = tl.zeros([ROWS], tl.float32)
    drops = drops_inside(scores, first, stop, temperature, ROWS, SOFT)
    by_row = pull_inside(
        drops, scores, values, first, stop, length, shift, scaled, total, tilt, by_value, by_row,
        ROWS, ADD, SOFT, VALUES,
    )  # fmt: skip
    last = stop - 1
    own = tl.load(values + row, mask=row < stop, other=0.0)
    by_row = pull_beyond(
        scores, values, own, first, stop, length, last, drops_of_column(drops, row, last), 0, length - stop, nothing,
        temperature, shift, scaled, total, tilt, by_value, by_row, ROWS, TILE, 1, ADD, SOFT, VALUES,
    )  # fmt: skip
    if SEVERAL:
        by_row = pull_beyond(
            scores, values, own, first, stop, length, first, drops_of_column(drops, row, first), 0, first, nothing,
            temperature, shift, scaled, total, tilt, by_value, by_row, ROWS, TILE, -1, ADD, SOFT, VALUES,
        )  # fmt: skip
    # The next block's tiles are held by other threads.
    tl.debug_barrier()
    return by_row


@triton.jit
def tie_bounds(scores, here, rank, length, there):
    """First and last rank of every item's tie group; the rank itself where nothing is tied, which is seen at once."""
    before = tl.load(scores + rank - 1, mask=there & (rank > 0), other=float("inf"))
    after = tl.load(scores + rank + 1, mask=there & (rank + 1 < length), other=float("-inf"))
    tied = there & ((before == here) | (after == here))
    growing = tl.max(tied.to(tl.int32), 0)
    # Most groups are of two or three: look twice as far as long as that is still within one, then bisect.
    span = growing * 2
    while growing > 0:
        up = tl.load(scores + rank - span, mask=tied & (rank >= span), other=float("inf")) == here
        down = tl.load(scores + rank + span, mask=tied & (rank < length - span), other=float("-inf")) == here
        growing = tl.max((tied & (up | down)).to(tl.int32), 0)
        span += span * growing
    low_from, low = tl.maximum(rank - span, 0), rank
    high, high_to = rank, tl.minimum(rank + span, length - 1)
    while span > 0:
        middle = (low_from + low) // 2
        above = tl.load(scores + middle, mask=tied, other=0.0) > here
        low_from, low = tl.where(above, middle + 1, low_from), tl.where(above, low, middle)
        middle = (high + high_to + 1) // 2
        within = tl.load(scores + middle, mask=tied, other=0.0) >= here
        high, high_to = tl.where(within, middle, high), tl.where(within, high_to, middle - 1)
        span = span // 2
    return tl.where(tied, low_from, rank), tl.where(tied, high, rank)


@triton.jit
def end_of_group(scores, rank, length, TOWARDS: tl.constexpr):
    """The last rank of one item's tie group, or the first where ``TOWARDS`` is −1."""
    here = tl.load(scores + rank)
    # Twice as far as long as that is still within the group, then half as far.
    step = 1
    growing = rank >= 0
    while growing:
        growing = _is_tied(scores, rank + TOWARDS * step, length, here)
        rank = tl.where(growing, rank + TOWARDS * step, rank)
        step = tl.where(growing, 2 * step, step)
    while step > 1:
        step = step // 2
        tied = _is_tied(scores, rank + TOWARDS * step, length, here)
        rank = tl.where(tied, rank + TOWARDS * step, rank)
    return rank


@triton.jit
def _is_tied(scores, rank, length, here):
    inside = (rank >= 0) & (rank < length)
    return inside & (tl.load(scores + tl.where(inside, rank, 0)) == here)


@triton.jit
def tie_bounds_of_tile(scores, here, rank, begin, end, length):
    """:func:`tie_bounds` of the items ``begin`` to ``end``, all of them in one tile.

    Groups that end within the tile are found by scans, and the two that may not by looking on from its ends.
    """
    there = rank < end
    before = tl.load(scores + rank - 1, mask=there & (rank > 0), other=0.0)
    after = tl.load(scores + rank + 1, mask=there & (rank + 1 < length), other=0.0)
    opens = there & ((before != here) | (rank == 0))
    closes = there & ((after != here) | (rank + 1 == length))
    low = tl.associative_scan(tl.where(opens, rank, -1), 0, _greater)
    high = tl.associative_scan(tl.where(closes, rank, length), 0, _less, reverse=True)
    low = tl.where(low < 0, end_of_group(scores, begin, length, -1), low)
    return low, tl.where(high == length, end_of_group(scores, end - 1, length, 1), high)


@triton.jit
def _greater(left, right):
    return tl.maximum(left, right)


@triton.jit
def _less(left, right):
    return tl.minimum(left, right)
