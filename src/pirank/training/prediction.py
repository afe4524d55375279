"""Ranked rows from a file of any size: the input's rows, with a score and a rank."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
from torch import Tensor

from pirank.files import appearing
from pirank.models import Ranker
from pirank.training.streams import Block, Progress, whole_queries


def predict_file(
    ranker: Ranker,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    query: str = "qid",
    label: str = "label",
    features: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> int:
    """Score and rank the rows of a file, in constant memory.

    The output holds the input's rows in their order: every column but the features, and ``score`` and ``rank`` (1 is
    the best of its query). It appears when it is complete.

    Args:
        ranker: the model.
        source: svmlight text, Parquet, CSV or Arrow; labels are not needed.
        target: a ``.csv`` or ``.parquet`` file.
        query: the query id column of a table.
        label: a column of that name is not a feature.
        features: the feature columns of a table; None: the names the model was trained with, or where it has none,
            all columns but the query and the label.
        progress: called with the bytes of the file (or rows of a table) read since the last call.

    Returns:
        The number of rows.
    """
    source, target = Path(source), Path(target)
    rows, writer = 0, None
    open_writer = writer_for(target)
    if not source.exists():
        raise FileNotFoundError(f"{source}: there is no such file")
    if target.exists() and target.samefile(source):
        raise ValueError(f"{target} is the file to rank: its features would be lost, choose another output")
    blocks = whole_queries(
        source,
        ranker.in_features,
        query=query,
        features=features or ranker.feature_names,
        not_features=(label,),
        progress=progress,
    )
    with appearing(target) as partial:
        try:
            for block in read_ahead(blocks):
                offsets = block.offsets()
                with torch.inference_mode():
                    scores = ranker(block.features, offsets)
                table = with_columns(block.kept, score=scores.numpy(), rank=ranks_of(scores, offsets).numpy())
                if writer is None:
                    writer = open_writer(partial, table.schema)
                writer.write_table(table)
                rows += len(block)
            if writer is None:
                raise ValueError(f"{source} holds no rows")
        finally:
            if writer is not None:
                writer.close()
    return rows


def read_ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same blocks, each read while the one before it is worked on."""
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(next, blocks, None)
        while (block := following.result()) is not None:
            following = reader.submit(next, blocks, None)
            yield block


def ranks_of(scores: Tensor, offsets: Tensor) -> Tensor:
    """Each document's rank within its query, ``[N]``; 1 is the best, ties keep the order of the rows.

    Example:
        >>> ranks_of(torch.tensor([0.1, 0.7, 0.5, 0.2]), torch.tensor([0, 3, 4])).tolist()
        [3, 1, 2, 1]
    """
    query = torch.repeat_interleave(offsets.diff())
    order = np.lexsort((-scores.detach().cpu().numpy(), query.numpy()))
    ranks = torch.empty(len(scores), dtype=torch.int64)
    ranks[torch.from_numpy(order)] = torch.arange(len(scores)) - offsets[query] + 1
    return ranks


def with_columns(table: Any, **columns: np.ndarray) -> Any:
    """The table with more columns at its end, in place of those of the same names."""
    for name, values in columns.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array(values))
    return table


def writer_for(target: Path) -> Any:
    """What opens a writer of the target's format."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: there is no such folder to write in")
    if target.suffix.lower() in (".parquet", ".pq"):
        return pa.parquet.ParquetWriter
    if target.suffix.lower() == ".csv":
        return pa.csv.CSVWriter
    raise ValueError(f"the output must be a .csv or .parquet file, got {target.name!r}")
