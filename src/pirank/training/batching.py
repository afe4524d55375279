"""Batches as the loop sees them: flat rows, whatever protocol they follow, epoch after epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pirank.data import Batch, FixedSizeBatches, RaggedBatches, RankingData
from pirank.training.settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class FlatBatch:
    """Lists one after another.

    Attributes:
        features: ``[N, F]``.
        labels: ``[N]``.
        offsets: ``[Q + 1]``.
        weights: ``[Q]``, or None.
        mass: how much the batch weighs in a mean over lists: those with a relevant item, by their weights.
    """

    features: Tensor
    labels: Tensor
    offsets: Tensor
    weights: Tensor | None
    mass: Tensor


def check_processes(settings: Settings, fabric: Fabric) -> None:
    """Refuse a batch size that cannot be shared out evenly."""
    processes = fabric.world_size
    if settings.batch_size % processes and not (settings.batch_documents and settings.list_size is None):
        raise ValueError(
            f"batch_size must be a multiple of the number of processes, {processes}: got {settings.batch_size}"
        )


def make_batches(train: RankingData, settings: Settings, fabric: Fabric) -> RaggedBatches | FixedSizeBatches:
    """The training split in batches; each process gets its part of every step."""
    processes = fabric.world_size
    place: dict[str, Any] = {"seed": settings.seed, "rank": fabric.global_rank, "world_size": processes}
    if settings.batch_documents is not None and settings.list_size is None:
        return RaggedBatches(train, documents=max(settings.batch_documents // processes, 1), **place)
    check_processes(settings, fabric)
    size = settings.batch_size // processes
    if settings.list_size is not None:
        return FixedSizeBatches(train, settings.list_size, size, **place)
    return RaggedBatches(train, batch_size=size, **place)


def endless(batches: RaggedBatches | FixedSizeBatches) -> Iterator[Batch]:
    """Epoch after epoch, each in an order of its own, from where the batches stand."""
    while True:
        yield from batches


def flat_batch(batch: Batch, weights: Tensor | None = None) -> FlatBatch:
    """A batch without its padding, with the weights of its queries.

    Args:
        batch: ragged (``offsets``) or padded (``mask``), with labels.
        weights: one number a query of the whole data set, or None.
    """
    features, labels, offsets = batch.features, batch.labels, batch.offsets
    if labels is None:
        raise ValueError("the training split has no labels")
    if offsets is None:
        assert batch.mask is not None, "a batch has offsets or a mask"
        offsets = torch.nn.functional.pad(batch.mask.sum(1).cumsum(0), (1, 0))
        features, labels = features[batch.mask], labels[batch.mask]
    relevant = torch.nn.functional.pad((labels > 0).cumsum(0), (1, 0))
    counted = (relevant[offsets].diff() > 0).to(features.dtype)
    if weights is None:
        return FlatBatch(features, labels, offsets, None, counted.sum())
    chosen = weights.to(features)[batch.queries.to(features.device)]
    return FlatBatch(features, labels, offsets, chosen, (counted * chosen).sum())
