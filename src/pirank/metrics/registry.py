"""Metrics by name, for the command line and configuration files."""

from __future__ import annotations

import re
from inspect import signature
from typing import Any

from pirank.metrics.arp import ARP
from pirank.metrics.binary import MRR, RBP, AveragePrecision, HitRate, Precision, Recall
from pirank.metrics.conventions import Rules
from pirank.metrics.err import ERR
from pirank.metrics.ndcg import DCG, NDCG
from pirank.metrics.opa import OPA
from pirank.metrics.per_list import ListMetric
from pirank.names import unknown

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
    if match is None:
        raise ValueError(
            f"{name!r} is not the name of a metric: expected one of {', '.join(_METRICS)}, "
            "alone or with a cutoff as in 'ndcg@10'"
        )
    key = re.sub(r"[ -]", "_", match[1].lower())
    key = _ALIASES.get(key, key)
    if key not in _METRICS:
        raise ValueError(unknown("metric", match[1], _METRICS))
    if match[2] is not None:
        if key == OPA.key:
            raise ValueError(f"{name!r}: OPA counts all pairs of a list and takes no cutoff, use 'opa'")
        if options.get("k") is not None:
            raise ValueError(f"{name!r} names its cutoff, and k={options['k']} another: give one of them")
        options["k"] = int(match[2])
    known = _options_of(_METRICS[key])
    for option in options:
        if option not in known:
            raise ValueError(unknown(f"option of {key}", option, known))
    return _METRICS[key](**options)


def _options_of(metric: type[ListMetric]) -> list[str]:
    own = [p.name for p in signature(metric).parameters.values() if p.kind is not p.VAR_KEYWORD]
    return [*own, *(rule for rule in Rules.__annotations__ if rule not in own)]
