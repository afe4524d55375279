"""Kernels that deal items that were sorted together out to their lists, in the order in which they come.

A tile is a few thousand of the sorted items. Where a list's items of a tile go follows from how many the tiles before
it hold, and from how many stand before each in the tile itself: four lists are counted at a time, in 16 bits each.
"""

from __future__ import annotations

import triton
import triton.language as tl

LISTS_A_WORD = tl.constexpr(4)
_BITS = tl.constexpr(16)
_ALL_BITS = tl.constexpr(0xFFFF)


@triton.jit
def _lists_at(places, items, list_size, LISTS: tl.constexpr, TILE: tl.constexpr):
    """The places of this program's items in all lists laid end to end, and the lists they are in.

    What is past the last item counts as the last list's, where it comes after everything that is looked at.
    """
    rank = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    there = rank < items
    place = tl.load(places + rank, mask=there, other=0).to(tl.int32)
    return rank, there, place, tl.where(there, place // list_size, LISTS - 1)


@triton.jit(do_not_specialize=["list_size"])
def count_in_tiles(places, counts, items, list_size, LISTS: tl.constexpr, TILE: tl.constexpr):
    """How many items of each list stand in each tile, ``[LISTS, tiles]``."""
    _, _, _, which = _lists_at(places, items, list_size, LISTS, TILE)
    number = tl.histogram(which, LISTS)
    tl.store(counts + tl.arange(0, LISTS) * tl.num_programs(0) + tl.program_id(0), number)


@triton.jit(do_not_specialize=["list_size"])
def deal_out(places, scores, upto, order, ordered, items, list_size, LISTS: tl.constexpr, TILE: tl.constexpr):
    """Put every item's place in its list, and its score, after those of its list that come before it.

    ``upto`` is the running sum of the counts, list after list.
    """
    rank, there, place, which = _lists_at(places, items, list_size, LISTS, TILE)
    score = tl.load(scores + rank, mask=there, other=0.0)
    number = tl.zeros([TILE], tl.int32)
    bit = (which % LISTS_A_WORD) * _BITS
    for word in range((LISTS + LISTS_A_WORD - 1) // LISTS_A_WORD):
        own = which // LISTS_A_WORD == word
        counted = tl.cumsum(tl.where(own, tl.full([TILE], 1, tl.int64) << bit, 0), 0)
        number = tl.where(own, ((counted >> bit) & _ALL_BITS).to(tl.int32), number)
    tile = tl.arange(0, LISTS) * tl.num_programs(0) + tl.program_id(0) - 1
    before = tl.load(upto + tile, mask=tile >= 0, other=0)
    to = tl.gather(before, which, 0) + number - 1
    tl.store(order + to, place - which * list_size, mask=there)
    tl.store(ordered + to, score, mask=there)
