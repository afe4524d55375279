"""Ranking data from data frames: pandas, polars, Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pirank.data.errors import DataError
from pirank.data.ranking_data import RankingData
from pirank.data.tables import Columns, from_batches, names_of

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
    columns = Columns(
        None if label is None else str(label),
        str(query),
        names_of(features),
        None if doc is None else str(doc),
    )
    table = _arrow_table(frame, columns)
    return from_batches(
        table.to_batches(max_chunksize=_BATCH_ROWS),
        table.column_names,
        columns,
        errors=errors,
        sort_queries=sort_queries,
    )


def _arrow_table(frame: Any, columns: Columns) -> Any:
    """The columns that are needed, as an Arrow table."""
    module, kind = type(frame).__module__.partition(".")[0], type(frame).__name__
    if module == "pandas" and kind == "DataFrame":
        names = [str(name) for name in frame.columns]
        return pa.table({names[i]: _pandas_column(frame.iloc[:, i]) for i in columns.places(names)})
    if module == "polars" and kind in ("DataFrame", "LazyFrame"):
        names = frame.collect_schema().names()
        chosen = frame.lazy().select([names[i] for i in columns.places(names)]).collect()
        try:
            return chosen.to_arrow()
        except pa.ArrowException as problem:
            types = ", ".join(sorted({str(each) for each in chosen.dtypes}))
            raise DataError(f"columns of {types} cannot be read by way of Arrow: {problem}") from None
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    elif not isinstance(frame, pa.Table) and hasattr(frame, "__arrow_c_stream__") and kind != "Series":
        frame = pa.table(frame)
    if not isinstance(frame, pa.Table):
        raise TypeError(f"frame must be a pandas or polars data frame or an Arrow table, got {kind}")
    return frame.select(columns.places(frame.column_names))


def _pandas_column(column: Any) -> Any:
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Objects of several types, sparse columns, complex numbers: what they say as text is a number, or is none.
        missing = column.isna()
        return pa.array(
            [None if gone else str(value) for value, gone in zip(column, missing, strict=True)], pa.string()
        )
