"""Writing ranking data: svmlight text and Parquet."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from pirank.data.errors import DataError
from pirank.data.ranking_data import RankingData
from pirank.data.sources import format_of
from pirank.data.svmlight_blocks import doc_id
from pirank.files import appearing

_BLOCK_DOCUMENTS = 8192
_GROUP_DOCUMENTS = 1 << 16

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

    The file appears under its name when it is complete. What a file cannot hold is refused: queries without documents,
    and two queries of one id.

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
    path = Path(path)
    kind = check_target(path, format)
    parts = _whole([data] if isinstance(data, RankingData) else data)
    with appearing(path) as temporary:
        if kind == "parquet":
            _write_parquet(parts, temporary, progress)
        else:
            _write_svmlight(parts, temporary, path.suffix.lower(), sparse, progress)


def check_target(path: Path, format: str | None = None) -> str:
    """The format that a file would be written in, after checking that it can be."""
    kind = format_of(path, format)
    if kind not in ("svmlight", "parquet"):
        raise ValueError(f"{path}: data is written as svmlight text or Parquet, not as {kind}")
    if path.is_dir():
        raise IsADirectoryError(f"{path}: this is a folder, not a file to write")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent} to write to")
    return kind


def _whole(parts: Iterable[RankingData]) -> Iterator[RankingData]:
    """The parts, after checking that their rows would say where each query starts and ends."""
    seen: set[str] = set()
    for data in parts:
        empty = (data.lengths == 0).nonzero()[:, 0]
        if len(empty):
            raise DataError(
                f"query {data.query_ids[int(empty[0])]!s} has no documents, and a file holds nothing else of a query: "
                "leave such queries out, with data[data.lengths > 0]"
            )
        for query in map(str, data.query_ids.tolist()):
            if query in seen:
                raise DataError(f"two queries have the id {query}: read back, they would be one")
            seen.add(query)
        yield data
    if not seen:
        raise DataError("there is nothing to write: the data has no documents")


# --- svmlight -----------------------------------------------------------------------------------------------------


def _write_svmlight(
    parts: Iterable[RankingData], path: Path, suffix: str, sparse: bool, progress: Documents | None
) -> None:
    with _archive(path, suffix) as stream:
        for data in parts:
            if data.labels is None:
                raise DataError("svmlight text needs labels: write data without labels as Parquet")
            ids = _one_a_document(data, _text_ids(data.query_ids))
            docs = None if data.doc_ids is None else [_comment(str(each)) for each in data.doc_ids]
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
    features: np.ndarray, labels: np.ndarray, ids: np.ndarray, docs: list[str | None] | None, sparse: bool
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
        columns.append(pa.array(docs, pa.string()))
    joined = pc.binary_join_element_wise(*columns, " ", null_handling="skip")
    ended = pc.binary_join_element_wise(joined, pa.scalar(""), "\n")
    return b"".join(text.encode() for text in ended.to_pylist())


def _shortest(values: np.ndarray) -> Any:
    """float32 numbers as the shortest text that reads back as the same number."""
    return pc.cast(pa.array(values), pa.string())


def _comment(doc: str) -> str | None:
    """The comment from which a document's id is read back."""
    if not doc:
        return None
    for comment in (f"# docid = {doc}", f"# {doc}"):
        if "\n" not in doc and doc_id(comment[1:].encode()) == doc:
            return comment
    raise DataError(f"document id {doc!r} cannot stand in a comment of svmlight text: write Parquet")


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
            ids = _one_a_document(data, _parquet_ids(data.query_ids))
            for start in range(0, data.documents, _GROUP_DOCUMENTS):
                rows = slice(start, start + _GROUP_DOCUMENTS)
                table = _table(data, ids, rows)
                if writer is None:
                    writer = pa.parquet.ParquetWriter(path, table.schema, write_page_checksum=True)
                writer.write_table(table)
                if progress is not None:
                    progress(len(table))
    except pa.ArrowInvalid as problem:
        raise DataError(f"the parts do not fit into one table: {problem}") from None
    finally:
        if writer is not None:
            writer.close()


def _parquet_ids(ids: np.ndarray) -> np.ndarray:
    return ids if ids.dtype.kind in "iu" else np.array([str(each) for each in ids], dtype=object)


def _table(data: RankingData, ids: np.ndarray, rows: slice) -> Any:
    """Some rows of the data as a table."""
    names = data.feature_names or [f"feature_{place + 1}" for place in range(data.features.shape[1])]
    roles = {"label": _free("label", names), "query": _free("qid", names), "doc": _free("docid", names)}
    columns = {roles["query"]: pa.array(ids[rows])}
    if data.labels is None:
        del roles["label"]
    else:
        columns[roles["label"]] = pa.array(data.labels[rows].numpy(force=True))
    if data.doc_ids is None:
        del roles["doc"]
    else:
        columns[roles["doc"]] = pa.array([str(each) for each in data.doc_ids[rows]], pa.string())
    values = data.features[rows].numpy(force=True)
    for place, name in enumerate(names):
        columns[name] = pa.array(np.ascontiguousarray(values[:, place]))
    # Says which column is what, so that reading needs no options.
    return pa.table(columns).replace_schema_metadata({"pirank": json.dumps(roles)})


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name
