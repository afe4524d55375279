"""CSV line by line: slow, and says which line is wrong."""

from __future__ import annotations

import csv
import io
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pirank.data.arrays import from_arrays
from pirank.data.errors import DataError, SkippedLines
from pirank.data.grouping import Places, group_rows
from pirank.data.query_ids import ids_of
from pirank.data.ranking_data import RankingData
from pirank.data.sources import text_blocks
from pirank.data.tables import Columns, number

# The smallest number that float32 rounds to infinity: its largest, 3.4028235e38 in short, and half a step.
_BEYOND = float(np.finfo(np.float32).max) + 2.0**103


def delimiter_of(path: Path) -> str:
    """Tabs in .tsv files, commas in all others."""
    return "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","


def header(path: Path) -> list[str]:
    """The column names."""
    line, text, names = next(_rows(path), (1, "", "the file has no header line"))
    if isinstance(names, str):
        raise DataError(names, path=str(path), line=line, text=text)
    if not all(map(_is_utf8, names)):
        raise DataError("the header is not UTF-8", path=str(path), line=line, text=text)
    twice = [name for name in names if names.count(name) > 1][:1]
    if twice:
        raise DataError(
            f"column {twice[0]!r} is there {names.count(twice[0])} times",
            path=str(path),
            line=line,
            text=text,
        )
    return names


@dataclass
class Counts:
    """How many lines and quotes a text has."""

    breaks: int = 0
    quotes: int = 0
    last: bytes = b"\n"

    @property
    def lines(self) -> int:
        """The number of lines; the last one may end without a line break."""
        return self.breaks + (self.last != b"\n")

    def doubtful(self, records: int) -> bool:
        """Whether quotes may hide lines: they do not pair, or there are more lines than a header and these records."""
        return self.quotes % 2 == 1 or (self.quotes > 0 and self.lines != records + 1)


class Counted(io.RawIOBase):
    """The bytes of a stream, counted as they are read."""

    def __init__(self, stream: Any, counts: Counts) -> None:
        super().__init__()
        self._stream, self._counts = stream, counts

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes."""
        piece: bytes = self._stream.read(size)
        counts = self._counts
        counts.breaks += piece.count(b"\n")
        counts.quotes += piece.count(b'"')
        counts.last = piece[-1:] or counts.last
        return piece


def read_csv_lines(
    path: Path, columns: Columns, errors: str, sort_queries: bool, reached: Callable[[int], None]
) -> RankingData:
    """Read a CSV file with Python's own reader, for files the fast reader gives up on."""
    names = header(path)
    chosen = columns.feature_names(names, str(path))
    place = {name: i for i, name in enumerate(names)}
    features: list[list[float]] = []
    labels: list[float] = []
    ids: list[str] = []
    docs: list[str] = []
    lines: list[int] = []
    skipped = SkippedLines()
    for line, text, cells in islice(_rows(path, reached), 1, None):
        problem = cells if isinstance(cells, str) else _problem(cells, names, place, chosen, columns)
        if problem is not None:
            error = DataError(problem, path=str(path), line=line, text=text)
            if errors == "raise":
                raise error
            skipped.add(error)
            continue
        features.append([float(cells[place[name]]) for name in chosen])
        ids.append(cells[place[columns.query]])
        lines.append(line)
        if columns.label is not None:
            labels.append(float(cells[place[columns.label]]))
        if columns.doc is not None:
            docs.append(_shown(cells[place[columns.doc]]))
    if not features:
        first = (
            f": all were skipped, the first because of: {skipped.examples[0].problem}"
            if skipped.count
            else ""
        )
        raise DataError(f"the table holds no rows{first}", path=str(path))
    query_ids = ids_of(ids)
    places = Places(lambda _, __, row: (lines[row], _text_of(path, lines[row])))
    places.add(path, lines[0], 0, len(lines))
    group_rows(query_ids, places, sort_queries=sort_queries)
    data = from_arrays(
        np.array(features, np.float32),
        None if columns.label is None else np.array(labels, np.float32),
        qid=query_ids,
        doc_ids=None if columns.doc is None else np.array(docs, object),
        feature_names=chosen,
        sort_queries=sort_queries,
    )
    data.skipped = skipped
    return data


def check_quotes(path: Path, counts: Counts, records: int) -> None:
    """Refuse text in which a quote that is not closed took other lines with it; cells may hold line breaks."""
    if not counts.doubtful(records):
        return
    for line, text, cells in _rows(path):
        if isinstance(cells, str):
            raise DataError(cells, path=str(path), line=line, text=text)


def _rows(
    path: Path, reached: Callable[[int], None] | None = None
) -> Iterator[tuple[int, str, list[str] | str]]:
    """Number and text of each record's first line, and its cells, or what is wrong; empty lines are left out.

    After a line that is wrong, the next one begins a record: a quote that is not closed takes no other line with it.
    """
    taken: list[str] = []
    again: deque[str] = deque()
    fresh = _lines(path, reached)

    def lines() -> Iterator[str]:
        while (line := again.popleft() if again else next(fresh, None)) is not None:
            taken.append(line)
            yield line + "\n"

    delimiter = delimiter_of(path)
    reader = csv.reader(lines(), delimiter=delimiter)
    number = 1
    while True:
        taken.clear()
        cells: list[str] | str | None
        try:
            cells = next(reader, None)
            if cells and any("\n" in cell for cell in cells):
                # A quote encloses a line break, or was never closed: there must be no doubt.
                cells = next(csv.reader([line + "\n" for line in taken], delimiter=delimiter, strict=True))
        except csv.Error as problem:
            cells = f"not a line of CSV: {problem}"
            again.extendleft(reversed(taken[1:]))
            del taken[1:]
            reader = csv.reader(lines(), delimiter=delimiter)
        if cells is None:
            return
        if cells != []:
            yield number, _shown(taken[0]), cells
        number += len(taken)


def _lines(path: Path, reached: Callable[[int], None] | None) -> Iterator[str]:
    """The lines of a file. What is not UTF-8 is kept as it is: it is no number, and no two ids become one."""
    place = 0

    def progress(more: int) -> None:
        nonlocal place
        place += more
        if reached is not None:
            reached(place)

    for block in text_blocks(path, progress=progress):
        yield from block.text.decode("utf-8", "surrogateescape").split("\n")[:-1]


def _text_of(path: Path, line: int) -> str | None:
    return next((text for number, text, _ in _rows(path) if number == line), None)


def _is_utf8(cell: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in cell)


def _shown(text: str) -> str:
    return text.rstrip("\r").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _problem(
    cells: list[str], names: list[str], place: dict[str, int], chosen: list[str], columns: Columns
) -> str | None:
    if len(cells) != len(names):
        return f"the line has {len(cells)} cells, the header {len(names)}"
    for name in chosen:
        if not _single(cells[place[name]]):
            hint = (
                ""
                if columns.features is not None
                else ("; if it is not a feature, name those that are with features=[…] (--features)")
            )
            return f"feature {name!r} is {_shown(cells[place[name]])!r}: expected a finite number{hint}"
    if columns.label is not None and not _single(cells[place[columns.label]]):
        return f"label {columns.label!r} is {_shown(cells[place[columns.label]])!r}: expected a finite number"
    query = cells[place[columns.query]]
    if not query:
        return f"the query id {columns.query!r} is missing"
    return None if _is_utf8(query) else f"the query id {_shown(query)!r} is not UTF-8"


def _single(text: str) -> bool:
    value = number(text)
    return math.isfinite(value) and abs(value) < _BEYOND
