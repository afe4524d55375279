"""Reading LETOR / svmlight text: ``label qid:id index:value … # comment``."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch

from pirank.data.errors import DataError, SkippedLines
from pirank.data.grouping import Places, group_rows
from pirank.data.query_ids import one_type
from pirank.data.ranking_data import RankingData
from pirank.data.sources import BLOCK_BYTES, Progress, TextBlock, text_blocks
from pirank.data.svmlight_blocks import Rows, parse_regular
from pirank.data.svmlight_lines import line_of_row, parse_lines


def read_svmlight(
    files: Sequence[Path],
    *,
    features: int | None = None,
    pad: bool = True,
    clip: bool = False,
    errors: str = "raise",
    sort_queries: bool = False,
    progress: Progress | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> RankingData:
    """Read svmlight files as one data set; :func:`pirank.data.read` is the front door.

    Blocks of a fixed size are read, parsed on a few threads and written to their place in the result, so the
    memory needed beyond the result does not depend on the size of the files. Features a line does not name
    are 0.
    """
    skipped = SkippedLines()
    table = _FeatureTable(features)
    labels: list[np.ndarray] = []
    ids: list[np.ndarray] = []
    doc_ids: list[list[str] | int] = []
    places = Places(partial(line_of_row, features=features, clip=clip))
    widths = DenseWidths(None if pad else features)
    for path in files:
        table.expect_file(
            path.stat().st_size if path.suffix.lower() not in (".gz", ".xz", ".zst", ".bz2") else None
        )
        rows_before = table.rows
        for block, rows, bad in _parsed(path, features, clip, errors, progress, block_bytes):
            skipped.extend(bad)
            places.add(path, block.first_line, table.rows, len(rows))
            widths.add(block, rows)
            try:
                table.append(rows, len(block.text))
            except MemoryError:
                line, text = line_of_row(path, block.first_line, rows.widest, features, clip=clip)
                problem = f"feature index {rows.width}: a table with so many columns does not fit into memory"
                raise DataError(problem, path=str(path), line=line, text=text) from None
            labels.append(rows.labels)
            ids.append(rows.query_ids)
            doc_ids.append(rows.doc_ids if rows.doc_ids is not None else len(rows))
        if table.rows == rows_before:
            problem = "the file holds no data line"
            if skipped.examples:
                problem += f": all were skipped, the first because of: {skipped.examples[0].problem}"
            raise DataError(problem, path=str(path))
        widths.end_of_file()
    data = table.finished()
    grouped = group_rows(one_type(ids), places, sort_queries=sort_queries)
    all_labels = np.concatenate(labels)
    names = _joined(doc_ids)
    if grouped.order is not None:
        data, all_labels = data[grouped.order], all_labels[grouped.order]
        names = None if names is None else names[grouped.order]
    return RankingData(
        torch.from_numpy(data),
        torch.from_numpy(all_labels),
        torch.from_numpy(grouped.offsets),
        grouped.query_ids,
        names,
        skipped=skipped,
    )


class DenseWidths:
    """Refuses text with other features than expected, where that can be told from text that leaves out zeros.

    It can where every line of a file names the same features, from 1 on: fewer than are expected, or than every line of
    the file before, are a mistake then.

    Args:
        expected: the number of features; None: that of the first such file.
        why: where that number comes from.
    """

    def __init__(self, expected: int | None, why: str = "{} are expected") -> None:
        self._expected = expected
        self._why = why.format(expected)
        self._width: int | None = None  # of all lines of this file so far, None where they differ
        self._first: tuple[Path, int, str] | None = None

    def add(self, block: TextBlock, rows: Rows) -> None:
        """Look at some consecutive rows of a file."""
        if len(rows) == 0:
            return
        width = rows.width if rows.columns is None else None
        if self._first is None:
            self._width, self._first = width, (block.path, *block.first_data_line())
        elif width != self._width:
            self._width = None

    def end_of_file(self) -> None:
        """Raise a DataError if all rows since the last call are of another width than expected."""
        width, first = self._width, self._first
        self._width, self._first = None, None
        if width is None or first is None:
            return
        path, number, text = first
        if self._expected is None:
            self._expected, self._why = width, f"in {path} every line has {width}"
        elif width != self._expected:
            problem = f"every line has {width} features, but {self._why}"
            raise DataError(problem, path=str(path), line=number, text=text)


def _parsed(
    path: Path,
    features: int | None,
    clip: bool,
    errors: str,
    progress: Progress | None,
    block_bytes: int,
) -> Iterator[tuple[TextBlock, Rows, SkippedLines]]:
    """The blocks of a file and their rows, in order, parsed a few at a time."""

    def parse(block: TextBlock) -> tuple[TextBlock, Rows, SkippedLines]:
        skipped = SkippedLines()
        rows = parse_regular(block.text, clip=clip)
        if rows is None or (features is not None and rows.width > features):
            rows = parse_lines(block, None if errors == "raise" else skipped, features, clip=clip)
        return block, rows, skipped

    workers = min(8, _processors())
    waiting: deque[Future[tuple[TextBlock, Rows, SkippedLines]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for block in text_blocks(path, block_bytes=block_bytes, progress=progress):
                waiting.append(pool.submit(parse, block))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _FeatureTable:
    """A float32 matrix that grows by rows, and by columns where a later line names a larger index.

    It is made as large as the file promises. Memory that was never written to is not taken, so a generous
    guess costs nothing, and the result is never copied as a whole.
    """

    def __init__(self, width: int | None) -> None:
        self.rows = 0
        self._data = np.empty((0, width or 0), np.float32)
        self._text_left: int | None = None

    def expect_file(self, text_bytes: int | None) -> None:
        """A file of so many bytes of text follows; None: who knows how many."""
        self._text_left = text_bytes

    def append(self, rows: Rows, text_bytes: int) -> None:
        """Add the rows of a block of ``text_bytes`` bytes of text."""
        if len(rows) == 0:
            return
        width = self._data.shape[1]
        if rows.width > width:
            self._widen(rows.width)
        last = self.rows + len(rows)
        if last > len(self._data):
            self._lengthen(last, len(rows) / text_bytes)
        place = self._data[self.rows : last]
        if rows.columns is None:
            place[:, : rows.values.shape[1]] = rows.values
            place[:, rows.values.shape[1] :] = 0
        else:
            place[:] = 0
            place[np.repeat(np.arange(len(rows)), rows.counts), rows.columns] = rows.values
        self.rows = last
        if self._text_left is not None:
            self._text_left = max(self._text_left - text_bytes, 0)

    def _widen(self, width: int) -> None:
        data = np.empty((len(self._data), width), np.float32)
        data[: self.rows, : self._data.shape[1]] = self._data[: self.rows]
        data[: self.rows, self._data.shape[1] :] = 0
        self._data = data

    def _lengthen(self, needed: int, rows_per_byte: float) -> None:
        promised = 0 if self._text_left is None else int(1.05 * self._text_left * rows_per_byte)
        capacity = max(needed + 64, self.rows + promised, needed * 3 // 2 if self._text_left is None else 0)
        if self.rows == 0:
            self._data = np.empty((capacity, self._data.shape[1]), np.float32)
        else:
            self._data.resize((capacity, self._data.shape[1]), refcheck=False)

    def finished(self) -> np.ndarray:
        """The matrix, cut to the rows that were written."""
        self._data.resize((self.rows, self._data.shape[1]), refcheck=False)
        return self._data


def _joined(doc_ids: list[list[str] | int]) -> np.ndarray | None:
    """The document ids of all blocks, "" where a line has none; None where no line has one."""
    if not any(isinstance(part, list) for part in doc_ids):
        return None
    parts = [part if isinstance(part, list) else [""] * part for part in doc_ids]
    return np.array([name for part in parts for name in part], dtype=object)
