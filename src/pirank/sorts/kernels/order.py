"""The device code of a sort within one program, by memory that its threads share through the cache.

Lists are cut into runs of :data:`RUN`, in which every item counts how many stand before it; then runs are merged two
by two, every item looking up its place in the other run. All loops run as far as a list is long: one compiled kernel
serves every length.
"""

from __future__ import annotations

import triton
import triton.language as tl

RUN = tl.constexpr(32)
_LOG_RUN = tl.constexpr(5)
_LAST_PLACE = tl.constexpr(0x7FFFFFFF)


@triton.jit
def key_of(number, place):
    """One 64-bit number that orders a float32 and, among equals, its place: the first place is the greatest."""
    number = tl.where(number == 0, 0.0, number)  # −0 and 0 are a tie
    bits = number.to(tl.int32, bitcast=True)
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # whole numbers in the order of the floats
    return (rising.to(tl.int64) << 32) | (-place + _LAST_PLACE).to(tl.int64)


@triton.jit
def key_of_nothing(place):
    """A key below those of all numbers."""
    lowest = tl.zeros_like(place) - 0x7FFFFFFF - 1
    return (lowest.to(tl.int64) << 32) | (-place + _LAST_PLACE).to(tl.int64)


@triton.jit
def number_in(key):
    """The float32 of a key."""
    rising = (key >> 32).to(tl.int32)
    return (rising ^ ((rising >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def place_in(key):
    """The place of a key."""
    return -(key & 0x7FFFFFFF).to(tl.int32) + _LAST_PLACE


@triton.jit
def sort_keys(keys, spare, count, WIDE: tl.constexpr):
    """Put ``count`` different keys in descending order; returns where they are then: in ``keys`` or in ``spare``."""
    tl.debug_barrier()
    at = 0
    while at < count:
        place = at + tl.arange(0, WIDE)
        there = place < count
        first = (place >> _LOG_RUN) << _LOG_RUN
        own = tl.load(keys + place, mask=there, other=0)
        before = tl.zeros([WIDE], tl.int32)
        for step in range(RUN):
            other = tl.load(keys + first + step, mask=there & (first + step < count), other=own)
            before += (other > own).to(tl.int32)
        tl.store(spare + first + before, own, mask=there)
        at += WIDE
    level = _LOG_RUN
    run = RUN
    source, target = spare, keys
    while run < count:
        tl.debug_barrier()
        at = 0
        while at < count:
            place = at + tl.arange(0, WIDE)
            there = place < count
            own = tl.load(source + place, mask=there, other=0)
            first = (place >> (level + 1)) << (level + 1)
            second = place - first >= run
            other = tl.where(second, first, first + run)
            low = tl.zeros([WIDE], tl.int32)
            high = tl.maximum(tl.minimum(other + run, count) - other, 0)
            span = run
            while span > 0:
                middle = (low + high) >> 1
                above = tl.load(source + other + middle, mask=there & (low < high), other=own) > own
                low = tl.where(above, middle + 1, low)
                high = tl.where(above, high, middle)
                span = span >> 1
            tl.store(target + place - tl.where(second, run, 0) + low, own, mask=there)
            at += WIDE
        source, target = target, source
        run = run * 2
        level = level + 1
    tl.debug_barrier()
    return source
