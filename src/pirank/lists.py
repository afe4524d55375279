"""Lists of items in their two layouts, checked once, at the door.

Every public loss and metric takes a batch of lists either *padded*, ``scores [..., L]`` with an optional ``mask``
that is True at the items that are there, or *flat*, ``scores [N]`` with ``offsets [Q + 1]``: list q holds the items
``offsets[q]`` to ``offsets[q + 1]``. Inside, everything is a padded ``[B, L]`` batch; :func:`each_list` converts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

# A flat batch is padded to its longest list when that wastes little; otherwise lists of similar length are grouped.
_PADDING_WASTE = 2.0
_PADDING_SMALL = 65536

_Choice = TypeVar("_Choice")
PerList = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def each_list(
    per_list: PerList,
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    check_values: bool | None = None,
) -> Tensor:
    """Apply ``per_list`` to every list of a batch, whatever its layout, and return one number a list.

    Args:
        per_list: ``(scores [B, L], labels [B, L], mask [B, L] or None) -> [B]``. Absent items arrive with score 0,
            label 0 and mask False; half precision arrives as float32. B and L may be 0 and lists may be empty. It
            may also return several numbers a list, ``[B, C]``: C is then the last dimension of the result.
        scores: ``[..., L]``, or ``[N]`` with ``offsets``.
        labels: the same shape as ``scores``.
        mask: True at the items that are there, the same shape as ``scores``; None: all are.
        offsets: ``[Q + 1]`` boundaries of flat lists, from 0 to N.
        check_values: refuse NaN and infinite scores or labels. None: on CPU tensors only, because looking at
            values makes a GPU wait.

    Returns:
        ``[...]`` (the leading shape of ``scores``), or ``[Q]`` with ``offsets``.
    """
    scores, labels = check_pair(scores, labels)
    if offsets is not None:
        if mask is not None:
            raise ValueError("mask and offsets exclude each other: flat lists hold no padding")
        offsets = check_offsets(offsets, scores)
        check_finite(scores, None, "scores", check_values)
        check_finite(labels, None, "labels", check_values)
        return _each_flat(per_list, scores, labels, offsets)
    batch_shape, length = scores.shape[:-1], scores.shape[-1]
    count = batch_shape.numel()
    mask = check_mask(mask, scores)
    if mask is not None:
        scores = torch.where(mask, scores, 0)
        labels = torch.where(mask, labels, 0)
        mask = mask.reshape(count, length)
    check_finite(scores, mask, "scores", check_values)
    check_finite(labels, mask, "labels", check_values)
    if scores.dim() == 2:
        return per_list(scores, labels, mask)
    result = per_list(scores.reshape(count, length), labels.reshape(count, length), mask)
    return result.reshape(batch_shape + result.shape[1:])


def padded(values: Tensor, offsets: Tensor, fill: float = 0.0) -> tuple[Tensor, Tensor]:
    """Flat lists as a padded batch: ``values [N]`` and ``offsets [Q + 1]`` to ``([Q, L], mask [Q, L])``.

    Example:
        >>> padded(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1, 3]))[0]
        tensor([[1., 0.],
                [2., 3.]])
    """
    lengths = offsets.diff()
    longest = int(lengths.max()) if lengths.numel() else 0
    position = torch.arange(longest, device=values.device)
    mask = position < lengths[:, None]
    index = torch.where(mask, offsets[:-1, None] + position, 0)
    if values.numel() == 0:
        return values.new_full(mask.shape, fill), mask
    return torch.where(mask, values[index], fill), mask


def _each_flat(per_list: PerList, scores: Tensor, labels: Tensor, offsets: Tensor) -> Tensor:
    lengths = offsets.diff()
    lists = lengths.numel()
    longest = int(lengths.max()) if lists else 0
    if lists * longest <= max(_PADDING_WASTE * scores.numel(), _PADDING_SMALL):
        return _each_group(per_list, scores, labels, offsets[:-1], lengths, longest)
    results = []
    order = []
    for group, width in _groups_of_similar_length(lengths):
        results.append(_each_group(per_list, scores, labels, offsets[:-1][group], lengths[group], width))
        order.append(group)
    return torch.cat(results)[torch.cat(order).argsort()]


def _each_group(
    per_list: PerList, scores: Tensor, labels: Tensor, starts: Tensor, lengths: Tensor, width: int
) -> Tensor:
    position = torch.arange(width, device=scores.device)
    mask = position < lengths[:, None]
    if scores.numel() == 0:
        # The sum is 0 and ties the result to the scores: a process without queries goes backward like the others.
        return per_list(scores.new_zeros(mask.shape) + scores.sum(), labels.new_zeros(mask.shape), mask)
    index = (starts[:, None] + position).clamp(max=scores.numel() - 1).reshape(-1)
    # index_select is several times faster than scores[index], there and back.
    scores, labels = (part.index_select(0, index).reshape(mask.shape) for part in (scores, labels))
    return per_list(torch.where(mask, scores, 0), torch.where(mask, labels, 0), mask)


def _groups_of_similar_length(lengths: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Indices of lists whose lengths differ by at most a factor 1.5, with the longest length of each group."""
    by_length, order = lengths.sort()
    boundaries = []
    start, total = 0, lengths.numel()
    while start < total:
        limit = max(int(by_length[start] * 3) // 2, 8)
        stop = int(torch.searchsorted(by_length, limit, right=True))
        boundaries.append((start, stop))
        start = stop
    for start, stop in boundaries:
        yield order[start:stop], int(by_length[stop - 1])


def check_pair(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and labels of one shape, in one floating-point type of full precision."""
    check_scores(scores)
    if not isinstance(labels, Tensor):
        raise TypeError(
            f"labels must be a torch.Tensor, got {type(labels).__name__}: torch.as_tensor(labels) makes one"
        )
    if labels.shape != scores.shape:
        raise ValueError(
            f"labels must have the shape of scores, one label an item: "
            f"got labels {list(labels.shape)} and scores {list(scores.shape)}"
        )
    scores = in_full_precision(scores)
    return scores, labels.to(scores.dtype)


def check_scores(scores: Tensor) -> None:
    """Refuse what is not a floating-point tensor of at least one dimension."""
    if not isinstance(scores, Tensor):
        raise TypeError(
            f"scores must be a torch.Tensor, got {type(scores).__name__}: torch.as_tensor(scores) makes one"
        )
    if not scores.is_floating_point():
        raise TypeError(f"scores must be floating point, got {scores.dtype}: convert with scores.float()")
    if scores.dim() == 0:
        raise ValueError("scores must have at least one dimension, the items of a list: got a single number")


def in_full_precision(scores: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 as they are."""
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def check_mask(mask: Tensor | None, scores: Tensor) -> Tensor | None:
    """The mask as a boolean tensor of the scores' shape."""
    if mask is None:
        return None
    if mask.shape != scores.shape:
        raise ValueError(
            f"mask must have the shape of scores, True at the items that are there: "
            f"got mask {list(mask.shape)} and scores {list(scores.shape)}"
        )
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask must be boolean, True at the items that are there, got {mask.dtype}: use mask.bool()"
        )
    return mask


def check_offsets(offsets: Tensor, scores: Tensor) -> Tensor:
    """The offsets as an int64 tensor on the scores' device, if they cut ``scores [N]`` into consecutive lists."""
    if scores.dim() != 1:
        raise ValueError(f"with offsets, scores must be flat, [N]: got {list(scores.shape)}")
    offsets = torch.as_tensor(offsets)
    if offsets.dim() != 1 or offsets.numel() == 0 or offsets.is_floating_point():
        raise ValueError(
            f"offsets must be whole numbers [lists + 1], from 0 to {scores.numel()}: "
            f"got {offsets.dtype} {list(offsets.shape)}"
        )
    if offsets.device.type == "cpu":
        first, last = int(offsets[0]), int(offsets[-1])
        if first != 0:
            raise ValueError(f"offsets must start at 0, got offsets[0] = {first}")
        if last != scores.numel():
            raise ValueError(
                f"offsets must end at the number of items, {scores.numel()}: got offsets[-1] = {last}"
            )
        falls = (offsets.diff() < 0).nonzero()
        if falls.numel():
            q = int(falls[0])
            raise ValueError(
                f"offsets must not fall: offsets[{q}] = {int(offsets[q])} is followed by {int(offsets[q + 1])}"
            )
    # Without blocking: from the CPU this would otherwise wait for all that the GPU has still to do.
    return offsets.to(torch.int64).to(scores.device, non_blocking=True)


def longest_list(offsets: Tensor, items: int, *, ask_beyond: int) -> int:
    """The length of the longest flat list, or an upper bound of it.

    Offsets on the CPU tell at once. Those on a GPU would make the program wait: they are asked only where there are
    more than ``ask_beyond`` items, and not while a CUDA graph is captured or a program compiled.
    """
    if offsets.device.type == "cpu" and not torch.compiler.is_compiling():
        return int(offsets.diff().max()) if offsets.numel() > 1 else 0
    if items <= ask_beyond or torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing():
        return items
    return int(offsets.diff().max())


def check_finite(values: Tensor, mask: Tensor | None, name: str, check_values: bool | None = None) -> None:
    """Refuse NaN and infinities; by default on CPU tensors only, because looking at values makes a GPU wait."""
    if torch.compiler.is_compiling() or not (
        values.device.type == "cpu" if check_values is None else check_values
    ):
        return
    # A finite sum proves that all are finite; an infinite one may be an overflow, so only then look at each.
    if math.isfinite(values.detach().sum().item()):
        return
    bad = ~values.detach().isfinite().reshape(-1)
    if mask is not None:
        bad &= mask.reshape(-1)
    count = int(bad.sum())
    if count:
        where = int(bad.nonzero()[0])
        value = values.detach().reshape(-1)[where].item()
        raise ValueError(
            f"{name} must be finite: {count} of {values.numel()} are NaN or infinite, the first is {value} "
            f"at flat position {where}; mark absent items with mask=, and look for the step that made them"
        )


def check_weights(weights: Tensor, per_list: Tensor) -> Tensor:
    """One finite number of at least 0 a list, of the kind of the lists' values; on a GPU nobody looks at them."""
    weights = torch.as_tensor(weights)
    if weights.shape != per_list.shape:
        raise ValueError(
            f"weights must be one number a list, {list(per_list.shape)}: got {list(weights.shape)}"
        )
    check_finite(weights, None, "weights")
    if weights.device.type == "cpu" and not torch.compiler.is_compiling() and bool((weights < 0).any()):
        raise ValueError(f"weights must not be negative: the smallest is {float(weights.min()):g}")
    return weights.to(per_list)


def check_k(k: int | None) -> None:
    """A cutoff is a whole number of at least 1, or None for the whole list."""
    if k is None:
        return
    if isinstance(k, bool) or not isinstance(k, int):
        raise TypeError(f"k must be a whole number or None for the whole list, got {k!r}")
    if k < 1:
        raise ValueError(f"k must be at least 1, or None for the whole list, got {k}")


def check_choice(name: str, value: _Choice, choices: tuple[str, ...]) -> _Choice:
    """The value, if it is one of the named choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def reduce_lists(
    per_list: Tensor,
    counted: Tensor,
    *,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Turn one loss a list into the batch's loss.

    Args:
        per_list: one loss a list, 0 where ``counted`` is False.
        counted: True at the lists that take part in the mean.
        weights: one non-negative number a list.
        reduction: ``"mean"`` (weighted, over the counted lists; 0 if there is none), ``"sum"`` or ``"none"``.
    """
    check_choice("reduction", reduction, ("mean", "sum", "none"))
    if weights is not None:
        weights = check_weights(weights, per_list)
        per_list = per_list * weights
    if reduction == "none":
        return per_list
    if reduction == "sum":
        return per_list.sum()
    if weights is None and counted.device.type == "cpu" and not torch.compiler.is_compiling():
        return per_list.sum() / max(int(counted.sum()), 1)
    mass = counted.to(per_list.dtype) if weights is None else torch.where(counted, weights, 0)
    total = mass.sum()
    return per_list.sum() / torch.where(total > 0, total, 1)
