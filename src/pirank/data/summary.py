"""What a data set holds, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from pirank.data.ranking_data import RankingData

_BLOCK_DOCUMENTS = 65536
_LABELS_LISTED = 32


@dataclass(frozen=True)
class Summary:
    """What a data set holds, in numbers.

    Attributes:
        queries: the number of queries.
        documents: the number of documents.
        features: the number of features.
        labels: how many documents have each label, where there are at most 32 different ones; None otherwise.
        label_range: smallest and largest label; None without labels.
        list_lengths: shortest, median, 95th percentile and longest list; None without queries.
        mean_length: documents a query.
        blank_queries: queries without a document of label above 0; None without labels.
        constant_features: columns, from 0, that hold one value everywhere.
        skipped_lines: lines the reader left out.
    """

    queries: int
    documents: int
    features: int
    labels: dict[float, int] | None
    label_range: tuple[float, float] | None
    list_lengths: tuple[int, float, float, int] | None
    mean_length: float
    blank_queries: int | None
    constant_features: list[int] = field(repr=False)
    skipped_lines: int = 0


def summarise(data: RankingData) -> Summary:
    """Count what :class:`Summary` names, in one pass over the features."""
    lengths = data.lengths.numpy(force=True)
    list_lengths = None
    if len(lengths):
        middle, high = np.percentile(lengths, [50, 95])
        list_lengths = (int(lengths.min()), float(middle), float(high), int(lengths.max()))
    counts, label_range, blank = None, None, None
    if data.labels is not None:
        values, occurrences = data.labels.unique(return_counts=True)
        if len(values) <= _LABELS_LISTED:
            counts = {float(v): int(n) for v, n in zip(values, occurrences, strict=True)}
        if len(values):
            label_range = (float(values[0]), float(values[-1]))
        relevant = torch.zeros(len(data), dtype=torch.int64, device=data.device)
        relevant.index_add_(0, data.query_index, (data.labels > 0).to(torch.int64))
        blank = int((relevant == 0).sum())
    return Summary(
        queries=len(data),
        documents=data.documents,
        features=data.features.shape[1],
        labels=counts,
        label_range=label_range,
        list_lengths=list_lengths,
        mean_length=data.documents / len(data) if len(data) else 0.0,
        blank_queries=blank,
        constant_features=_constant_features(data),
        skipped_lines=data.skipped.count,
    )


def _constant_features(data: RankingData) -> list[int]:
    if data.documents == 0:
        return []
    first = data.features[0]
    constant = torch.ones_like(first, dtype=torch.bool)
    # Block by block, so that a file mapped into memory is never copied as a whole.
    for start in range(0, data.documents, _BLOCK_DOCUMENTS):
        constant &= (data.features[start : start + _BLOCK_DOCUMENTS] == first).all(0)
    return [int(column) for column in constant.nonzero()[:, 0]]
