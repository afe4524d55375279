"""The synthetic ranking task of the PiRank paper, Appendix D, at any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from pirank.data.ranking_data import RankingData

Distribution = str | Callable[[np.random.Generator, tuple[int, ...]], Any]

_DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape, np.float32),
    "uniform": lambda rng, shape: rng.random(shape, np.float32),
    "exponential": lambda rng, shape: rng.standard_exponential(shape, np.float32),
    "gamma": lambda rng, shape: rng.standard_gamma(1.0, shape, np.float32),
    "lognormal": lambda rng, shape: rng.lognormal(size=shape),
}


def synthetic(
    queries: int = 1000,
    list_size: int | tuple[int, int] = 100,
    *,
    document_features: int = 25,
    query_features: int = 10,
    low: float = 0.0,
    high: float = 5.0,
    round: bool = False,
    documents: Distribution = "normal",
    weights: Distribution = "gamma",
    reveal_columns: bool = False,
    seed: int = 0,
) -> RankingData:
    r"""The synthetic data of the paper's Appendix D.

    For each query i: L documents of ``document_features`` φ-distributed features; ``query_features`` of these
    columns, c, chosen at random without replacement; as many ψ-distributed query features γ; and the labels
    :math:`y_j = \max(\ell, \min(h, \sum_k \gamma_k x_{j, c_k}))`. The γ are appended to each document's
    features.

    The columns c are not among the features, so that no model can learn the labels completely: the best it
    can do is to average over c. ``reveal_columns=True`` appends γ a second time, spread over
    ``document_features`` columns so that γ_k stands at c_k; then the labels are a function of the features.

    Args:
        queries: n, the number of queries.
        list_size: L, documents a query; or the shortest and longest list, drawn uniformly.
        document_features: m_d.
        query_features: m_q, at most m_d.
        low: ℓ, the smallest label.
        high: h, the largest label.
        round: round labels to whole grades, for whole ``low`` and ``high``. The paper's labels are real numbers.
        documents: φ: ``"normal"``, ``"uniform"``, ``"exponential"``, ``"gamma"`` (of shape 1),
            ``"lognormal"``, or a function ``(rng, shape) -> array``.
        weights: ψ, likewise.
        reveal_columns: tell which columns count.
        seed: the same seed gives the same query i, whatever the number of queries.

    Returns:
        ``queries`` queries with m_d + m_q features, 2 m_d + m_q with ``reveal_columns``.

    Example:
        >>> data = synthetic(queries=3, list_size=4, document_features=5, query_features=2)
        >>> data
        RankingData(queries=3, documents=12, features=7)

    References:
        Swezey, Grover, Charron and Ermon, "PiRank: Scalable Learning To Rank via Differentiable Sorting",
        2021.
    """
    parts = synthetic_stream(
        queries,
        list_size,
        queries_per_part=max(queries, 1),
        document_features=document_features,
        query_features=query_features,
        low=low,
        high=high,
        round=round,
        documents=documents,
        weights=weights,
        reveal_columns=reveal_columns,
        seed=seed,
    )
    return next(parts)


def synthetic_stream(
    queries: int,
    list_size: int | tuple[int, int] = 100,
    *,
    queries_per_part: int = 100,
    document_features: int = 25,
    query_features: int = 10,
    low: float = 0.0,
    high: float = 5.0,
    round: bool = False,
    documents: Distribution = "normal",
    weights: Distribution = "gamma",
    reveal_columns: bool = False,
    seed: int = 0,
) -> Iterator[RankingData]:
    """The queries of :func:`synthetic`, the same to the bit, in parts that need not fit into memory together.

    Example:
        >>> [len(part) for part in synthetic_stream(5, 10, queries_per_part=2)]
        [2, 2, 1]
    """
    shortest, longest = list_size if isinstance(list_size, (tuple, list)) else (list_size, list_size)
    _check(queries, shortest, longest, document_features, query_features, low, high, queries_per_part)
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    if round and not (float(low).is_integer() and float(high).is_integer()):
        raise ValueError(f"with round=True, low and high must be whole numbers, got {low} and {high}")
    draw_documents, draw_weights = _distribution("documents", documents), _distribution("weights", weights)
    names = [f"document_{j}" for j in range(document_features)] + [
        f"query_{k}" for k in range(query_features)
    ]
    names += [f"weight_{j}" for j in range(document_features if reveal_columns else 0)]

    def part(first: int, last: int) -> RankingData:
        generators = [np.random.default_rng([seed, query]) for query in range(first, last)]
        lengths = [int(rng.integers(shortest, longest, endpoint=True)) for rng in generators]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        features = np.zeros((int(offsets[-1]), len(names)), np.float32)
        labels = np.empty(len(features), np.float32)
        for rng, start, stop in zip(generators, offsets[:-1], offsets[1:], strict=True):
            x = draw_documents(rng, (int(stop - start), document_features))
            columns = rng.permutation(document_features)[:query_features]
            gamma = draw_weights(rng, (query_features,))
            values = np.clip(x[:, columns].astype(np.float64) @ gamma.astype(np.float64), low, high)
            labels[start:stop] = np.rint(values) if round else values
            features[start:stop, :document_features] = x
            features[start:stop, document_features : document_features + query_features] = gamma
            if reveal_columns:
                features[start:stop, document_features + query_features + columns] = gamma
        return RankingData(
            torch.from_numpy(features), torch.from_numpy(labels), offsets, np.arange(first, last), None, names
        )

    return (
        part(first, min(first + queries_per_part, queries))
        for first in range(0, max(queries, 1), queries_per_part)
    )


def _distribution(name: str, given: Distribution) -> Callable[[np.random.Generator, tuple[int, ...]], Any]:
    if callable(given):
        return partial(_drawn, name, given)
    if given not in _DISTRIBUTIONS:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, _DISTRIBUTIONS))} or a function, got {given!r}"
        )
    return partial(_drawn, name, _DISTRIBUTIONS[given])


def _drawn(
    name: str,
    draw: Callable[[np.random.Generator, tuple[int, ...]], Any],
    rng: np.random.Generator,
    shape: tuple[int, ...],
) -> np.ndarray:
    """What a distribution gives, in float32."""
    with np.errstate(over="ignore"):
        values = np.asarray(draw(rng, shape), np.float32)
    if values.shape != shape:
        raise ValueError(
            f"{name} must give an array of the shape it is asked for, {shape}: got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must give finite numbers that float32 can hold")
    return values


def _check(
    queries: int,
    shortest: int,
    longest: int,
    document_features: int,
    query_features: int,
    low: float,
    high: float,
    queries_per_part: int,
) -> None:
    if queries < 0:
        raise ValueError(f"queries must not be negative, got {queries}")
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"list_size must be at least 1, or a pair of shortest and longest, got {shortest}, {longest}"
        )
    if not 1 <= query_features <= document_features:
        raise ValueError(
            f"query_features must be from 1 to document_features, {document_features}: got {query_features}"
        )
    if not low < high:
        raise ValueError(f"low must be below high, got {low} and {high}")
    if queries_per_part < 1:
        raise ValueError(f"queries_per_part must be at least 1, got {queries_per_part}")
