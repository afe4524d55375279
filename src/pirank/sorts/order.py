"""The order of a list, from a sort or, where most items cannot weigh anything, from its top alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pirank.sorts.anchored import SortedLists
from pirank.sorts.base import Temperature

# A list is sorted whole below this length; above, a growing topk is tried first, because most items weigh nothing.
_PRUNE_FROM = 1024
_FIRST_WIDTH = 256
_GROWTH = 8

LastDrop = Callable[[SortedLists, int], Tensor]


def descending(
    scores: Tensor, mask: Tensor | None, k: int, temperature: Temperature, last_drop: LastDrop | None
) -> tuple[SortedLists, Tensor]:
    """The items that can carry weight in the first k rows, in descending order, and their positions ``[B, W]``.

    Args:
        scores: ``[B, L]``.
        mask: ``[B, L]`` or None.
        k: how many rows are wanted.
        temperature: a number or ``[B, 1]``.
        last_drop: by how many temperatures the last item's logit lies below the maximum of every row, at the least
            (``[B]`` or ``[B, 1]``); items below it lie lower still. None: sort the whole list.
    """
    keys = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    if (
        last_drop is not None
        and keys.device.type == "cpu"
        and keys.shape[1] >= _PRUNE_FROM
        and not torch.compiler.is_compiling()
    ):
        pruned = _pruned(keys, mask, k, temperature, last_drop)
        if pruned is not None:
            return pruned
    ordered, order = keys.sort(dim=-1, descending=True)
    return _sorted_lists(ordered, mask, temperature), order


def _sorted_lists(ordered: Tensor, mask: Tensor | None, temperature: Temperature) -> SortedLists:
    if mask is None:
        return SortedLists(ordered, None, temperature)
    width = ordered.shape[1]
    lengths = mask.sum(-1, keepdim=True)
    present = torch.arange(width, device=mask.device) < lengths
    # Absent items repeat the last score: no gap, no infinity.
    last = ordered.gather(-1, (lengths.clamp(max=width) - 1).clamp(min=0))
    last = torch.where(lengths > 0, last, 0)
    return SortedLists(torch.where(present, ordered, last), present, temperature)


def _pruned(
    keys: Tensor, mask: Tensor | None, k: int, temperature: Temperature, last_drop: LastDrop
) -> tuple[SortedLists, Tensor] | None:
    """The top of the lists, if everything below weighs less than the smallest normal number; else None."""
    width = max(_FIRST_WIDTH, 4 * k)
    while width <= keys.shape[1] // 4:
        ordered, order = keys.topk(width, dim=-1)
        lists = _sorted_lists(ordered, mask, temperature)
        drop = last_drop(lists, k).reshape(-1)
        if lists.present is not None:
            drop = drop.masked_fill(~lists.present[:, -1], float("inf"))
        least = float(drop.min()) if drop.numel() else float("inf")
        if least > lists.limit:
            return lists, order
        # A list as dense all the way down would reach the limit at a width that grows with its root.
        if not least * _GROWTH**2 > lists.limit:
            return None
        width *= _GROWTH
    return None
