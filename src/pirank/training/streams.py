"""Rows of a file of any size, a block of whole queries at a time, in constant memory.

Features become a tensor; every other column is kept as it is, to stand beside the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from torch import Tensor

from pirank.data import DataError
from pirank.data.columnar import arrow_batches
from pirank.data.csv_lines import Counted, Counts, check_quotes, delimiter_of, header
from pirank.data.sources import format_of, opened, text_blocks
from pirank.data.svmlight import DenseWidths
from pirank.data.svmlight_blocks import parse_regular
from pirank.data.svmlight_lines import parse_lines
from pirank.data.tables import as_float32, wanted
from pirank.names import unknown

_ROWS = 65536
_CSV_BLOCK = 1 << 24
_TEXT_BLOCK = 1 << 20

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Block:
    """Some consecutive rows.

    Attributes:
        features: ``[N, F]`` float32.
        queries: ``[N]`` the query id of each row, whole numbers or text.
        kept: an Arrow table of the other columns, ``N`` rows.
    """

    features: Tensor
    queries: np.ndarray
    kept: Any

    def __len__(self) -> int:
        return len(self.queries)

    def offsets(self) -> Tensor:
        """Boundaries of the queries, ``[Q + 1]``."""
        starts = np.flatnonzero(self.queries[1:] != self.queries[:-1]) + 1
        return torch.from_numpy(np.concatenate([[0], starts, [len(self.queries)]]).astype(np.int64))

    def __getitem__(self, rows: slice) -> Block:
        start, stop, _ = rows.indices(len(self))
        return Block(self.features[rows], self.queries[rows], self.kept.slice(start, stop - start))

    @staticmethod
    def joined(blocks: Sequence[Block]) -> Block:
        """Blocks one after another."""
        if len(blocks) == 1:
            return blocks[0]
        return Block(
            torch.cat([block.features for block in blocks]),
            np.concatenate([block.queries for block in blocks]),
            pa.concat_tables([block.kept for block in blocks], promote_options="permissive"),
        )


def whole_queries(
    path: Path,
    width: int,
    *,
    query: str = "qid",
    features: Sequence[str] | None = None,
    not_features: Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Block]:
    """The rows of a file in blocks of whole queries.

    Args:
        path: svmlight text, Parquet, CSV or Arrow.
        width: columns the model needs.
        query: the query id column of a table.
        features: the feature columns of a table; None: all but ``query`` and ``not_features``.
        not_features: columns of a table that are not features although nobody named those.
        progress: called with the number of bytes of the file, or of rows of a Parquet file, that were read.
    """
    kind = format_of(path, None)
    if kind == "svmlight":
        blocks = _svmlight(path, width, progress)
    else:
        blocks = _table(path, kind, width, query, features, not_features, progress)
    waiting: list[Block] = []
    seen: set[Any] = set()
    for block in blocks:
        if len(block) == 0:
            continue
        last_start = int(block.offsets()[-2])
        if waiting and waiting[-1].queries[-1] == block.queries[0] and last_start == 0:
            waiting.append(block)  # one query, longer than a block
            continue
        whole = Block.joined([*waiting, block[:last_start]])
        if len(whole):
            yield _once(whole, seen, path)
        waiting = [block[last_start:]]
    if waiting:
        yield _once(Block.joined(waiting), seen, path)


def _once(block: Block, seen: set[Any], path: Path) -> Block:
    """Refuse a query whose rows do not follow each other: its ranks would be wrong."""
    for start in block.offsets()[:-1].tolist():
        query = block.queries[start]
        if query in seen:
            raise DataError(
                f"query {query!s} goes on after other queries: the rows of a query must follow each other; "
                "sort the file by query",
                path=str(path),
            )
        seen.add(query)
    return block


def _svmlight(path: Path, width: int, progress: Progress | None) -> Iterator[Block]:
    widths = DenseWidths(width, why="the model was trained on {}")
    for text in text_blocks(path, block_bytes=_TEXT_BLOCK, progress=progress):
        rows = parse_regular(text.text)
        if rows is None or rows.width > width:
            rows = parse_lines(text, None, width)
        widths.add(text, rows)
        features = np.zeros((len(rows), width), np.float32)
        if rows.columns is None:
            features[:, : rows.values.shape[1]] = rows.values
        else:
            features[np.repeat(np.arange(len(rows)), rows.counts), rows.columns] = rows.values
        ids = rows.query_ids
        if ids.dtype == object and not all(isinstance(each, int) for each in ids):
            ids = np.array([str(each) for each in ids], object)
        kept = {"label": pa.array(rows.labels), "qid": pa.array(ids)}
        if rows.doc_ids is not None:
            kept["doc_id"] = pa.array(rows.doc_ids, pa.string())
        yield Block(torch.from_numpy(features), ids, pa.table(kept))
    widths.end_of_file()


def _table(
    path: Path,
    kind: str,
    width: int,
    query: str,
    features: Sequence[str] | None,
    not_features: Sequence[str],
    progress: Progress | None,
) -> Iterator[Block]:
    try:
        if kind == "parquet":
            file = pa.parquet.ParquetFile(path, pre_buffer=False)  # pre-buffering keeps all of the file
            names, batches = file.schema_arrow.names, file.iter_batches(_ROWS)
        elif kind == "csv":
            names, counts = header(path), Counts()
            batches = _csv_batches(path, names, features, query, not_features, counts)
        else:
            schema, batches_of = arrow_batches(path)
            names = schema.names
            batches = batches_of(names)
        chosen = feature_columns(names, width, query, features, not_features, path)
        row = 0
        for batch in batches:
            yield _block(batch, chosen, query, path, row)
            row += batch.num_rows
            if progress is not None:
                progress(batch.num_rows)
        if kind == "csv":
            check_quotes(path, counts, row)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as problem:
        raise DataError(f"not a whole {kind} file: {problem}", path=str(path)) from None


def feature_columns(
    names: Sequence[str],
    width: int,
    query: str,
    features: Sequence[str] | None,
    not_features: Sequence[str],
    path: Path,
) -> list[str]:
    """The feature columns of a table, after checking that it has all that the model needs."""
    if query not in names:
        raise DataError(f"{unknown('query column', query, names)}; name it with --query", path=str(path))
    for name in features or ():
        if name not in names:
            raise DataError(unknown("feature column of the model", name, names), path=str(path))
    chosen = list(features) if features else [n for n in names if n != query and n not in not_features]
    if len(chosen) != width:
        raise DataError(
            f"the model needs {width} feature columns, the file has {len(chosen)}", path=str(path)
        )
    return chosen


def _block(batch: Any, chosen: Sequence[str], query: str, path: Path, first_row: int) -> Block:
    features = np.empty((len(chosen), batch.num_rows), np.float32)
    for place, name in enumerate(chosen):
        column = batch.column(name)
        plain = pa.types.is_floating(column.type) and not column.null_count
        features[place] = column.to_numpy(zero_copy_only=False) if plain else as_float32(column)
    rows = torch.from_numpy(features).T.contiguous()
    if not bool(rows.sum().isfinite()) and not bool(rows.isfinite().all()):
        row, place = (int(i) for i in (~rows.isfinite()).nonzero()[0])
        value = batch.column(chosen[place])[row].as_py()
        raise DataError(
            f"feature {chosen[place]!r} is {value!r} in row {first_row + row} (from 0): {wanted(value)}",
            path=str(path),
        )
    ids = batch.column(query)
    if ids.null_count:
        raise DataError(
            f"the query id {query!r} is missing in some row after row {first_row}", path=str(path)
        )
    named = set(chosen)
    kept = pa.Table.from_batches([batch]).select([n for n in batch.schema.names if n not in named])
    return Block(rows, ids.to_numpy(zero_copy_only=False), kept)


def _csv_batches(
    path: Path,
    names: Sequence[str],
    features: Sequence[str] | None,
    query: str,
    not_features: Sequence[str],
    counts: Counts,
) -> Iterator[Any]:
    numbers = set(features or [n for n in names if n != query and n not in not_features])
    # All but the features stay text, and are written again as they were.
    types = {name: pa.float32() if name in numbers else pa.string() for name in names}
    with opened(path) as stream:
        yield from pa.csv.open_csv(
            pa.PythonFile(Counted(stream, counts), mode="r"),
            read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter_of(path)),
            convert_options=pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
