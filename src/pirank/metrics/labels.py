"""What a label means to a metric, and the errors for labels that mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import torch
from torch import Tensor

from pirank.lists import check_choice

Gain = str | Callable[[Tensor], Tensor]
"""``"exp2"``: 2^y − 1; ``"linear"``: y; or a function of labels ``[B, L]`` that gives gains of at least 0."""

# Gains are summed over a list: leave 2^20 times room below the largest float.
_ROOM = 20


def gains_of(labels: Tensor, gain: Gain) -> Tensor:
    """The gain of each label, ``[B, L]`` to ``[B, L]``."""
    if not isinstance(gain, str):
        return gain(labels)
    return labels if gain == "linear" else torch.exp2(labels) - 1


def check_gain(gain: object) -> None:
    """Refuse a gain that is neither a name nor a function."""
    if not callable(gain):
        check_choice("gain", gain, ("exp2", "linear"))


def check_gains(labels: Tensor, gain: Gain) -> None:
    """Refuse labels that have no gain: negative ones, and exponents beyond the floating-point range."""
    if not isinstance(gain, str):
        gains = gain(labels)
        if gains.shape != labels.shape:
            raise ValueError(
                f"gain must return one number an item, {list(labels.shape)}: got {list(gains.shape)}"
            )
        if gains.numel() and not bool(((gains >= 0) & gains.isfinite()).all()):
            raise ValueError(
                f"gain must return finite numbers of at least 0 for the labels: got {float(gains.min())} "
                f"to {float(gains.max())}"
            )
        return
    smallest, largest = _range_of(labels)
    _refuse_negative(smallest, f"gain={gain!r}")
    if gain == "exp2":
        limit = int(log2(torch.finfo(labels.dtype).max)) - _ROOM
        if largest > limit:
            raise ValueError(
                f"labels must be at most {limit} where the gain is 2^label − 1: got {largest:g}; "
                "use gain='linear', or map the labels to grades"
            )


def check_not_negative(labels: Tensor, reason: str) -> None:
    """Refuse negative labels."""
    _refuse_negative(_range_of(labels)[0], reason)


def _refuse_negative(smallest: float, reason: str) -> None:
    if smallest < 0:
        raise ValueError(
            f"labels must not be negative with {reason}: the smallest is {smallest:g}; "
            "mark absent items with mask= instead of a negative label, or raise the labels to start at 0"
        )


def check_grades(labels: Tensor, max_label: float) -> None:
    """Refuse labels outside 0 … ``max_label``."""
    smallest, largest = _range_of(labels)
    _refuse_negative(smallest, f"max_label={max_label:g}")
    if largest > max_label:
        raise ValueError(
            f"labels must be at most max_label={max_label:g}, the top grade: the largest is {largest:g}; "
            f"pass max_label={largest:g}"
        )


def _range_of(labels: Tensor) -> tuple[float, float]:
    if labels.numel() == 0:
        return 0.0, 0.0
    smallest, largest = labels.aminmax()
    return float(smallest), float(largest)


def may_look(values: Tensor) -> bool:
    """Whether values are checked without being asked to: on CPU tensors, because looking makes a GPU wait."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()
