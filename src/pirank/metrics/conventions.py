"""What the tools of the field agree and disagree on, as named bundles of options.

A convention answers four questions that a metric's formula leaves open: what a label is worth (``gain``), in
what order tied items stand (``ties``), what a list without a relevant item counts (``empty``) and how lists
are averaged (``average``); for some metrics also what they are divided by (``denominator``). A row below
holds a tool's answers: ``"*"`` for every metric, then what a metric answers differently there. An option
given by name wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from pirank.lists import check_choice

TIES = ("stable", "average", "pessimistic", "random")
EMPTY = ("skip", "zero", "one", "error")
AVERAGE = ("macro", "micro")


class Rules(TypedDict, total=False):
    """The options every metric takes by keyword; see :class:`~pirank.metrics.ListMetric`."""

    ties: str | None
    average: str | None
    empty: str | None
    seed: int
    convention: str | None


Bundle = Mapping[str, Mapping[str, str]]

_OWN: Bundle = {
    "*": {"gain": "exp2", "ties": "stable", "empty": "skip", "average": "macro"},
    "precision": {"denominator": "k"},
    "recall": {"denominator": "relevant"},
    "ap": {"denominator": "relevant"},
    "opa": {"ties": "pessimistic"},
}

CONVENTIONS: Mapping[str, Bundle] = {}


def option_of(metric: str, convention: str | None, option: str) -> str:
    """A metric's answer to one question under a convention; under None the library's own."""
    rows = [_OWN] if convention is None else [CONVENTIONS[convention], _OWN]
    for row in rows:
        for key in (metric, "*"):
            if option in row.get(key, {}):
                return row[key][option]
    raise KeyError(f"no convention answers {option!r} for {metric!r}")


def check_convention(convention: str | None) -> None:
    """Refuse a convention that is not in the table."""
    if convention is not None:
        check_choice("convention", convention, tuple(CONVENTIONS))
