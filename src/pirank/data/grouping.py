"""From one query id a row to the offsets of the queries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pirank.data.errors import DataError
from pirank.data.sources import TextBlock


@dataclass
class Places:
    """Which block of which file each row came from."""

    _blocks: list[tuple[int, int, str, int, bool]] = field(default_factory=list)

    def add(self, block: TextBlock, first_row: int, rows: int) -> None:
        """Rows ``first_row`` and on came from ``block``."""
        # With as many lines as rows, the line number of a row follows; blank lines and comments hide it.
        exact = block.text.count(b"\n") == rows
        self._blocks.append((first_row, rows, str(block.path), block.first_line, exact))

    def of(self, row: int) -> tuple[str | None, int | None]:
        """File and line of a row, as far as known."""
        for first_row, rows, path, first_line, exact in self._blocks:
            if first_row <= row < first_row + rows:
                return path, first_line + row - first_row if exact else None
        return None, None


@dataclass(frozen=True)
class Grouping:
    """Rows as queries.

    Attributes:
        offsets: ``[Q + 1]``.
        query_ids: ``[Q]``, in the order of first appearance.
        order: the rows in the order the offsets speak of; None: as they are.
    """

    offsets: np.ndarray
    query_ids: np.ndarray
    order: np.ndarray | None


def in_two_files(query: object, first: object, second: object) -> str:
    """What is wrong where files that are read together use the same query id."""
    return (
        f"query {query!s} is in {first} and in {second}: files that are read together must not share query ids, "
        "unless it is one query; sort_queries=True (--sort-queries) then brings its rows together"
    )


def group_rows(ids: np.ndarray, places: Places | None = None, *, sort_queries: bool = False) -> Grouping:
    """Find the queries in one id a row.

    Args:
        ids: ``[N]`` whole numbers or text.
        places: where the rows came from, for the error message.
        sort_queries: bring rows of one query together, in the order of the query's first row, instead of
            refusing.
    """
    if len(ids) == 0:
        return Grouping(np.zeros(1, np.int64), ids, None)
    starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
    runs = ids[starts]
    distinct, first, which = np.unique(runs, return_index=True, return_inverse=True)
    if len(distinct) == len(runs):
        return Grouping(np.append(starts, len(ids)).astype(np.int64), runs, None)
    if not sort_queries:
        again = int(np.setdiff1d(np.arange(len(runs)), first)[0])
        row = int(starts[again])
        path, line = places.of(row) if places is not None else (None, None)
        before, _ = places.of(int(starts[first[which[again]]])) if places is not None else (None, None)
        problem = (
            in_two_files(runs[again], before, path)
            if before != path
            else f"query {runs[again]!s} goes on at row {row + 1}, after other queries: the rows of a query must "
            "follow each other; sort_queries=True (--sort-queries) brings them together"
        )
        raise DataError(problem, path=path, line=line)
    lengths = np.diff(starts, append=len(ids))
    query_of_run = np.argsort(np.argsort(first))[which]
    order = np.argsort(np.repeat(query_of_run, lengths), kind="stable")
    sizes = np.bincount(query_of_run, weights=lengths, minlength=len(distinct)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Grouping(offsets, runs[np.sort(first)], order)
