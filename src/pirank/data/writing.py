"""Writing ranking data: svmlight text and Parquet."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from pirank.data.errors import DataError
from pirank.data.ranking_data import RankingData
from pirank.data.sources import format_of
from pirank.files import appearing

_BLOCK_DOCUMENTS = 8192

Documents = Callable[[int], None]
"""Called with the number of documents that were written since the last call."""


def write(
    data: RankingData | Iterable[RankingData],
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    sparse: bool = False,
    progress: Documents | None = None,
) -> None:
    """Write data as svmlight text or Parquet, told by the ending, and read back equal.

    The file appears under its name when it is complete.

    Args:
        data: what to write; or parts of it one after another, as :func:`~pirank.data.synthetic_stream` gives them.
        path: ``.parquet``, or text: ``.txt``, ``.svm``, …, also with ``.gz``, ``.xz``, ``.bz2`` or ``.zst``.
        format: ``"svmlight"`` or ``"parquet"``, where the ending does not tell.
        sparse: leave out zeros from svmlight text; reading such a file needs ``features=`` if the last column may be 0
            everywhere.
        progress: called with the number of documents written since the last call.

    Example:
        >>> import tempfile
        >>> from pirank.data import read, synthetic
        >>> path = tempfile.mkdtemp() + "/train.txt.gz"
        >>> write(synthetic(queries=2, list_size=3), path)
        >>> read(path)
        RankingData(queries=2, documents=6, features=35)
    """
    parts = [data] if isinstance(data, RankingData) else data
    path = Path(path)
    kind = format_of(path, format)
    if kind not in ("svmlight", "parquet"):
        raise ValueError(f"{path}: data is written as svmlight text or Parquet, not as {kind}")
    with appearing(path) as temporary:
        if kind == "parquet":
            _write_parquet(parts, temporary, progress)
        else:
            _write_svmlight(parts, temporary, path.suffix.lower(), sparse, progress)


# --- svmlight -----------------------------------------------------------------------------------------------------


def _write_svmlight(
    parts: Iterable[RankingData], path: Path, suffix: str, sparse: bool, progress: Documents | None
) -> None:
    with _archive(path, suffix) as stream:
        for data in parts:
            if data.labels is None:
                raise DataError("svmlight text needs labels: write data without labels as Parquet")
            ids = _one_a_document(data, _text_ids(data.query_ids))
            docs = None if data.doc_ids is None else [str(each) for each in data.doc_ids]
            if docs is not None and any("\n" in each or "\r" in each for each in docs):
                raise DataError("a document id with a line break cannot stand in a comment")
            for start in range(0, data.documents, _BLOCK_DOCUMENTS):
                rows = slice(start, start + _BLOCK_DOCUMENTS)
                stream.write(
                    _lines(
                        data.features[rows].numpy(force=True),
                        data.labels[rows].numpy(force=True),
                        ids[rows],
                        None if docs is None else docs[rows],
                        sparse,
                    )
                )
                if progress is not None:
                    progress(min(_BLOCK_DOCUMENTS, data.documents - start))


def _lines(
    features: np.ndarray, labels: np.ndarray, ids: np.ndarray, docs: list[str] | None, sparse: bool
) -> bytes:
    """Some lines of svmlight text: columns of text joined row by row, whose buffer then is the text."""
    columns = [_shortest(labels), pa.array(ids)]
    for place in range(features.shape[1]):
        values = np.ascontiguousarray(features[:, place])
        text = pc.binary_join_element_wise(f"{place + 1}", _shortest(values), ":")
        if sparse:
            text = pc.if_else(pa.array(values != 0), text, None)
        columns.append(text)
    if docs is not None:
        columns.append(pa.array([f"# docid = {each}" if each else None for each in docs], pa.string()))
    joined = pc.binary_join_element_wise(*columns, " ", null_handling="skip")
    ended = pc.binary_join_element_wise(joined, pa.scalar(""), "\n")
    return b"".join(text.encode() for text in ended.to_pylist())


def _shortest(values: np.ndarray) -> Any:
    """float32 numbers as the shortest text that reads back as the same number."""
    return pc.cast(pa.array(values), pa.string())


def _text_ids(ids: np.ndarray) -> np.ndarray:
    text = [str(each) for each in ids]
    for each in text:
        if (
            not each
            or any(sign in each for sign in ":#")
            or len(each.split()) != 1
            or each.split()[0] != each
        ):
            raise DataError(
                f"query id {each!r} cannot stand in svmlight text: it is empty or has spaces, ':' or '#'"
            )
    return np.array([f"qid:{each}" for each in text], dtype=object)


def _one_a_document(data: RankingData, per_query: np.ndarray) -> np.ndarray:
    return np.repeat(per_query, data.lengths.numpy(force=True))


def _archive(path: Path, suffix: str) -> Any:
    if suffix == ".gz":
        return gzip.open(path, "wb", compresslevel=6)
    if suffix in (".xz", ".lzma"):
        return lzma.open(path, "wb")
    if suffix == ".bz2":
        return bz2.open(path, "wb")
    if suffix == ".zst":
        try:
            import zstandard
        except ImportError:
            raise ImportError(f'{path}: writing .zst needs zstandard: pip install "pirank[zstd]"') from None
        return zstandard.open(path, "wb")
    return path.open("wb")


# --- Parquet ------------------------------------------------------------------------------------------------------


def _write_parquet(parts: Iterable[RankingData], path: Path, progress: Documents | None) -> None:
    writer = None
    try:
        for data in parts:
            table = _table(data)
            if writer is None:
                writer = pa.parquet.ParquetWriter(path, table.schema)
            writer.write_table(table, row_group_size=1 << 16)
            if progress is not None:
                progress(data.documents)
    except pa.ArrowInvalid as problem:
        raise DataError(f"the parts do not fit into one table: {problem}") from None
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise DataError("there is nothing to write")


def _table(data: RankingData) -> Any:
    names = data.feature_names or [f"feature_{place + 1}" for place in range(data.features.shape[1])]
    roles = {"label": _free("label", names), "query": _free("qid", names), "doc": _free("docid", names)}
    ids = data.query_ids
    if ids.dtype.kind not in "iu":
        ids = np.array([str(each) for each in ids], dtype=object)
    columns = {roles["query"]: pa.array(_one_a_document(data, ids))}
    if data.labels is None:
        del roles["label"]
    else:
        columns[roles["label"]] = pa.array(data.labels.numpy(force=True))
    if data.doc_ids is None:
        del roles["doc"]
    else:
        columns[roles["doc"]] = pa.array([str(each) for each in data.doc_ids], pa.string())
    values = data.features.numpy(force=True)
    for place, name in enumerate(names):
        columns[name] = pa.array(np.ascontiguousarray(values[:, place]))
    # Says which column is what, so that reading needs no options.
    return pa.table(columns).replace_schema_metadata({"pirank": json.dumps(roles)})


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name
