"""Metrics by name, for the command line and configuration files."""

from __future__ import annotations

import difflib
import re
from typing import Any

from pirank.metrics.arp import ARP
from pirank.metrics.binary import MRR, RBP, AveragePrecision, HitRate, Precision, Recall
from pirank.metrics.err import ERR
from pirank.metrics.ndcg import DCG, NDCG
from pirank.metrics.opa import OPA
from pirank.metrics.per_list import ListMetric

_METRICS: dict[str, type[ListMetric]] = {
    metric.key: metric
    for metric in (DCG, NDCG, ARP, Precision, Recall, MRR, AveragePrecision, ERR, RBP, HitRate, OPA)
}
_ALIASES = {
    "map": "ap",
    "average_precision": "ap",
    "p": "precision",
    "hit": "hit_rate",
    "hitrate": "hit_rate",
}


def names() -> list[str]:
    """The names :func:`get` knows.

    Example:
        >>> "ndcg" in names()
        True
    """
    return list(_METRICS)


def get(name: str, **options: Any) -> ListMetric:
    """A metric by its name, with the cutoff after an @.

    Args:
        name: one of :func:`names`, alone or as ``name@k``; case does not matter.
        options: of the metric's constructor.

    Example:
        >>> get("ndcg@10", convention="lightgbm")
        NDCG(k=10, convention='lightgbm')
    """
    match = re.fullmatch(r"\s*([A-Za-z][A-Za-z_ -]*?)\s*(?:@\s*(\d+))?\s*", name)
    key = re.sub(r"[ -]", "_", match[1].lower()) if match else name
    key = _ALIASES.get(key, key)
    if match is None or key not in _METRICS:
        near = difflib.get_close_matches(key.lower(), [*_METRICS, *_ALIASES], n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"{name!r} is not the name of a metric: {hint}The names are {', '.join(_METRICS)}, "
            "with a cutoff as in 'ndcg@10'"
        )
    if match[2] is not None:
        if key == OPA.key:
            raise ValueError(f"{name!r}: OPA counts all pairs of a list and takes no cutoff, use 'opa'")
        options["k"] = int(match[2])
    return _METRICS[key](**options)
