"""Reading tables from files: Parquet, CSV and Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pirank.data.csv_lines import Counted, Counts, delimiter_of, header, read_csv_lines
from pirank.data.errors import DataError
from pirank.data.query_ids import ids_of
from pirank.data.ranking_data import RankingData
from pirank.data.sources import Progress, opened_packed
from pirank.data.tables import Columns, from_batches

_BATCH_ROWS = 65536
_CSV_BLOCK = 1 << 22

BatchesOf = Callable[[list[str]], Iterator[Any]]
"""From the columns that are wanted to the record batches, which may have more."""

Reached = Callable[[int], None]
"""Called with the place in the file on disk that was reached."""


def read_table(
    path: Path,
    format: str,
    columns: Columns,
    *,
    errors: str = "raise",
    sort_queries: bool = False,
    progress: Progress | None = None,
) -> RankingData:
    """Read one Parquet, CSV or Arrow file; :func:`pirank.data.read` is the front door."""
    size = path.stat().st_size
    if size == 0:
        raise DataError("the file is empty", path=str(path))
    told = 0

    def reached(place: int) -> None:
        nonlocal told
        if progress is not None and place > told:
            progress(place - told)
            told = place

    try:
        if format == "csv":
            data = _read_csv(path, columns, errors, sort_queries, reached)
        else:
            data = _read_binary(path, format, columns, errors, sort_queries, reached)
    except (pa.ArrowException, UnicodeDecodeError, json.JSONDecodeError, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # the operating system speaks
            raise
        raise DataError(f"not a whole {format} file: {problem}", path=str(path)) from None
    reached(size)
    return data


def _own_columns(schema: Any, columns: Columns) -> Columns:
    """The columns as :func:`pirank.data.write` recorded them, where the caller named none."""
    recorded = (schema.metadata or {}).get(b"pirank")
    if recorded is None or columns != Columns():
        return columns
    roles = json.loads(recorded)
    return Columns(roles.get("label"), roles.get("query", "qid"), None, roles.get("doc"))


def _read_binary(
    path: Path, format: str, columns: Columns, errors: str, sort_queries: bool, reached: Reached
) -> RankingData:
    schema, batches_of, place = _parquet(path) if format == "parquet" else _arrow(path)
    columns, names = _own_columns(schema, columns), schema.names
    columns.feature_names(names, str(path))

    def batches() -> Iterator[Any]:
        for batch in batches_of([names[i] for i in columns.places(names)]):
            yield batch
            reached(place(batch))

    return from_batches(batches(), names, columns, errors=errors, sort_queries=sort_queries, where=str(path))


PlaceAfter = Callable[[Any], int]
"""The place in the file after a batch."""


def _parquet(path: Path) -> tuple[Any, BatchesOf, PlaceAfter]:
    file = pa.parquet.ParquetFile(path, page_checksum_verification=True)
    size, rows, seen = path.stat().st_size, max(int(file.metadata.num_rows), 1), 0

    def place(batch: Any) -> int:
        nonlocal seen
        seen += int(batch.num_rows)
        return size * seen // rows

    return file.schema_arrow, lambda names: file.iter_batches(_BATCH_ROWS, columns=names), place


def _arrow(path: Path) -> tuple[Any, BatchesOf, PlaceAfter]:
    source = pa.memory_map(str(path))
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        stream = pa.ipc.open_stream(source)
        return stream.schema, lambda _: map(_valid, stream), lambda _: int(source.tell())
    size, count, seen = path.stat().st_size, int(file.num_record_batches), 0

    def place(batch: Any) -> int:
        nonlocal seen
        seen += 1
        return size * seen // count

    return file.schema, lambda _: map(_valid, map(file.get_batch, range(count))), place


def _valid(batch: Any) -> Any:
    """The batch, after checking that its columns do not point outside of the file."""
    batch.validate(full=True)
    return batch


def arrow_batches(path: Path) -> tuple[Any, BatchesOf]:
    """The schema of an Arrow file or stream, and its batches; columns are not chosen."""
    return _arrow(path)[:2]


def _read_csv(path: Path, columns: Columns, errors: str, sort_queries: bool, reached: Reached) -> RankingData:
    names = header(path)
    columns.feature_names(names, str(path))
    try:
        counts = Counts()
        batches = _csv_batches(path, names, columns, reached, counts)
        data = from_batches(batches, names, columns, sort_queries=sort_queries, where=str(path))
        if "" in data.query_ids:
            raise pa.ArrowInvalid("a query id is missing")
        if counts.doubtful(data.documents):
            raise pa.ArrowInvalid("a quote encloses a line break, or swallows lines")
    except (pa.ArrowInvalid, DataError):
        # Something is not a number, or a line is too long or too short: go through the lines to name it.
        return read_csv_lines(path, columns, errors, sort_queries, reached)
    data.query_ids = ids_of(data.query_ids)
    return data


def _csv_batches(
    path: Path, names: list[str], columns: Columns, reached: Reached, counts: Counts
) -> Iterator[Any]:
    needed = [names[i] for i in columns.places(names)]
    types = {name: pa.string() if name in (columns.query, columns.doc) else pa.float64() for name in needed}
    with opened_packed(path) as (stream, packed):
        reader = pa.csv.open_csv(
            pa.PythonFile(Counted(stream, counts), mode="r"),
            read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter_of(path)),
            convert_options=pa.csv.ConvertOptions(column_types=types, include_columns=needed),
        )
        for batch in reader:
            yield batch
            reached(packed.tell())
