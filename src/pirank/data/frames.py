"""Ranking data from data frames: pandas, polars, Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pirank.data.ranking_data import RankingData
from pirank.data.tables import Columns, from_batches

_BATCH_ROWS = 65536


def from_frame(
    frame: Any,
    *,
    label: str | None = "label",
    query: str = "qid",
    features: Sequence[str] | None = None,
    doc: str | None = None,
    errors: str = "raise",
    sort_queries: bool = False,
) -> RankingData:
    """Ranking data from a pandas or polars data frame, or an Arrow table.

    Args:
        frame: the table, one row a document.
        label: the label column; None: documents without labels.
        query: the query id column, of whole numbers or text.
        features: the feature columns; None: all others.
        doc: the document id column.
        errors: ``"raise"``, or ``"skip"`` to leave out rows with a missing or infinite value, and count them.
        sort_queries: bring rows of one query together instead of refusing rows that do not follow each other.

    Example:
        >>> table = pa.table({"qid": [7, 7, 9], "label": [1, 0, 2], "price": [3.5, 1.0, 2.0]})
        >>> data = from_frame(table)
        >>> data.query_ids, data.feature_names
        (array([7, 9]), ['price'])
    """
    if errors not in ("raise", "skip"):
        raise ValueError(f"errors must be 'raise' or 'skip', got {errors!r}")
    table = _arrow_table(frame)
    columns = Columns(label, query, features, doc)
    return from_batches(
        table.to_batches(max_chunksize=_BATCH_ROWS),
        table.column_names,
        columns,
        errors=errors,
        sort_queries=sort_queries,
    )


def _arrow_table(frame: Any) -> Any:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    module = type(frame).__module__.partition(".")[0]
    if module == "pandas":
        return pa.Table.from_pandas(frame, preserve_index=False)
    if hasattr(frame, "collect") and module == "polars":
        frame = frame.collect()
    if module == "polars":
        return frame.to_arrow()
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise TypeError(
        f"frame must be a pandas or polars data frame or an Arrow table, got {type(frame).__name__}"
    )
