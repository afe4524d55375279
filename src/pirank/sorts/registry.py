"""The sorts by name, for the command line and for configuration files."""

from __future__ import annotations

from typing import Any

from pirank.names import unknown
from pirank.sorts.base import Sort
from pirank.sorts.neural import NeuralSort
from pirank.sorts.sinkhorn import Sinkhorn
from pirank.sorts.soft import SoftSort

SORTS: dict[str, type[Sort]] = {
    "neural": NeuralSort,
    "soft": SoftSort,
    "sinkhorn": Sinkhorn,
}


def names() -> tuple[str, ...]:
    """The names that :func:`get` knows."""
    return tuple(SORTS)


def get(name: str, **options: Any) -> Sort:
    """The sort of that name, with its options.

    Example:
        >>> get("neural", temperature=0.5)
        NeuralSort(temperature=0.5)
    """
    if name not in SORTS:
        raise ValueError(unknown("sort", name, SORTS))
    return SORTS[name](**options)
