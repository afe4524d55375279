"""Which rows belong to which query, in the ways that users of scikit-learn, LightGBM and XGBoost say it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pirank.data import RankingData, from_arrays


def split_qid(X: Any) -> tuple[Any, np.ndarray | None]:
    """A frame without its column ``qid``, and the column; anything else as it is, and None."""
    columns = getattr(X, "columns", None)
    if columns is None or "qid" not in list(columns):
        return X, None
    polars = type(X).__module__.partition(".")[0] == "polars"
    return (X.drop("qid") if polars else X.drop(columns="qid")), np.asarray(X["qid"])


def query_weights(weights: Any, qid: Any, data: RankingData) -> torch.Tensor:
    """One weight a query of ``data``, from one a query (in the order of their first rows) or one a row."""
    values = torch.as_tensor(np.asarray(weights, dtype=np.float32))
    if bool((values < 0).any()) or not bool((values > 0).any()):
        raise ValueError("sample_weight must have no weight below zero, and not all of them zero")
    if values.shape == (len(data),):
        return values
    if values.shape != (data.documents,):
        raise ValueError(
            f"sample_weight must be one number a query, [{len(data)}], or a row, [{data.documents}]: "
            f"got {list(values.shape)}"
        )
    if qid is not None:
        grouped = from_arrays(values[:, None], None, qid=np.asarray(qid), sort_queries=True)
        values = grouped.features[:, 0]
    return torch.segment_reduce(values, "mean", offsets=data.offsets, initial=0)


def last_of(given: Any) -> Any:
    """The last of several arrays; one alone may be given without a list around it."""
    if isinstance(given, (list, tuple)) and len(given) and not np.isscalar(given[-1]):
        return given[-1]
    return given
