"""Ranking data in memory: flat documents, and the offsets that cut them into queries."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pirank.data.errors import DataError, SkippedLines
from pirank.data.ordering import by_length
from pirank.data.query_ids import joined
from pirank.data.summary import Summary, summarise
from pirank.lists import check_offsets

# Queries among which those of similar length are brought together.
_POOL = 1000

Queries = int | slice | Sequence[int] | np.ndarray | Tensor


class RankingData:
    """Queries, their documents, and the documents' features and labels.

    The documents of all queries stand one after another: query q holds the documents ``offsets[q]`` to
    ``offsets[q + 1]``. Nothing is padded, and a slice of consecutive queries is a view that copies nothing,
    also of a file mapped into memory.

    Args:
        features: ``[N, F]``, one row a document; made float32.
        labels: ``[N]``, made float32; None for documents that are to be ranked and have no labels.
        offsets: ``[Q + 1]`` boundaries of the queries, from 0 to N.
        query_ids: one id a query; None: 0, 1, …
        doc_ids: one id a document, or None.
        feature_names: one name a feature, or None.
        skipped: what the reader left out, where it was asked to skip errors.

    Example:
        >>> data = RankingData(torch.rand(5, 3), labels=[2, 0, 1, 0, 1], offsets=[0, 3, 5])
        >>> data
        RankingData(queries=2, documents=5, features=3)
        >>> data[1].labels
        tensor([0., 1.])
        >>> train, held_out = data.split([0.5, 0.5], seed=0)
        >>> len(train), len(held_out)
        (1, 1)
    """

    def __init__(
        self,
        features: Any,
        labels: Any,
        offsets: Any,
        query_ids: Any = None,
        doc_ids: Any = None,
        feature_names: Sequence[str] | None = None,
        *,
        skipped: SkippedLines | None = None,
    ) -> None:
        features = tensor_of(features, "features")
        if features.dim() != 2:
            raise DataError(f"features must be [documents, features], got {list(features.shape)}")
        self.features: Tensor = features.to(torch.float32)
        documents, width = self.features.shape
        self.labels: Tensor | None = None if labels is None else _as_labels(labels, self.features)
        try:
            self.offsets: Tensor = check_offsets(
                torch.as_tensor(offsets), self.features[:, 0] if width else self.features.new_empty(documents)
            )
        except ValueError as problem:
            raise DataError(str(problem)) from None
        queries = self.offsets.numel() - 1
        self.query_ids: np.ndarray = _as_ids(
            "query_ids", np.arange(queries) if query_ids is None else query_ids, queries
        )
        self.doc_ids: np.ndarray | None = None if doc_ids is None else _as_ids("doc_ids", doc_ids, documents)
        self.feature_names: list[str] | None = (
            None if feature_names is None else [str(name) for name in feature_names]
        )
        if self.feature_names is not None and len(self.feature_names) != width:
            raise DataError(
                f"feature_names must hold one name a feature, {width}: got {len(self.feature_names)}"
            )
        if self.feature_names is not None and len(set(self.feature_names)) < width:
            twice = Counter(self.feature_names).most_common(1)[0][0]
            raise DataError(f"feature_names must differ: {twice!r} is there more than once")
        self.skipped: SkippedLines = SkippedLines() if skipped is None else skipped

    # --- what is there --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of queries."""
        return self.offsets.numel() - 1

    @property
    def documents(self) -> int:
        """The number of documents."""
        return self.features.shape[0]

    @property
    def lengths(self) -> Tensor:
        """Documents of each query: ``[Q]`` int64."""
        return self.offsets.diff()

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self.features.device

    @property
    def query_index(self) -> Tensor:
        """The query of each document, from 0: ``[N]`` int64."""
        return torch.repeat_interleave(self.lengths)

    def describe(self) -> Summary:
        """Queries, documents, labels, list lengths, blank queries and constant features, counted."""
        return summarise(self)

    def __repr__(self) -> str:
        unlabelled = ", unlabelled" if self.labels is None else ""
        return (
            f"RankingData(queries={len(self)}, documents={self.documents}, "
            f"features={self.features.shape[1]}{unlabelled})"
        )

    # --- choosing queries -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[RankingData]:
        return (self[q] for q in range(len(self)))

    def __getitem__(self, queries: Queries) -> RankingData:
        """The named queries, in the order named: a number, a slice, an array of numbers, or a boolean array.

        One query and slices of step 1 are views; an array copies.
        """
        if isinstance(queries, slice):
            start, stop, step = queries.indices(len(self))
            if step == 1:
                return self._view(start, max(start, stop))
            return self._gathered(torch.arange(len(self))[np.arange(start, stop, step)])
        if isinstance(queries, (int, np.integer)) and not isinstance(queries, bool):
            q = int(queries)
            if not -len(self) <= q < len(self):
                raise IndexError(f"query {q} of {len(self)}")
            q %= len(self)
            return self._view(q, q + 1)
        return self._gathered(self._as_index(queries))

    def document_index(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """The documents of ``queries [q]``: row numbers ``[n]``, and the offsets ``[q + 1]`` among them."""
        starts = self.offsets[queries]
        lengths = self.offsets[queries + 1] - starts
        offsets = torch.zeros(len(queries) + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(lengths, 0, out=offsets[1:])
        if self.device.type == "cpu":
            # Batches are made of this: NumPy's one thread never waits for another, as PyTorch's do on a busy machine.
            shift = np.repeat((starts - offsets[:-1]).numpy(), lengths.numpy())
            return torch.from_numpy(shift + np.arange(len(shift))), offsets
        shifts = torch.repeat_interleave(starts - offsets[:-1], lengths)
        return shifts + torch.arange(len(shifts), device=self.device), offsets

    def split(self, fractions: Sequence[float], seed: int = 0) -> tuple[RankingData, ...]:
        """Cut into parts by query, at random; each part keeps the queries' order.

        Args:
            fractions: the share of each part, in sum 1.
            seed: the same seed gives the same parts.

        Example:
            >>> data = RankingData(torch.rand(10, 2), torch.zeros(10), torch.arange(11))
            >>> [len(part) for part in data.split([0.6, 0.2, 0.2])]
            [6, 2, 2]
        """
        if not all(0 <= share <= 1 for share in fractions) or abs(sum(fractions) - 1) > 1e-6:
            raise ValueError(f"fractions must be shares from 0 to 1 that sum to 1, got {list(fractions)}")
        order = np.random.default_rng(seed).permutation(len(self))
        bounds = np.rint(np.cumsum(fractions) * len(self)).astype(np.int64)[:-1]
        return tuple(self[np.sort(part)] for part in np.split(order, bounds))

    def shuffled(self, seed: int = 0, *, bucketed: bool = False) -> RankingData:
        """The queries in a random order, as a copy.

        Args:
            seed: the same seed gives the same order.
            bucketed: sort each thousand of them by length, so that neighbours are alike.

        Example:
            >>> data = RankingData(torch.rand(10, 2), torch.zeros(10), torch.arange(11))
            >>> sorted(data.shuffled(seed=1).query_ids.tolist()) == list(range(10))
            True
        """
        order = np.random.default_rng(seed).permutation(len(self))
        if bucketed:
            order = by_length(order, self.lengths.numpy(force=True), _POOL)
        return self._gathered(torch.from_numpy(order))

    @staticmethod
    def concatenate(parts: Iterable[RankingData]) -> RankingData:
        """The queries of several data sets, one after another; document ids stay if all parts have them."""
        parts = list(parts)
        if not parts:
            raise ValueError("concatenate needs at least one part, got none")
        first = parts[0]
        names = next((part.feature_names for part in parts if part.feature_names is not None), None)
        for part in parts[1:]:
            if part.features.shape[1] != first.features.shape[1]:
                raise DataError(
                    "the parts must have the same features: "
                    f"got {first.features.shape[1]} and {part.features.shape[1]} columns"
                )
            if part.feature_names is not None and part.feature_names != names:
                raise DataError("the parts must have the same features: their names differ, or their order")
            if (part.labels is None) != (first.labels is None):
                raise DataError("the parts must all have labels, or none of them: got both kinds")
        starts = np.cumsum([0] + [part.documents for part in parts])
        offsets = [first.offsets[:1]] + [
            part.offsets[1:] + int(start) for part, start in zip(parts, starts[:-1], strict=True)
        ]
        skipped = SkippedLines()
        for part in parts:
            skipped.extend(part.skipped)
        doc_ids = [part.doc_ids for part in parts if part.doc_ids is not None]
        labels = [part.labels for part in parts if part.labels is not None]
        return RankingData(
            torch.cat([part.features for part in parts]),
            torch.cat(labels) if labels else None,
            torch.cat(offsets),
            joined([part.query_ids for part in parts]),
            np.concatenate(doc_ids) if len(doc_ids) == len(parts) else None,
            names,
            skipped=skipped,
        )

    # --- moving ---------------------------------------------------------------------------------------------

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> RankingData:
        """The same data on another device; ``non_blocking=True`` overlaps the copy from pinned memory."""
        return self._mapped(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> RankingData:
        """A copy in page-locked memory: transfers to a GPU are fast and can overlap computation."""
        return self._mapped(lambda tensor: tensor.pin_memory())

    def _mapped(self, move: Any) -> RankingData:
        labels = None if self.labels is None else move(self.labels)
        return self._like(move(self.features), labels, move(self.offsets), self.query_ids, self.doc_ids)

    def _like(
        self,
        features: Tensor,
        labels: Tensor | None,
        offsets: Tensor,
        query_ids: np.ndarray,
        doc_ids: np.ndarray | None,
    ) -> RankingData:
        """Data with this one's names, unchecked: its parts come from data that was checked."""
        data = RankingData.__new__(RankingData)
        data.features, data.labels, data.offsets = features, labels, offsets
        data.query_ids, data.doc_ids = query_ids, doc_ids
        data.feature_names, data.skipped = self.feature_names, self.skipped
        return data

    def _view(self, start: int, stop: int) -> RankingData:
        offsets = self.offsets[start : stop + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        return self._like(
            self.features[rows],
            None if self.labels is None else self.labels[rows],
            offsets - offsets[0],
            self.query_ids[start:stop],
            None if self.doc_ids is None else self.doc_ids[rows],
        )

    def _gathered(self, queries: Tensor) -> RankingData:
        rows, offsets = self.document_index(queries.to(self.device))
        return self._like(
            self.features.index_select(0, rows),
            None if self.labels is None else self.labels.index_select(0, rows),
            offsets,
            self.query_ids[queries.numpy(force=True)],
            None if self.doc_ids is None else self.doc_ids[rows.numpy(force=True)],
        )

    def _as_index(self, queries: Any) -> Tensor:
        index = torch.as_tensor(np.asarray(queries) if not isinstance(queries, Tensor) else queries)
        if index.dtype == torch.bool:
            if index.shape != (len(self),):
                raise IndexError(
                    f"a boolean choice must name every query, [{len(self)}]: got {list(index.shape)}"
                )
            return index.nonzero()[:, 0]
        if index.numel() == 0:
            return index.new_empty(0, dtype=torch.int64)
        if index.dim() != 1 or index.is_floating_point():
            raise IndexError(f"queries must be whole numbers [q], got {index.dtype} {list(index.shape)}")
        if int(index.min()) < -len(self) or int(index.max()) >= len(self):
            raise IndexError(f"queries from {int(index.min())} to {int(index.max())}: there are {len(self)}")
        return index.to(torch.int64) % len(self)


def tensor_of(values: Any, name: str) -> Tensor:
    """Numbers of any kind as a tensor, an array of float32 without a copy; other values are refused by name."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise DataError(f"{name} must be real numbers, got {values.dtype}")
        return (values.to_dense() if values.layout != torch.strided else values).detach()
    array = _real_numbers(values, name)
    if array.dtype != np.float32 or not array.dtype.isnative or min(array.strides, default=0) < 0:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as that
            array = array.astype(np.float32, order="C")
    if array.flags.writeable:
        return torch.from_numpy(array)
    with warnings.catch_warnings():
        # PyTorch warns of writing to what NumPy holds read-only, as a file mapped into memory: nothing here writes.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def _real_numbers(values: Any, name: str) -> np.ndarray:
    """An array of whole or floating-point numbers or booleans."""
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise DataError(f"{name} must be numbers, in rows of one length: {problem}") from None
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} must be numbers, got an array of {array.dtype}")
    if isinstance(values, np.ma.MaskedArray):
        array = np.where(np.ma.getmaskarray(values), np.nan, array)
    return array


def _as_labels(labels: Any, features: Tensor) -> Tensor:
    tensor = tensor_of(labels, "labels")
    if tensor.shape != (features.shape[0],):
        raise DataError(
            f"labels must be one number a document, [{features.shape[0]}]: got {list(tensor.shape)}"
        )
    tensor = tensor.to(device=features.device, dtype=torch.float32)
    bad = (~tensor.isfinite()).nonzero()[:, 0]
    if len(bad):
        first = int(bad[0])
        raise DataError(
            f"labels must be finite: {len(bad)} are not, the first is {float(tensor[first])} in row {first} (from 0)"
        )
    return tensor


def _as_ids(name: str, ids: Any, count: int) -> np.ndarray:
    array = ids.numpy(force=True) if isinstance(ids, Tensor) else np.asarray(ids)
    if array.shape != (count,):
        raise DataError(f"{name} must be one id each, [{count}]: got {list(array.shape)}")
    return array
