"""All metrics of a ranking under each rule for queries without a relevant document, and query by query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pirank import metrics
from pirank.data import RankingData
from pirank.lists import check_finite

STANDARD_METRICS = (
    "ndcg@1",
    "ndcg@3",
    "ndcg@5",
    "ndcg@10",
    "map",
    "mrr",
    "precision@10",
    "recall@10",
    "hit_rate@10",
    "err@10",
    "rbp",
    "arp",
    "opa",
)


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a ranking.

    Attributes:
        queries: how many queries there are.
        blank: how many of them have no relevant document.
        means: metric to rule to mean over the queries: ``"skip"`` leaves blank queries out, ``"zero"`` and ``"one"``
            count them as 0 and 1.
        per_query: metric to its value for each query, ``[Q]``, NaN for a blank one.
        lower_is_better: the metrics that are better when lower.
        left_out: the usual metrics that these labels do not have, and why.
    """

    queries: int
    blank: int
    means: dict[str, dict[str, float]] = field(default_factory=dict)
    per_query: dict[str, Tensor] = field(default_factory=dict)
    lower_is_better: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The means as plain values."""
        plain = {"queries": self.queries, "blank_queries": self.blank, "metrics": self.means}
        return {**plain, "left_out": self.left_out} if self.left_out else plain


def evaluate(scores: Tensor, data: RankingData, names: tuple[str, ...] | None = None) -> Evaluation:
    """Evaluate the ranking of every query by the scores of its documents.

    Args:
        scores: ``[N]``, higher ranks first; ties keep the order of the rows.
        data: the queries, with labels.
        names: metrics that :func:`pirank.metrics.get` knows; None: all the usual ones that these labels have.

    Example:
        >>> data = RankingData(torch.zeros(3, 1), torch.tensor([0.0, 1.0, 0.0]), torch.tensor([0, 2, 3]))
        >>> result = evaluate(torch.tensor([0.5, 0.9, 0.1]), data, ("ndcg@10",))
        >>> result.means["ndcg@10"]
        {'skip': 1.0, 'zero': 0.5, 'one': 1.0}
    """
    if data.labels is None:
        raise ValueError("the data has no labels to evaluate against: name their column")
    if scores.shape != data.labels.shape:
        raise ValueError(
            f"scores must be one number a document, [{len(data.labels)}]: got {list(scores.shape)}"
        )
    check_finite(scores, None, "scores", check_values=True)
    relevant = torch.nn.functional.pad((data.labels > 0).cumsum(0), (1, 0))
    blank = int((relevant[data.offsets].diff() == 0).sum())
    means: dict[str, dict[str, float]] = {}
    per_query: dict[str, Tensor] = {}
    lower, left_out = [], {}
    for name in STANDARD_METRICS if names is None else names:
        metric = metrics.get(name)
        try:
            values = metric(scores, data.labels, offsets=data.offsets, empty="skip", reduction="none")
        except ValueError as error:
            if names is not None:
                raise
            left_out[name] = str(error)  # such as ERR, which is defined for grades up to 4
            continue
        counted = values[~values.isnan()].double()
        total, found = float(counted.sum()), len(counted)
        per_query[name] = values
        means[name] = {"skip": total / found if found else float("nan"), "zero": total / max(len(data), 1)}
        means[name]["one"] = (total + len(data) - found) / max(len(data), 1)
        if metric.lower_is_better:
            lower.append(name)
    return Evaluation(len(data), blank, means, per_query, tuple(lower), left_out)
