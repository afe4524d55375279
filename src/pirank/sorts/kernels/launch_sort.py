"""The order of long lists, by the device's own sort."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from pirank.sorts.kernels import deal

# PyTorch sorts lists of a million items one after the other, which does not fill a large device, and shorter ones by
# two sorts. Sorting all items at once and dealing them out to their lists takes 0.65 to 0.9 of its time, for
# a few lists.
TOGETHER_FROM = 100_000
MOST_TOGETHER = 16
_MOST_ITEMS = 2**31 - 1
_TILE = 512


def sorted_lists(scores: Tensor, mask: Tensor | None, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores in descending order within each list, absent items last, and their places in the list, in 32 bits."""
    if offsets is not None:
        return _sorted_flat(scores, offsets)
    keys = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    lists, list_size = keys.shape
    if list_size >= TOGETHER_FROM and 1 < lists <= MOST_TOGETHER and keys.numel() <= _MOST_ITEMS:
        return _sorted_together(keys)
    ordered, order = keys.sort(dim=-1, descending=True, stable=True)
    return ordered, order.int()


def _sorted_together(keys: Tensor) -> tuple[Tensor, Tensor]:
    """``keys.sort(dim=-1, descending=True, stable=True)``."""
    lists, list_size = keys.shape
    together, places = keys.flatten().sort(descending=True, stable=True)
    tiles = triton.cdiv(keys.numel(), _TILE)
    sizes = {"items": keys.numel(), "list_size": list_size, "TILE": _TILE}
    sizes["LISTS"] = int(triton.next_power_of_2(lists))
    counts = torch.empty(sizes["LISTS"] * tiles, dtype=torch.int32, device=keys.device)
    deal.count_in_tiles[(tiles,)](places=places, counts=counts, **sizes)
    order, ordered = torch.empty_like(keys, dtype=torch.int32), torch.empty_like(keys)
    deal.deal_out[(tiles,)](
        places=places,
        scores=together,
        upto=counts.cumsum(0, dtype=torch.int32),
        order=order,
        ordered=ordered,
        **sizes,
    )
    return ordered, order


def _sorted_flat(scores: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """By score, then by list: both sorts keep what is equal in its order."""
    lists = list_of_items(offsets, scores.numel())
    few = torch.int16 if offsets.numel() <= torch.iinfo(torch.int16).max else torch.int32
    order = scores.sort(descending=True, stable=True).indices
    order = order[lists.to(few)[order].sort(stable=True).indices]
    starts = torch.nn.functional.pad(offsets, (0, 1), value=0)[lists]  # items beyond the last list: any start
    return scores[order], (order - starts).int()


def list_of_items(offsets: Tensor, items: int) -> Tensor:
    """The list each flat item is in; the number of lists for an item beyond the last."""
    return torch.searchsorted(offsets, torch.arange(items, device=offsets.device), right=True) - 1
