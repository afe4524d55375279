"""Item values in the order of a real sort, and what happens at ties."""

from __future__ import annotations

import torch
from torch import Tensor

from pirank.metrics.labels import may_look

# Selection beats sorting where a list has so many times more items than ranks.
_FEW = 3


def ranked_values(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    ranks: int,
    ties: str = "stable",
    generator: torch.Generator | None = None,
) -> Tensor:
    """The item values at the first ranks of each list.

    Args:
        scores: ``[B, L]``, higher ranks first.
        values: ``[B, L]``, 0 at absent items.
        mask: ``[B, L]``, True at the items that are there.
        ranks: how many ranks, at most L.
        ties: the order among equal scores: ``"stable"``, the input's; ``"pessimistic"``, the lowest value
            first; ``"random"``, drawn from ``generator``.

    Returns:
        ``[B, ranks]``, 0 beyond a list's own length.
    """
    keys = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    if ties == "stable":
        few = 0 < _FEW * ranks <= keys.shape[-1] and may_look(keys)
        return _first_of_many(keys, values, ranks) if few else _in_order(keys, values, ranks)
    if ties == "pessimistic":
        first = values.argsort(dim=-1)
    else:
        first = torch.rand(keys.shape, generator=generator, device=keys.device).argsort(dim=-1)
    # A stable sort keeps the first order among equals.
    order = keys.gather(-1, first).argsort(dim=-1, descending=True, stable=True)[:, :ranks]
    return values.gather(-1, first.gather(-1, order))


def _in_order(keys: Tensor, values: Tensor, ranks: int) -> Tensor:
    return values.gather(-1, keys.argsort(dim=-1, descending=True, stable=True)[:, :ranks])


def _first_of_many(keys: Tensor, values: Tensor, ranks: int) -> Tensor:
    """The same by selection, which is unstable: the lists with a tie that it may have broken are sorted."""
    top, order = keys.topk(ranks + 1, dim=-1)
    ranked = values.gather(-1, order[:, :ranks])
    tied = ((top[:, 1:] == top[:, :-1]) & (top[:, 1:] > float("-inf"))).any(-1).nonzero()[:, 0]
    return ranked.index_copy(0, tied, _in_order(keys[tied], values[tied], ranks))
