"""The feature transform: named steps in a row, fitted on the training split, a part of the model.

What a step learns is held in buffers, so that it is saved, loaded, moved and exported with the weights.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from pirank.models.query_transforms import QueryRank, QueryZScore
from pirank.models.row_transforms import QuantileNormalise, SignedLog1p, Standardise
from pirank.names import unknown

ROW_STEPS = {"log1p": SignedLog1p, "standard": Standardise, "quantile": QuantileNormalise}
QUERY_STEPS = {"query-zscore": QueryZScore, "query-rank": QueryRank}


class FeatureTransform(nn.Module):
    """Steps joined by ``+``: ``"log1p+standard"``, ``"quantile+query-rank"``; ``"none"`` changes nothing.

    Steps that look at one row (``log1p``, ``standard``, ``quantile``) follow one another. Steps that look at
    the documents of a query (``query-zscore``, ``query-rank``) come last; each takes what the row steps gave
    and adds its columns beside them, so ``"standard+query-rank"`` has twice as many columns as the data, and
    ``"query-rank"`` alone has the ranks only.

    Args:
        steps: the steps' names, joined by ``+``.
        in_features: columns of the data.

    Example:
        >>> transform = FeatureTransform("standard+query-rank", in_features=1)
        >>> transform.fit(torch.tensor([[1.0], [3.0]]))
        >>> transform(torch.tensor([[1.0], [3.0], [3.0]]), offsets=torch.tensor([0, 2, 3]))
        tensor([[-1., -1.],
                [ 1.,  1.],
                [ 1.,  0.]])
    """

    def __init__(self, steps: str, in_features: int) -> None:
        super().__init__()
        self.steps = steps
        self.in_features = in_features
        names = [] if steps in ("", "none") else [name.strip() for name in steps.split("+")]
        for name in names:
            if name not in ROW_STEPS and name not in QUERY_STEPS:
                raise ValueError(unknown("transform", name, [*ROW_STEPS, *QUERY_STEPS, "none"]))
        rows = [name for name in names if name in ROW_STEPS]
        queries = [name for name in names if name in QUERY_STEPS]
        if names != rows + queries:
            raise ValueError(
                f"transform {steps!r}: the query-… steps come after those that look at one row: "
                f"write {'+'.join(rows + queries)!r}"
            )
        self.rows = nn.ModuleList(ROW_STEPS[name](in_features) for name in rows)
        self.queries = nn.ModuleList(QUERY_STEPS[name](in_features) for name in queries)
        views = len(queries) + (1 if rows or not queries else 0)
        self.out_features = views * in_features

    @property
    def looks_at_queries(self) -> bool:
        """Whether a row's features depend on the other rows of its query."""
        return len(self.queries) > 0

    @torch.no_grad()
    def fit(self, features: Tensor) -> None:
        """Learn from the training split's ``features [N, F]``."""
        check_columns(features, self.in_features)
        for step in self.rows:
            cast(Standardise, step).fit(features)
            if step is not self.rows[-1]:
                features = step(features)

    def forward(self, features: Tensor, offsets: Tensor | None = None) -> Tensor:
        """``features [N, F]`` to ``[N, out_features]``; ``offsets [Q + 1]`` bound the queries; None: one."""
        check_columns(features, self.in_features)
        for step in self.rows:
            features = step(features)
        if not self.queries:
            return features
        views = [features] if self.rows else []
        views += [step(features, offsets) for step in self.queries]
        return torch.cat(views, dim=1)

    def extra_repr(self) -> str:
        return f"{self.steps!r}, {self.in_features} -> {self.out_features}"


def check_columns(features: Tensor, expected: int) -> None:
    """Refuse rows of another width than the model was made for."""
    if features.dim() != 2 or features.shape[1] != expected:
        shape = list(features.shape)
        raise ValueError(
            f"features must be [documents, {expected}], as in training: got {shape}; "
            "select and order the columns as the model's feature names say"
        )
