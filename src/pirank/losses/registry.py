"""The losses by name, for the command line and for configuration files."""

from __future__ import annotations

from typing import Any

from pirank.losses.base import ListLoss, nearest
from pirank.losses.pointwise import MSELoss

LOSSES: dict[str, type[ListLoss]] = {
    "mse": MSELoss,
}


def names() -> tuple[str, ...]:
    """The names that :func:`get` knows."""
    return tuple(LOSSES)


def get(name: str, **options: Any) -> ListLoss:
    """The loss of that name as a module, with its options.

    Example:
        >>> get("mse", reduction="sum")
        MSELoss(reduction='sum')
    """
    if name not in LOSSES:
        raise ValueError(f"there is no loss {name!r}{nearest(name, LOSSES)}")
    return LOSSES[name](**options)
