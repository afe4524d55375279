"""Ranking data from arrays in memory: features, labels, and either group sizes or a query id a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pirank.data.errors import DataError
from pirank.data.grouping import group_rows
from pirank.data.ranking_data import RankingData, tensor_of


def from_arrays(
    X: Any,
    y: Any = None,
    *,
    group: Any = None,
    qid: Any = None,
    doc_ids: Any = None,
    feature_names: list[str] | None = None,
    sort_queries: bool = False,
) -> RankingData:
    """Ranking data from arrays, as LightGBM and XGBoost take them.

    Args:
        X: ``[N, F]`` features: an array, a tensor or a SciPy sparse matrix. float32 arrays are not copied.
        y: ``[N]`` labels, or None for documents without labels.
        group: ``[Q]`` documents of each query, in the order of the rows.
        qid: ``[N]`` query id of each row, instead of ``group``. Without either, all rows are one query.
        doc_ids: ``[N]`` ids of the documents.
        feature_names: one name a feature.
        sort_queries: bring rows of one query together instead of refusing rows that do not follow each other.

    Example:
        >>> X = np.arange(8.0).reshape(4, 2)
        >>> from_arrays(X, [1, 0, 2, 0], group=[3, 1])
        RankingData(queries=2, documents=4, features=2)
        >>> from_arrays(X, [1, 0, 2, 0], qid=["a", "b", "a", "b"], sort_queries=True).labels
        tensor([1., 2., 0., 0.])
    """
    features = _features(X)
    rows = features.shape[0]
    labels = None if y is None else tensor_of(y, "y")
    if labels is not None and labels.dim() == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    doc_ids = None if doc_ids is None else np.asarray(doc_ids)
    if group is not None and qid is not None:
        raise ValueError("group and qid exclude each other: both say which rows belong to a query")
    if qid is None:
        return RankingData(features, labels, _offsets(group, rows), None, doc_ids, feature_names)
    ids = qid.numpy(force=True) if isinstance(qid, Tensor) else np.asarray(qid)
    if ids.shape != (rows,):
        raise DataError(f"qid must be one id a row, [{rows}]: got {list(ids.shape)}")
    _check_ids(ids)
    try:
        grouped = group_rows(ids, sort_queries=sort_queries)
    except TypeError:
        kinds = ", ".join(sorted({type(each).__name__ for each in ids.tolist()}))
        raise DataError(f"qid must be all numbers or all text, got {kinds}") from None
    data = RankingData(features, labels, np.array([0, rows]), None, doc_ids, feature_names)
    if grouped.order is not None:
        order = torch.from_numpy(grouped.order).to(data.device)
        features = data.features[order]
        labels = None if data.labels is None else data.labels[order]
        doc_ids = None if data.doc_ids is None else data.doc_ids[grouped.order]
    return RankingData(features, labels, grouped.offsets, grouped.query_ids, doc_ids, feature_names)


def _check_ids(ids: np.ndarray) -> None:
    if ids.dtype.kind not in "fmMO":
        return
    missing = np.array(list(map(_is_missing, ids)), bool) if ids.dtype == object else ids != ids
    if missing.any():
        raise DataError(
            f"qid is missing in {int(missing.sum())} rows, the first is row {int(missing.argmax())} (from 0): "
            "every row needs the id of its query"
        )


def _is_missing(each: Any) -> bool:
    """None, and whatever is not equal to itself: NaN, NaT; pandas.NA does not even say."""
    try:
        return each is None or bool(each != each)
    except TypeError:
        return True


def _features(X: Any) -> Tensor:
    features = tensor_of(X.toarray() if hasattr(X, "toarray") else X, "X")
    if features.dim() != 2:
        raise DataError(f"X must be [rows, features], got {list(features.shape)}")
    features = features.to(torch.float32)
    check_values(features)
    return features


def check_values(features: Tensor) -> None:
    """Refuse NaN and infinite features, saying where the first one is."""
    if features.device.type != "cpu" or bool(features.sum().isfinite()):
        return
    bad = (~features.isfinite()).nonzero()
    if len(bad):
        row, column = (int(each) for each in bad[0])
        raise DataError(
            f"features must be finite: {len(bad)} are not, the first is {float(features[row, column])} "
            f"in row {row}, column {column}; fill missing values first, for instance with numpy.nan_to_num"
        )


def _offsets(group: Any, rows: int) -> np.ndarray:
    if group is None:
        return np.array([0, rows] if rows else [0])
    sizes = group.numpy(force=True) if isinstance(group, Tensor) else np.asarray(group)
    if sizes.ndim != 1 or (sizes.size and not np.issubdtype(sizes.dtype, np.integer)):
        raise DataError(f"group must be whole numbers [queries], got {sizes.dtype} {list(sizes.shape)}")
    if sizes.size and int(sizes.min()) < 0:
        raise DataError(f"group must not be negative, got {int(sizes.min())}")
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    total = sum(sizes.tolist())  # without end, unlike int64
    if total != rows:
        raise DataError(f"group must sum to the number of rows, {rows}: got {total}")
    return offsets
