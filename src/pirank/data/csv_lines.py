"""CSV line by line: slow, and says which line is wrong."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from pirank.data.arrays import from_arrays
from pirank.data.errors import DataError, SkippedLines
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
    names = next(_rows(path), (0, "", []))[2]
    if not names:
        raise DataError("the file has no header line", path=str(path), line=1)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"column {twice[0]!r} appears twice", path=str(path), line=1)
    return names


def read_csv_lines(path: Path, columns: Columns, errors: str, sort_queries: bool) -> RankingData:
    """Read a CSV file with Python's own reader, for files the fast reader gives up on."""
    names = header(path)
    chosen = columns.feature_names(names, str(path))
    place = {name: i for i, name in enumerate(names)}
    features: list[list[float]] = []
    labels: list[float] = []
    ids: list[str] = []
    docs: list[str] = []
    skipped = SkippedLines()
    for line, text, cells in islice(_rows(path), 1, None):
        problem = _problem(cells, names, place, chosen, columns)
        if problem is not None:
            error = DataError(problem, path=str(path), line=line, text=text)
            if errors == "raise":
                raise error
            skipped.add(error)
            continue
        features.append([float(cells[place[name]]) for name in chosen])
        ids.append(cells[place[columns.query]])
        if columns.label is not None:
            labels.append(float(cells[place[columns.label]]))
        if columns.doc is not None:
            docs.append(cells[place[columns.doc]])
    if not features:
        first = (
            f": all were skipped, the first because of: {skipped.examples[0].problem}"
            if skipped.count
            else ""
        )
        raise DataError(f"the table holds no rows{first}", path=str(path))
    try:
        data = from_arrays(
            np.array(features, np.float32),
            None if columns.label is None else np.array(labels, np.float32),
            qid=ids_of(ids),
            doc_ids=None if columns.doc is None else np.array(docs, object),
            feature_names=chosen,
            sort_queries=sort_queries,
        )
    except DataError as error:
        raise DataError(error.problem, path=str(path)) from None
    data.skipped = skipped
    return data


def _rows(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Number and text of each line, and its cells; lines without any are left out."""
    last = ""

    def lines() -> Iterator[str]:
        nonlocal last
        for block in text_blocks(path):
            # What is not UTF-8 becomes a replacement sign, which is no number.
            for last in block.text.decode("utf-8", "replace").split("\n")[:-1]:
                yield last + "\n"

    reader = csv.reader(lines(), delimiter=delimiter_of(path))
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, last.rstrip("\r"), cells
    except csv.Error as problem:
        raise DataError(str(problem), path=str(path), line=reader.line_num, text=last) from None


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
            return f"feature {name!r} is {cells[place[name]]!r}: expected a finite number{hint}"
    if columns.label is not None and not _single(cells[place[columns.label]]):
        return f"label {columns.label!r} is {cells[place[columns.label]]!r}: expected a finite number"
    return None if cells[place[columns.query]] else f"the query id {columns.query!r} is missing"


def _single(text: str) -> bool:
    value = number(text)
    return math.isfinite(value) and abs(value) < _BEYOND
