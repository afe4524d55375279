"""In which order queries come, and where the order is cut into batches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

# Queries are sorted by length within pools of this many batches: large enough to fill batches with similar
# lengths, small enough that an epoch does not show every length only once.
_POOL_BATCHES = 64
# The share of a batch's queries that may be left to the next one, so that cuts by documents differ: see _cut.
_LEFT_OUT = 1 / 16


def order_of_queries(
    lengths: np.ndarray,
    *,
    documents: int | None,
    batch_size: int | None,
    bucketed: bool,
    rng: np.random.Generator | None,
) -> list[np.ndarray]:
    """Cut all queries into batches within the budgets.

    Args:
        lengths: documents of each query, ``[Q]``.
        documents: at most so many documents a batch, if it holds more than one query.
        batch_size: at most so many queries a batch.
        bucketed: queries of similar length together.
        rng: for the order; None: the order of the data.
    """
    count = len(lengths)
    order = np.arange(count) if rng is None else rng.permutation(count)
    if bucketed and count:
        mean = max(float(lengths.mean()), 1.0)
        per_batch = min(batch_size or count, int(documents / mean) + 1 if documents else count)
        order = by_length(order, lengths, max(per_batch * _POOL_BATCHES, 1))
    batches = list(_cut(order, lengths, documents, batch_size))
    if bucketed and rng is not None:
        batches = [batches[i] for i in rng.permutation(len(batches))]
    return batches


def blocks_of_queries(
    lengths: np.ndarray, *, documents: int | None, batch_size: int | None, rng: np.random.Generator
) -> list[np.ndarray]:
    """Neighbouring queries together, the batches in random order; the cuts lie elsewhere with every draw."""
    order = np.arange(len(lengths))
    whole = next(_cut(order, lengths, documents, batch_size), None)
    first = 0 if whole is None else int(rng.integers(len(whole)))
    batches = [order[:first]] if first else []
    batches += _cut(order[first:], lengths, documents, batch_size, rng)
    return [batches[i] for i in rng.permutation(len(batches)).tolist()]


def by_length(order: np.ndarray, lengths: np.ndarray, pool: int) -> np.ndarray:
    """Each ``pool`` consecutive queries of an order, sorted by their lengths."""
    pools = [order[start : start + pool] for start in range(0, len(order), pool)]
    return np.concatenate([order[:0], *(each[np.argsort(lengths[each], kind="stable")] for each in pools)])


def _cut(
    order: np.ndarray,
    lengths: np.ndarray,
    documents: int | None,
    batch_size: int | None,
    rng: np.random.Generator | None = None,
) -> Iterator[np.ndarray]:
    """The order cut where a budget is used up; with ``rng`` a little before, at random.

    Two cuttings by documents that fall on the same place once would be the same from there on, wherever they began.
    """
    count = len(order)
    total = [] if documents is None else [0, *np.cumsum(lengths[order]).tolist()]
    start = 0
    while start < count:
        stop = count if batch_size is None else min(start + batch_size, count)
        if documents is not None:
            fitting = bisect_right(total, total[start] + documents, lo=start) - 1
            stop = min(stop, max(fitting, start + 1))
            if rng is not None and stop < count:
                stop -= int(rng.random() * min(max(_LEFT_OUT * (stop - start), 2), stop - start))
        yield order[start:stop]
        start = stop


def most_within(lengths: np.ndarray, documents: int | None, batch_size: int | None) -> tuple[int, int]:
    """How many documents, and how many lists, a batch of :func:`order_of_queries` can hold."""
    ordered = np.sort(lengths)
    lists = len(ordered) if batch_size is None else min(batch_size, len(ordered))
    most = int(ordered[len(ordered) - lists :].sum())
    if documents is None or not len(ordered):
        return most, lists
    fitting = int(np.searchsorted(np.cumsum(ordered), documents, side="right"))
    return min(most, max(documents, int(ordered[-1]))), min(lists, max(fitting, 1))
