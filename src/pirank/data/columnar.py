"""Reading tables from files: Parquet, CSV and Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pirank.data.errors import DataError, SkippedLines
from pirank.data.ranking_data import RankingData
from pirank.data.sources import Progress, opened
from pirank.data.tables import Columns, from_batches

_BATCH_ROWS = 65536
_CSV_BLOCK = 1 << 22


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
            names, batches = _parquet(path, columns) if format == "parquet" else _arrow(path)
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


def _parquet(path: Path, columns: Columns) -> tuple[list[str], Iterator[Any]]:
    file = pa.parquet.ParquetFile(path)
    names = file.schema_arrow.names
    chosen = columns.feature_names(names, str(path))
    wanted = [*chosen, *(name for name in (columns.label, columns.query, columns.doc) if name is not None)]
    return names, file.iter_batches(_BATCH_ROWS, columns=wanted)


def _arrow(path: Path) -> tuple[list[str], Iterator[Any]]:
    source = pa.memory_map(str(path))
    try:
        file = pa.ipc.open_file(source)
        return file.schema.names, (file.get_batch(i) for i in range(file.num_record_batches))
    except pa.ArrowInvalid:
        stream = pa.ipc.open_stream(source)
        return stream.schema.names, iter(stream)


def _read_csv(path: Path, columns: Columns, errors: str, sort_queries: bool) -> RankingData:
    names = _header(path)
    columns.feature_names(names, str(path))
    numbers = {n: pa.float64() for n in names if n not in (columns.query, columns.doc)}
    if columns.doc is not None:
        numbers[columns.doc] = pa.string()
    options: dict[str, Any] = {"errors": errors, "sort_queries": sort_queries, "where": str(path)}
    try:
        return from_batches(_csv_batches(path, numbers), names, columns, **options)
    except (pa.ArrowInvalid, DataError):
        # Something is not a number, or a line has too many or too few cells. As text everything can be read,
        # and then the line can be named.
        text = dict.fromkeys(names, pa.string())
        skipped = SkippedLines()

        def wrong_length(row: Any) -> str:
            error = DataError(
                f"the line has {row.actual_columns} cells, the header {row.expected_columns}",
                path=str(path),
                line=row.number,
                text=row.text,
            )
            if errors == "raise":
                found.append(error)
            skipped.add(error)
            return "skip" if errors == "skip" else "error"

        found: list[DataError] = []
        try:
            return from_batches(
                _whole_ids(_csv_batches(path, text, wrong_length), columns.query),
                names,
                columns,
                line_of=lambda row: _csv_line(path, row),
                skipped=skipped,
                **options,
            )
        except pa.ArrowInvalid:
            if found:
                raise found[0] from None
            raise


def _whole_ids(batches: Iterator[Any], query: str) -> Iterator[Any]:
    """The batches with query ids as whole numbers, where all are."""
    held = list(batches)
    try:
        ids = [batch.column(query).cast(pa.int64()) for batch in held]
    except pa.ArrowInvalid:
        yield from held
        return
    for batch, column in zip(held, ids, strict=True):
        yield batch.set_column(batch.schema.get_field_index(query), query, column)


def _csv_batches(path: Path, types: dict[str, Any], wrong_length: Any = None) -> Iterator[Any]:
    with opened(path) as stream:
        reader = pa.csv.open_csv(
            pa.PythonFile(stream, mode="r"),
            read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=wrong_length is None),
            parse_options=pa.csv.ParseOptions(delimiter=_delimiter(path), invalid_row_handler=wrong_length),
            convert_options=pa.csv.ConvertOptions(column_types=types),
        )
        yield from reader


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","


def _header(path: Path) -> Sequence[str]:
    with opened(path) as stream:
        line = b""
        while b"\n" not in line and (more := stream.read(1 << 16)):
            line += more
    first = line.partition(b"\n")[0] + b"\n"
    if not first.strip():
        raise DataError("the file has no header line", path=str(path), line=1)
    options = pa.csv.ParseOptions(delimiter=_delimiter(path))
    names: list[str] = pa.csv.read_csv(pa.BufferReader(first), parse_options=options).column_names
    return names


def _csv_line(path: Path, row: int) -> tuple[int | None, str | None]:
    with opened(path) as stream:
        text = stream.read()
    line = next(islice(text.split(b"\n"), row + 1, None), b"")
    return row + 2, line.decode("utf-8", "replace").rstrip("\r")
