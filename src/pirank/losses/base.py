"""What every loss is: one number a list, the blank-list rule, and the average over lists."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pirank.lists import PerList, check_choice, each_list, reduce_lists
from pirank.metrics.labels import may_look
from pirank.names import nearest

_PER_CALL = ("scores", "labels", "mask", "offsets", "weights")


def above_zero(labels: Tensor) -> Tensor:
    """True at the relevant items: those with a label above 0."""
    return labels > 0


def list_loss(
    per_list: PerList,
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
    relevant: Callable[[Tensor], Tensor] = above_zero,
) -> Tensor:
    """The loss of a batch of lists from the loss of one list, whatever the layout.

    A *blank* list, one without a relevant item, contributes zero loss and zero gradient: its scores never
    reach ``per_list``. Losses are computed in float32 or float64, also under autocast.

    Args:
        per_list: ``(scores [B, L], labels [B, L], mask [B, L] or None) -> [B]``; blank lists arrive with all
            scores 0, and what they get does not matter. Neither B nor L is 0.
        scores: ``[..., L]``, or ``[N]`` with ``offsets``.
        labels: the same shape as ``scores``, 0 for an item that is not relevant.
        mask: True at the items that are there, the same shape as ``scores``; None: all are.
        offsets: ``[Q + 1]`` boundaries of flat lists, from 0 to N.
        weights: one non-negative number a list.
        reduction: ``"mean"``: weighted over the lists; ``"sum"``; ``"none"``: one number a list.
        empty: what ``"mean"`` does with blank lists: ``"skip"`` leaves them out, ``"zero"`` counts them as 0.
        relevant: which labels make an item relevant, elementwise.

    Returns:
        A number, or ``[...]`` (``[Q]`` with ``offsets``) where ``reduction="none"``.
    """
    check_choice("reduction", reduction, ("mean", "sum", "none"))
    check_choice("empty", empty, ("skip", "zero"))
    offsets = None if offsets is None else torch.as_tensor(offsets)
    seen: list[Tensor] = []

    def with_blank_rule(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        counted = _any_item(relevant(labels), mask)
        seen.append(counted)
        if scores.numel() == 0:
            return scores.sum(-1)
        if may_look(counted) and bool(counted.all()):
            return per_list(scores, labels, mask)
        # Blank at the way in as well as out: 0 · inf on the way back would be NaN.
        scores = torch.where(counted[:, None], scores, 0)
        return torch.where(counted, per_list(scores, labels, mask), 0)

    device = scores.device.type if isinstance(scores, Tensor) else "cpu"
    with torch.autocast(device, enabled=False):
        losses = each_list(with_blank_rule, scores, labels, mask=mask, offsets=offsets)
        if empty == "zero":
            counted = torch.ones_like(losses, dtype=torch.bool)
        elif offsets is None:
            counted = seen[0].reshape(losses.shape)
        else:
            counted = _lists_with(relevant(labels), offsets)
        return reduce_lists(losses, counted, weights=weights, reduction=reduction)


def _any_item(found: Tensor, mask: Tensor | None) -> Tensor:
    return (found if mask is None else found & mask).any(-1)


def _lists_with(found: Tensor, offsets: Tensor) -> Tensor:
    """True at the flat lists that hold an item that is found, ``[Q]``."""
    total = torch.cat([found.new_zeros(1, dtype=torch.int64), found.cumsum(0)])
    return total[offsets.to(found.device)].diff() > 0


class ListLoss(nn.Module):
    """A loss function with its options, as a module.

    A subclass names its function, ``class RankNetLoss(ListLoss, function=ranknet_loss)``, and takes that
    function's options by keyword; an option that the function does not know, or refuses, is refused here.

    Example:
        >>> from pirank.losses import MSELoss
        >>> loss = MSELoss(reduction="sum")
        >>> loss
        MSELoss(reduction='sum')
        >>> loss(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 0.0]))
        tensor(2.5000)
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init_subclass__(cls, *, function: Callable[..., Tensor], **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.function = staticmethod(function)
        parameters = inspect.signature(function).parameters.values()
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p for p in parameters if p.name not in _PER_CALL]
        )

    def __init__(self, **options: Any) -> None:
        super().__init__()
        known = self.option_names()
        for name in options:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no option {name!r}{nearest(name, known)}")
        self.options = options
        # No lists at all: whatever the function checks at its door is checked now, not at the first batch.
        self(torch.zeros(0, 1), torch.zeros(0, 1))

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of the options, in the order of the function's signature."""
        return tuple(p for p in inspect.signature(cls.function).parameters if p not in _PER_CALL)

    def forward(
        self,
        scores: Tensor,
        labels: Tensor,
        *,
        mask: Tensor | None = None,
        offsets: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch of lists; see the function for the meaning of the arguments."""
        return type(self).function(
            scores, labels, mask=mask, offsets=offsets, weights=weights, **self.options
        )

    def extra_repr(self) -> str:
        """The options that were given."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())
