"""The front door of the readers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pirank.data.arrays import from_arrays
from pirank.data.cache import Cache, cached
from pirank.data.columnar import read_table
from pirank.data.errors import DataError
from pirank.data.grouping import in_two_files
from pirank.data.ranking_data import RankingData
from pirank.data.sources import Paths, Progress, expand, format_of
from pirank.data.svmlight import read_svmlight
from pirank.data.tables import Columns, names_of


def read(
    paths: Paths,
    *,
    label: str | None = "label",
    query: str = "qid",
    features: int | Sequence[str] | None = None,
    pad: bool = True,
    clip: bool = False,
    doc: str | None = None,
    format: str | None = None,
    errors: str = "raise",
    sort_queries: bool = False,
    cache: Cache = False,
    progress: Progress | None = None,
) -> RankingData:
    """Read ranking data from files.

    Args:
        paths: a file, several files or a folder. LETOR / svmlight text, Parquet, CSV or Arrow, told by the
            ending (``.txt``, ``.svm``, ``.parquet``, ``.csv``, ``.tsv``, ``.arrow``, ``.feather``; text also
            ``.gz``, ``.xz``, ``.bz2``, ``.zst``). A folder gives all its data files, in name order.
        label: the label column of a table; None: documents without labels.
        query: the query id column of a table.
        features: the feature columns of a table, None for all others; or, for svmlight text, the number of
            features, None for the largest index.
        pad: whether svmlight text may have fewer features than ``features`` says where no line leaves any out; the
            others are 0. Text that leaves out zeros always may.
        clip: whether features of svmlight text beyond the largest float32 (3.4e38) are that; else they are errors.
        doc: the document id column of a table. svmlight comments of the form ``# docid = …`` are found by
            themselves.
        format: ``"svmlight"``, ``"parquet"``, ``"csv"`` or ``"arrow"``, where the ending does not tell.
        errors: ``"raise"`` a :class:`~pirank.data.DataError` at the first bad line, or ``"skip"`` bad lines,
            counted in ``data.skipped``.
        sort_queries: bring rows of one query together instead of refusing rows that do not follow each other.
        cache: True: keep what was read beside the source (or in the user's cache folder) and map it into memory the
            next time, as long as source and options are the same; a path: keep it in that folder.
        progress: called with the number of bytes read since the last call.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
        >>> _ = path.write_text("2 qid:1 1:0.5 3:1.5 # docid = a\\n0 qid:1 2:1\\n1 qid:2 1:0.25\\n")
        >>> data = read(path)
        >>> data
        RankingData(queries=2, documents=3, features=3)
        >>> data[0].features
        tensor([[0.5000, 0.0000, 1.5000],
                [0.0000, 1.0000, 0.0000]])
    """
    if errors not in ("raise", "skip"):
        raise ValueError(f"errors must be 'raise' or 'skip', got {errors!r}")
    files = expand(paths)
    formats = {format_of(path, format) for path in files}
    if len(formats) > 1:
        raise DataError(
            f"the files are of different formats, {', '.join(sorted(formats))}: read them one by one"
        )
    kind = formats.pop()
    if kind == "svmlight":
        if features is not None and (
            isinstance(features, bool) or not isinstance(features, int) or features < 1
        ):
            raise ValueError(
                f"for svmlight text, features is the number of features or None, got {features!r}"
            )
    elif isinstance(features, int):
        raise ValueError(f"for a table, features is a list of columns or None, got {features!r}")
    else:
        features = names_of(features)

    def build() -> RankingData:
        if kind == "svmlight":
            width = features if isinstance(features, int) else None
            return read_svmlight(
                files,
                features=width,
                pad=pad,
                clip=clip,
                errors=errors,
                sort_queries=sort_queries,
                progress=progress,
            )
        columns = Columns(label, query, None if isinstance(features, int) else features, doc)
        parts = [
            read_table(path, kind, columns, errors=errors, sort_queries=sort_queries, progress=progress)
            for path in files
        ]
        return parts[0] if len(parts) == 1 else _one_after_another(parts, files, sort_queries)

    if cache is False:
        return build()
    options = {
        "format": kind,
        "features": features if features is None or isinstance(features, int) else list(features),
        "errors": errors,
        "sort_queries": sort_queries,
    }
    if not pad:
        options["pad"] = False
    if clip:
        options["clip"] = True
    if kind != "svmlight":
        options.update(label=label, query=query, doc=doc)
    return cached(files, options, cache, build)


def _one_after_another(parts: list[RankingData], files: Sequence[object], sort_queries: bool) -> RankingData:
    for part, path in zip(parts, files, strict=True):
        if part.feature_names != parts[0].feature_names:
            raise DataError(f"the feature columns differ from those of {files[0]}", path=str(path))
    data = RankingData.concatenate(parts)
    if not sort_queries:
        _check_distinct(np.split(data.query_ids, np.cumsum([len(part) for part in parts])[:-1]), files)
    if len(np.unique(data.query_ids)) == len(data):
        return data
    ids = np.repeat(data.query_ids, data.lengths.numpy())
    merged = from_arrays(
        data.features,
        data.labels,
        qid=ids,
        doc_ids=data.doc_ids,
        feature_names=data.feature_names,
        sort_queries=sort_queries,
    )
    merged.skipped = data.skipped
    return merged


def _check_distinct(ids: list[np.ndarray], files: Sequence[object]) -> None:
    """Refuse queries that are in two files; the last query of a file may go on in the next."""
    seen: dict[object, object] = {}
    last = None
    for own, path in zip(ids, files, strict=True):
        for place, query in enumerate(own.tolist()):
            if query in seen and not (place == 0 and query == last):
                raise DataError(in_two_files(query, seen[query], path), path=str(path))
            seen[query] = path
            last = query
