"""Scores and metrics of a whole data set."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pirank.data import RankingData
from pirank.models.alone import why_not_alone

_DOCUMENTS_AT_A_TIME = 32768
# A GPU is busy with so many only. Networks that look across documents may need memory for pairs of them.
_DOCUMENTS_ON_A_GPU = 1 << 18


@torch.no_grad()
def scores_of(
    network: nn.Module,
    data: RankingData,
    *,
    documents_at_a_time: int | None = None,
    on_device: bool = False,
) -> Tensor:
    """The score of every document, ``[N]`` on the CPU, in float32, a few queries at a time.

    Args:
        network: maps ``features [N, F]`` and ``offsets [Q + 1]`` to ``scores [N]``; used in evaluation mode.
        data: the queries; labels are not needed.
        documents_at_a_time: how many documents are scored together, at least one query; None: as suits the device.
        on_device: leave the scores where the network is.

    Example:
        >>> from pirank.models import Ranker
        >>> data = RankingData(torch.rand(5, 3), None, torch.tensor([0, 2, 5]))
        >>> scores_of(Ranker(3), data).shape
        torch.Size([5])
    """
    device = next((t.device for t in (*network.parameters(), *network.buffers())), torch.device("cpu"))
    if documents_at_a_time is None:
        many = device.type == "cuda" and why_not_alone(network) is None
        documents_at_a_time = _DOCUMENTS_ON_A_GPU if many else _DOCUMENTS_AT_A_TIME
    was_training = network.training
    network.eval()
    try:
        parts = [
            network(part.features.to(device), part.offsets.to(device)).float()
            for part in blocks_of_queries(data, documents_at_a_time)
        ]
    finally:
        network.train(was_training)
    if not on_device:
        parts = [part.cpu() for part in parts]
    return torch.cat(parts) if parts else torch.zeros(0, device=device if on_device else "cpu")


def transformed(transform: nn.Module, data: RankingData) -> RankingData:
    """The same data with its features transformed ahead, so that training need not do it in every epoch."""
    with torch.no_grad():
        parts = [
            transform(part.features, part.offsets) for part in blocks_of_queries(data, _DOCUMENTS_AT_A_TIME)
        ]
    features = torch.cat(parts) if parts else transform(data.features)
    return RankingData(features, data.labels, data.offsets, data.query_ids)


def blocks_of_queries(data: RankingData, documents: int) -> Iterator[RankingData]:
    """Consecutive queries, as many at a time as fit in ``documents``, at least one."""
    start, queries = 0, len(data)
    offsets = data.offsets.cpu()
    while start < queries:
        limit = offsets[start] + documents
        stop = max(int(torch.searchsorted(offsets, limit, right=True)) - 1, start + 1)
        yield data[start:stop]
        start = stop
