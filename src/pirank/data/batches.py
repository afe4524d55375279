"""Batches: the paper's lists of one size, and ragged batches, gathered where the data is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pirank.data.gathering import flat_copy, padded_copy, rows_of_lists
from pirank.data.ordering import blocks_of_queries, most_within, order_of_queries
from pirank.data.ranking_data import RankingData
from pirank.data.schedule import WINDOW_BATCHES, Schedule, windows_of


@dataclass(frozen=True)
class Batch:
    """Some queries, either flat (``offsets``) or padded to one size (``mask``).

    Attributes:
        features: ``[n, F]``, or ``[q, L, F]`` padded with 0.
        labels: ``[n]`` or ``[q, L]``; None where the data has none.
        offsets: ``[q + 1]`` boundaries of flat queries; None for a padded batch.
        mask: ``[q, L]``, True at documents that are there; None for a flat batch.
        queries: ``[q]`` which queries of the data these are.
        weight: what to multiply the batch's mean loss with before the mean over processes is taken, so that
            it becomes the mean over all queries of the step. 1 in a single process, 0 for a batch without
            queries.
    """

    features: Tensor
    labels: Tensor | None
    offsets: Tensor | None
    mask: Tensor | None
    queries: Tensor
    weight: float = 1.0

    def __len__(self) -> int:
        """The number of queries."""
        return self.queries.numel()

    @property
    def documents(self) -> int:
        """The number of documents, padding not counted."""
        return self.features.shape[0] if self.mask is None else int(self.mask.sum())

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """The batch on another device."""

        def move(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device, non_blocking=non_blocking)

        features = self.features.to(device, non_blocking=non_blocking)
        return Batch(
            features, move(self.labels), move(self.offsets), move(self.mask), self.queries, self.weight
        )

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory."""

        def pin(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.pin_memory()

        return Batch(
            self.features.pin_memory(),
            pin(self.labels),
            pin(self.offsets),
            pin(self.mask),
            self.queries,
            self.weight,
        )


class RaggedBatches(Schedule):
    """Batches of whole queries, without padding, gathered on the device the data is on.

    Iterating gives one epoch; the next iteration gives the next epoch, in another order. The order depends on
    seed and epoch only. In a distributed run every process makes the same number of steps and every query is
    seen exactly once: where the batches do not divide, some processes get batches without queries, and
    ``batch.weight`` makes the mean over processes right.

    Args:
        data: the queries.
        documents: the budget of documents a batch; a longer query makes a batch of its own.
        batch_size: the budget of queries a batch. 16, the paper's, if neither budget is given.
        shuffle: True: every epoch draws its queries anew, and gathers them into a copy.
            ``"blocks"``: neighbouring queries make a batch; where the data is cut, and which batch comes when, is drawn
            for every epoch. A batch is then a view that copies nothing, so do not write into it. Data that stands
            in an order of its own wants :meth:`RankingData.shuffled` first; a file mapped into memory is read
            in runs.
            False: the data's order, as for evaluation; views as well.
        bucketed: put queries of similar length into the same batch, so that padding them inside a loss wastes
            little.
            None: only under a budget of documents.
        seed: with the epoch, gives the order.
        rank: number of this process.
        world_size: number of processes.
        device: where batches are moved to, if not where the data is. Put the data itself there if it fits.

    Example:
        >>> from pirank.data import synthetic
        >>> data = synthetic(queries=40, list_size=(5, 15))
        >>> batches = RaggedBatches(data, documents=100, seed=1)
        >>> sum(len(batch) for batch in batches), max(batch.documents for batch in batches) <= 100
        (40, True)
    """

    def __init__(
        self,
        data: RankingData,
        documents: int | None = None,
        batch_size: int | None = None,
        *,
        shuffle: bool | str = True,
        bucketed: bool | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str | None = None,
    ) -> None:
        if documents is None and batch_size is None:
            batch_size = 16
        for name, budget in (("documents", documents), ("batch_size", batch_size)):
            if budget is not None and budget < 1:
                raise ValueError(f"{name} must be at least 1, got {budget}")
        if not isinstance(shuffle, (bool, np.bool_)) and shuffle != "blocks":
            raise ValueError(f"shuffle must be True, False or 'blocks', got {shuffle!r}")
        if shuffle == "blocks" and bucketed:
            raise ValueError(
                "bucketed=True chooses queries from all over the data, shuffle='blocks' neighbours: "
                "bring similar lengths together once, with data.shuffled(bucketed=True)"
            )
        super().__init__(data, seed, rank, world_size, device)
        self._budget = documents
        self._batch_size = batch_size
        self._shuffle = shuffle if shuffle == "blocks" else bool(shuffle)
        self._bucketed = (documents is not None and self._shuffle is True) if bucketed is None else bucketed

    def _plan(self, epoch: int) -> list[np.ndarray]:
        budgets = {"documents": self._budget, "batch_size": self._batch_size}
        rng = np.random.default_rng([self._seed, epoch]) if self._shuffle else None
        if self._shuffle == "blocks" and rng is not None:
            return blocks_of_queries(self._lengths, **budgets, rng=rng)
        return order_of_queries(self._lengths, **budgets, bucketed=self._bucketed, rng=rng)

    def _options(self) -> dict[str, Any]:
        return {
            "documents": self._budget,
            "batch_size": self._batch_size,
            "shuffle": self._shuffle,
            "bucketed": self._bucketed,
        }

    def largest(self) -> tuple[int, int]:
        """How many documents, and how many lists, a batch holds at most."""
        return most_within(self._lengths, self._budget, self._batch_size)

    def _documents(self, queries: np.ndarray, epoch: int) -> tuple[Tensor, Tensor]:
        return self._data.document_index(torch.from_numpy(queries).to(self._data.device))

    def _gathered(self, batches: list[np.ndarray], epoch: int) -> Iterator[Batch]:
        if self._shuffle is not True and not self._bucketed:
            return self._viewed(batches)
        return map(self._copied, batches) if _in_memory(self._data) else self._selected(batches, epoch)

    def _viewed(self, batches: list[np.ndarray]) -> Iterator[Batch]:
        """Batches of neighbours, wherever the data is."""
        data, bounds = self._data, np.concatenate([[0], np.cumsum(self._lengths)])
        for begin in range(0, len(batches), WINDOW_BATCHES):
            window = batches[begin : begin + WINDOW_BATCHES]
            queries = np.concatenate(window)
            sizes = np.array([len(batch) for batch in window])
            first = np.array([batch[0] if len(batch) else 0 for batch in window])
            # The offsets of all batches, each from 0, one after another: one more than the batch has queries.
            edges = sizes + 1
            ends = edges.cumsum()
            which = np.repeat(first - (ends - edges), edges) + np.arange(ends[-1])
            offsets = torch.from_numpy(bounds[which] - np.repeat(bounds[first], edges)).to(data.device)
            parts = zip(
                bounds[first].tolist(),
                bounds[first + sizes].tolist(),
                offsets.split(edges.tolist()),
                torch.from_numpy(queries).split(sizes.tolist()),
                strict=True,
            )
            for start, stop, own_offsets, own_queries in parts:
                labels = None if data.labels is None else data.labels[start:stop]
                yield Batch(data.features[start:stop], labels, own_offsets, None, own_queries)

    def _copied(self, batch: np.ndarray) -> Batch:
        """A batch of data in memory, list by list."""
        data, lengths = self._data, self._lengths[batch]
        offsets = np.zeros(len(batch) + 1, np.int64)
        lengths.cumsum(out=offsets[1:])
        count = int(offsets[-1])
        rows = rows_of_lists(data.offsets.numpy()[batch], lengths, offsets)
        return Batch(
            flat_copy(data.features, rows, count),
            None if data.labels is None else flat_copy(data.labels, rows, count),
            torch.from_numpy(offsets),
            None,
            torch.from_numpy(batch.copy()),
        )

    def _selected(self, batches: list[np.ndarray], epoch: int) -> Iterator[Batch]:
        """The batches of data on a device, document by document."""
        data = self._data
        for window in windows_of(batches, self._lengths):
            queries = torch.from_numpy(np.concatenate(window))
            rows, offsets = self._documents(queries.numpy(), epoch)
            query_bounds = np.cumsum([0] + [len(batch) for batch in window])
            # Python numbers, worked out where the data is not: slicing by them never waits for a GPU.
            document_bounds = np.concatenate([[0], np.cumsum(self._lengths[queries.numpy()])])[query_bounds]
            for i in range(len(window)):
                first, last = int(query_bounds[i]), int(query_bounds[i + 1])
                start, stop = int(document_bounds[i]), int(document_bounds[i + 1])
                chosen = rows[start:stop]
                yield Batch(
                    data.features.index_select(0, chosen),
                    None if data.labels is None else data.labels.index_select(0, chosen),
                    offsets[first : last + 1] - start,
                    None,
                    queries[first:last],
                )


class FixedSizeBatches(Schedule):
    """The paper's protocol: every list shuffled with a seed, cut to ``list_size`` and padded to it.

    Which documents of a query remain depends on seed, epoch and query only, not on the batch it is in. The
    paper cuts for testing, too: use ``shuffle=False`` there, and the same ``seed`` and epoch for every model
    compared.

    Args:
        data: the queries.
        list_size: L; the paper uses 200.
        batch_size: queries a batch; the paper uses 16.
        shuffle: shuffle the queries; the documents of a query are shuffled unless ``cut="first"``.
        cut: ``"shuffle"``, or ``"first"`` to keep the first ``list_size`` documents in their order.
        seed: with the epoch, gives both orders.
        rank: number of this process.
        world_size: number of processes; as for :class:`RaggedBatches`.
        device: where batches are moved to, if not where the data is.

    Example:
        >>> from pirank.data import synthetic
        >>> data = synthetic(queries=40, list_size=(5, 15))
        >>> batch = next(iter(FixedSizeBatches(data, list_size=10, batch_size=4)))
        >>> batch.features.shape, batch.mask.shape
        (torch.Size([4, 10, 35]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        data: RankingData,
        list_size: int = 200,
        batch_size: int = 16,
        *,
        shuffle: bool = True,
        cut: str = "shuffle",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str | None = None,
    ) -> None:
        if list_size < 1 or batch_size < 1:
            raise ValueError(f"list_size and batch_size must be at least 1, got {list_size} and {batch_size}")
        if cut not in ("shuffle", "first"):
            raise ValueError(f"cut must be 'shuffle' or 'first', got {cut!r}")
        super().__init__(data, seed, rank, world_size, device)
        self._list_size = list_size
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._cut = cut
        self._keys: tuple[int, Tensor] | None = None

    def _plan(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.default_rng([self._seed, epoch]) if self._shuffle else None
        return order_of_queries(
            self._lengths, documents=None, batch_size=self._batch_size, bucketed=False, rng=rng
        )

    def _options(self) -> dict[str, Any]:
        return {
            "list_size": self._list_size,
            "batch_size": self._batch_size,
            "shuffle": self._shuffle,
            "cut": self._cut,
        }

    @property
    def list_size(self) -> int | None:
        """How many documents of a list are used."""
        return self._list_size

    def largest(self) -> tuple[int, int]:
        """How many documents, and how many lists, a batch holds at most."""
        return most_within(self._lengths.clip(max=self._list_size), None, self._batch_size)

    def _documents(self, queries: np.ndarray, epoch: int) -> tuple[Tensor, Tensor]:
        device = self._data.device
        rows, offsets = self._data.document_index(torch.from_numpy(queries).to(device))
        if self._cut == "first":
            return rows, offsets
        # Query number plus a number below 1, exact in float64: sorting it shuffles each query within itself. The same
        # draw and a stable sort wherever the data is, so that a seed gives the same lists on every device.
        keys = self._keys_of(epoch)
        numbers = np.arange(len(queries), dtype=np.float64)
        if device.type == "cpu":
            places = np.repeat(numbers, self._lengths[queries])
            places += keys.numpy()[rows.numpy()]
            return torch.from_numpy(rows.numpy()[places.argsort(kind="stable")]), offsets
        own = torch.from_numpy(numbers).to(device)
        shuffled = torch.repeat_interleave(own, offsets.diff(), output_size=len(rows)) + keys[rows]
        return rows[shuffled.sort(stable=True).indices], offsets

    def _keys_of(self, epoch: int) -> Tensor:
        """A number from 0 to 1 for every document, ``[N]`` where the data is."""
        if self._keys is None or self._keys[0] != epoch:
            drawn = np.random.default_rng([self._seed, epoch, 1]).random(self._data.documents, np.float32)
            self._keys = epoch, torch.from_numpy(drawn).to(self._data.device)
        return self._keys[1]

    def _gathered(self, batches: list[np.ndarray], epoch: int) -> Iterator[Batch]:
        position = torch.arange(self._list_size, device=self._data.device)
        for window in windows_of(batches, self._lengths):
            queries = torch.from_numpy(np.concatenate(window))
            rows, offsets = self._documents(queries.numpy(), epoch)
            lengths = offsets.diff()
            first = 0
            for batch in window:
                last = first + len(batch)
                own, starts = queries[first:last], offsets[first:last]
                if _in_memory(self._data):
                    yield self._copied(rows.numpy(), starts.numpy(), own)
                else:
                    mask = position < lengths[first:last, None]
                    yield self._selected(rows, torch.where(mask, starts[:, None] + position, 0), mask, own)
                first = last

    def _copied(self, rows: np.ndarray, starts: np.ndarray, queries: Tensor) -> Batch:
        """A batch of data in memory, list by list; ``starts`` are the lists' places in ``rows``."""
        data, lengths = self._data, self._lengths[queries.numpy()]
        if not lengths.any():
            return self._blank(torch.zeros(len(queries), self._list_size, dtype=torch.bool), queries)
        position = np.arange(self._list_size)
        mask = position < lengths[:, None]
        # At padding the list's last document stands in: it is in the processor's cache.
        index = rows.take(starts[:, None] + np.minimum(position, lengths[:, None] - 1), mode="clip")
        kept = np.minimum(lengths, self._list_size)
        features = padded_copy(data.features, index, kept, consecutive=self._cut == "first")
        labels = None
        if data.labels is not None:
            labels = torch.from_numpy(data.labels.numpy().take(index))
            labels.numpy()[~mask] = 0
        return Batch(features, labels, None, torch.from_numpy(mask), queries)

    def _selected(self, rows: Tensor, index: Tensor, mask: Tensor, queries: Tensor) -> Batch:
        """A batch of data on a device, document by document."""
        data = self._data
        if len(rows) == 0:
            return self._blank(mask, queries)
        chosen = rows[index.reshape(-1)]
        features = data.features.index_select(0, chosen).reshape(*mask.shape, data.features.shape[1])
        # Finding the padding would make the program wait for a GPU.
        features.masked_fill_(~mask[..., None], 0)
        labels = (
            None
            if data.labels is None
            else torch.where(mask, data.labels.index_select(0, chosen).reshape(mask.shape), 0)
        )
        return Batch(features, labels, None, mask, queries)

    def _blank(self, mask: Tensor, queries: Tensor) -> Batch:
        """A batch without documents."""
        data = self._data
        labels = None if data.labels is None else data.labels.new_zeros(mask.shape)
        return Batch(
            data.features.new_zeros(*mask.shape, data.features.shape[1]), labels, None, mask, queries
        )


def _in_memory(data: RankingData) -> bool:
    return data.device.type == "cpu"
