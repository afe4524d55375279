"""Where the steps to come find their documents: tensors of fixed size on the device, filled a window at a time.

A step that was captured reads from the same memory whenever it is replayed. So what differs from step to step lies in
tables that a step reads at its own number; filling them is the only work between replays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pirank.data import FixedSizeBatches, RaggedBatches, RankingData
from pirank.data.schedule import WINDOW_BATCHES, WINDOW_DOCUMENTS, Window
from pirank.kernel_paths import runs_kernels
from pirank.training.progress import Progress
from pirank.training.steps import Rates


class Shape(NamedTuple):
    """The static sizes of a step: rows that are gathered, lists, and items of the longest."""

    rows: int
    lists: int
    width: int


@dataclass(frozen=True)
class Gathered:
    """A batch in static shapes.

    Attributes:
        features: ``[rows, F]``, padding at the end.
        real: ``[rows, 1]``, 1 at documents and 0 at padding.
        mask: ``[lists, width]``, True at the items that are there.
        labels: ``[lists, width]``.
        weights: ``[lists]``, 0 at lists that are not there, or None.
        listed: puts scores ``[rows]`` into lists, ``[lists, width]``.
    """

    features: Tensor
    real: Tensor
    mask: Tensor
    labels: Tensor
    weights: Tensor | None
    listed: Callable[[Tensor], Tensor]


class Plan:
    """The steps of a window of batches, on the device.

    Args:
        train: the queries, on the device.
        batches: which of them come when; what :meth:`took` counts is where they stand.
        rates: the learning rate of every step.
        weights: one weight a training query, or None.
        weighted: give the losses weights also where the queries have none, so that lists that are not there count 0.
    """

    def __init__(
        self,
        train: RankingData,
        batches: RaggedBatches | FixedSizeBatches,
        rates: Rates,
        weights: Tensor | None,
        weighted: bool,
    ) -> None:
        assert train.labels is not None, "checked before the training"
        self.train, self.labels, self.batches, self.rates = train, train.labels, batches, rates
        self.query_weights = None if weights is None else weights.numpy(force=True)
        rows, lists = batches.largest()
        width = int(train.lengths.max())
        width = width if batches.list_size is None else min(width, batches.list_size)
        self.largest = Shape(rows, lists, width)
        # A step reads its static number of rows from where it starts: what it reads past its end is padding.
        documents = min(train.documents, WINDOW_DOCUMENTS + rows) + rows
        steps = min(len(train), WINDOW_BATCHES)
        device = train.device
        self.rows = torch.zeros(documents, dtype=torch.int64, device=device)
        self.table = torch.zeros(steps, 2 + 2 * lists, dtype=torch.int64, device=device)
        self.weights = torch.zeros(steps, lists, device=device) if weighted or weights is not None else None
        self.learning_rates = torch.zeros(steps, dtype=torch.float64, device=device)
        self.by_kernels = runs_kernels(device)
        self.position = torch.arange(max(rows, width), device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.now: list[dict[str, float]] = []
        self.documents: list[int] = []
        self.shapes: list[Shape] = []
        self._done = 0
        self._windows = batches.windows()
        self._next: Window | None = None

    @property
    def done(self) -> int:
        """The steps of this window that were made: the number of the next one."""
        return self._done

    @property
    def left(self) -> int:
        """The steps of this window that were not made yet."""
        return len(self.shapes) - self._done

    def took(self, steps: int) -> None:
        """Count so many steps as made."""
        self._done += steps
        self.batches.took(steps)

    def look_ahead(self) -> None:
        """Work out the next window if this one is through: best done while a GPU is busy with the last steps."""
        if self.left == 0 and self._next is None:
            self._next = self._window()

    def _window(self) -> Window:
        window = next(self._windows, None)
        while window is None:
            self.batches.took(0)  # a training may have been stopped after the last batch of an epoch
            self._windows = self.batches.windows()
            window = next(self._windows, None)
        return window

    def fill(self, progress: Progress) -> None:
        """Put the next window into the tables."""
        window, self._next = self._next or self._window(), None
        self._done = 0
        self.at.zero_()
        self.rows[: len(window.rows)].copy_(window.rows)
        self._fill_tables(window)
        steps = len(window.queries)
        shares = [(progress.step + i + 0.5) / max(progress.steps, 1) for i in range(steps)]
        self.now = [self.rates.at(share) for share in shares]
        rates = torch.tensor([now["learning_rate"] for now in self.now], dtype=torch.float64)
        self.learning_rates[:steps].copy_(rates)

    def _fill_tables(self, window: Window) -> None:
        steps, lists = len(window.queries), self.largest.lists
        there = np.arange(lists) < np.array([len(queries) for queries in window.queries])[:, None]
        lengths = np.zeros((steps, lists), np.int64)
        lengths[there] = np.concatenate(window.lengths)
        documents = lengths.sum(1)
        starts = documents.cumsum() - documents
        table = np.column_stack([documents, starts, lengths.cumsum(1) - lengths, lengths])
        self.table[:steps].copy_(torch.from_numpy(table))
        self.documents = documents.tolist()
        self.shapes = [
            self._shape_of(*sizes)
            for sizes in zip(self.documents, there.sum(1).tolist(), lengths.max(1).tolist(), strict=True)
        ]
        if self.weights is not None:
            weights = there.astype(np.float32)
            if self.query_weights is not None:
                weights[there] = self.query_weights[np.concatenate(window.queries)]
            self.weights[:steps].copy_(torch.from_numpy(weights))

    def _shape_of(self, documents: int, lists: int, width: int) -> Shape:
        """The least shape of a few that holds a batch: shapes are captured one by one, and padding is work."""
        most = self.largest
        eighth = max(-(-most.rows // 8), 1)
        return Shape(
            min(max(-(-documents // eighth), 1) * eighth, most.rows),
            # Only budgets of documents make batches that differ much in their number of lists.
            min(_power_of_two(lists), most.lists) if most.lists > 2 * lists else most.lists,
            min(_power_of_two(width), most.width),
        )

    def gather(self, shape: Shape) -> Gathered:
        """The batch of the step whose number :attr:`at` holds."""
        lists, width = shape.lists, shape.width
        if self.by_kernels:
            from pirank.training.gather_kernels import gather, into_lists

            chosen, real, labels, mask = gather(self.at, self.table, self.rows, self.labels, *shape)

            def listed(scores: Tensor) -> Tensor:
                return into_lists(scores, self.at, self.table, lists, width)

        else:
            row = self.table.index_select(0, self.at)[0]
            count, start = row[0], row[1]
            rows, items = self.position[: shape.rows], self.position[:width]
            chosen = self.rows.index_select(0, rows + start)
            # Absent items point to rows all over the batch: their zero gradients are not all added to the same one.
            index = (row[2 : 2 + lists, None] + items) % shape.rows
            mask = items < row[2 + self.largest.lists :][:lists, None]
            real = (rows < count).to(torch.float32)[:, None]
            labels = self.labels.index_select(0, chosen).index_select(0, index.flatten()).view(index.shape)

            def listed(scores: Tensor) -> Tensor:
                return scores.index_select(0, index.flatten()).view(index.shape)

        weights = None if self.weights is None else self.weights.index_select(0, self.at)[0, :lists]
        return Gathered(self.train.features.index_select(0, chosen), real, mask, labels, weights, listed)


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
