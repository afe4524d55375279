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
    # Lower is better: a blank list that counts 0 or 1 would be better than any other.
    "arp": {"empty": "skip"},
}

CONVENTIONS: Mapping[str, Bundle] = {
    # The equations of Swezey et al. 2021, and a blank list as its tables count it.
    "paper": {
        "*": {"gain": "exp2", "ties": "stable", "empty": "zero", "average": "macro"},
        "opa": {"empty": "skip"},
    },
    # TF-Ranking 0.2.3 to 0.5.5: ARP is averaged over labels and OPA over pairs, so blank lists weigh nothing
    # there.
    "tf-ranking": {
        "*": {"gain": "exp2", "ties": "random", "empty": "zero", "average": "macro"},
        "precision": {"denominator": "retrieved"},
        "arp": {"average": "micro"},
        "opa": {"average": "micro", "empty": "skip"},
    },
    "rax": {
        "*": {"gain": "exp2", "ties": "stable", "empty": "zero", "average": "macro"},
        "precision": {"denominator": "retrieved"},
    },
    "lightgbm": {
        "*": {"gain": "exp2", "ties": "stable", "empty": "one", "average": "macro"},
        "dcg": {"empty": "zero"},
        "ap": {"denominator": "reachable"},
    },
    "xgboost": {
        "*": {"gain": "exp2", "ties": "stable", "empty": "one", "average": "macro"},
        "dcg": {"empty": "zero"},
        "precision": {"denominator": "retrieved", "empty": "zero"},
        "ap": {"denominator": "reachable"},
    },
    "catboost": {
        "*": {"gain": "linear", "ties": "pessimistic", "empty": "one", "average": "macro"},
        "dcg": {"empty": "zero"},
        "precision": {"denominator": "retrieved", "empty": "zero"},
        "ap": {"denominator": "reachable", "empty": "zero"},
        "mrr": {"empty": "zero"},
        "err": {"empty": "zero"},
    },
    "sklearn": {
        "*": {"gain": "linear", "ties": "average", "empty": "zero", "average": "macro"},
        "opa": {"ties": "average"},
    },
    # trec_eval, and pytrec_eval and ir_measures over it. They break ties by document id, descending.
    "trec": {"*": {"gain": "linear", "ties": "stable", "empty": "zero", "average": "macro"}},
    "ranx": {"*": {"gain": "linear", "ties": "stable", "empty": "zero", "average": "macro"}},
}


def option_of(metric: str, convention: str | None, option: str) -> str:
    """A metric's answer to one question under a convention; under None the library's own."""
    rows = [_OWN] if convention is None else [CONVENTIONS[convention], _OWN]
    for key in (metric, "*"):
        for row in rows:
            if option in row.get(key, {}):
                return row[key][option]
    raise KeyError(f"no convention answers {option!r} for {metric!r}")


def check_convention(convention: str | None) -> None:
    """Refuse a convention that is not in the table."""
    if convention is not None:
        check_choice("convention", convention, tuple(CONVENTIONS))
