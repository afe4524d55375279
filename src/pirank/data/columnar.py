"""Reading tables from files: Parquet, CSV and Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pirank.data.csv_lines import delimiter_of, header, read_csv_lines
from pirank.data.errors import DataError
from pirank.data.query_ids import ids_of
from pirank.data.ranking_data import RankingData
from pirank.data.sources import Progress, opened
from pirank.data.tables import Columns, from_batches

_BATCH_ROWS = 65536
_CSV_BLOCK = 1 << 22

BatchesOf = Callable[[list[str]], Iterator[Any]]
"""From the columns that are wanted to the record batches, which may have more."""


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
    if path.stat().st_size == 0:
        raise DataError("the file is empty", path=str(path))
    try:
        if format == "csv":
            data = _read_csv(path, columns, errors, sort_queries)
        else:
            schema, batches_of = _parquet(path) if format == "parquet" else arrow_batches(path)
            columns, names = _own_columns(schema, columns), schema.names
            special = [name for name in (columns.label, columns.query, columns.doc) if name is not None]
            batches = batches_of([*columns.feature_names(names, str(path)), *special])
            data = from_batches(
                batches, names, columns, errors=errors, sort_queries=sort_queries, where=str(path)
            )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as problem:
        if isinstance(problem, FileNotFoundError):
            raise
        raise DataError(f"not a whole {format} file: {problem}", path=str(path)) from None
    if progress is not None:
        progress(path.stat().st_size)
    return data


def _own_columns(schema: Any, columns: Columns) -> Columns:
    """The columns as :func:`pirank.data.write` recorded them, where the caller named none."""
    recorded = (schema.metadata or {}).get(b"pirank")
    if recorded is None or columns != Columns():
        return columns
    roles = json.loads(recorded)
    return Columns(roles.get("label"), roles["query"], None, roles.get("doc"))


def _parquet(path: Path) -> tuple[Any, BatchesOf]:
    file = pa.parquet.ParquetFile(path)
    return file.schema_arrow, lambda names: file.iter_batches(_BATCH_ROWS, columns=names)


def arrow_batches(path: Path) -> tuple[Any, BatchesOf]:
    """The schema of an Arrow file or stream, and its batches; columns are not chosen."""
    source = pa.memory_map(str(path))
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        stream = pa.ipc.open_stream(source)
        return stream.schema, lambda _: iter(stream)
    return file.schema, lambda _: (file.get_batch(i) for i in range(file.num_record_batches))


def _read_csv(path: Path, columns: Columns, errors: str, sort_queries: bool) -> RankingData:
    names = header(path)
    columns.feature_names(names, str(path))
    try:
        batches = _csv_batches(path, names, columns)
        data = from_batches(batches, names, columns, sort_queries=sort_queries, where=str(path))
        if "" in data.query_ids:
            raise pa.ArrowInvalid("a query id is missing")
    except (pa.ArrowInvalid, DataError):
        # Something is not a number, or a line is too long or too short: go through the lines to name it.
        return read_csv_lines(path, columns, errors, sort_queries)
    data.query_ids = ids_of(data.query_ids)
    return data


def _csv_batches(path: Path, names: list[str], columns: Columns) -> Iterator[Any]:
    types = {name: pa.string() if name in (columns.query, columns.doc) else pa.float64() for name in names}
    with opened(path) as stream:
        reader = pa.csv.open_csv(
            pa.PythonFile(stream, mode="r"),
            read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter_of(path)),
            convert_options=pa.csv.ConvertOptions(column_types=types),
        )
        yield from reader
