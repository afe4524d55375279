"""From one query id a row to the offsets of the queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pirank.data.errors import DataError

FindLine = Callable[[Path, int, int], tuple[int | None, str | None]]
"""From a file, a line of it and a number of rows to the line so many rows further, and its text."""


@dataclass
class Places:
    """Which block of which file each row came from.

    Args:
        find_line: finds a row's line where it is asked for.
    """

    find_line: FindLine
    _blocks: list[tuple[int, int, Path, int]] = field(default_factory=list)

    def add(self, path: Path, first_line: int, first_row: int, rows: int) -> None:
        """Rows ``first_row`` and on came from this file, from this line on."""
        self._blocks.append((first_row, rows, path, first_line))

    def file_of(self, row: int) -> str | None:
        """The file of a row."""
        return next((str(path) for first, rows, path, _ in self._blocks if first <= row < first + rows), None)

    def line_of(self, row: int) -> tuple[int | None, str | None]:
        """Number and text of a row's line, as far as they can be found."""
        for first_row, rows, path, first_line in self._blocks:
            if first_row <= row < first_row + rows:
                return self.find_line(path, first_line, row - first_row)
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
        path = before = line = text = None
        if places is not None:
            path, before = places.file_of(row), places.file_of(int(starts[first[which[again]]]))
            line, text = places.line_of(row)
        problem = (
            in_two_files(runs[again], before, path)
            if before != path
            else f"query {runs[again]!s} goes on at row {row + 1}, after other queries: the rows of a query must "
            "follow each other; sort_queries=True (--sort-queries) brings them together"
        )
        raise DataError(problem, path=path, line=line, text=text)
    lengths = np.diff(starts, append=len(ids))
    query_of_run = np.argsort(np.argsort(first))[which]
    order = np.argsort(np.repeat(query_of_run, lengths), kind="stable")
    sizes = np.bincount(query_of_run, weights=lengths, minlength=len(distinct)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Grouping(offsets, runs[np.sort(first)], order)
