"""Query ids that stand in text: whole numbers where all of them are written as such, else the text itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def query_id(text: str) -> int | str:
    """A query id as a whole number if it is written as one, else as it is: ``007``, ``1.0`` and ``1_0`` are text.

    Example:
        >>> query_id("7"), query_id("-7"), query_id("007"), query_id("1_0")
        (7, -7, '007', '1_0')
    """
    try:
        number = int(text)
    except ValueError:
        return text
    return number if str(number) == text else text


def ids_of(texts: Iterable[str]) -> np.ndarray:
    """The query ids of texts, all whole numbers or all text.

    Example:
        >>> ids_of(["7", "12"]), ids_of(["7", "012"])
        (array([ 7, 12]), array(['7', '012'], dtype=object))
    """
    found = [query_id(text) for text in texts]
    ids = np.empty(len(found), object)
    ids[:] = found
    return one_type([ids])


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The ids of several data sets: as they are where they are of one kind, else one_type's.

    Example:
        >>> joined([np.array([7]), np.array(["a"], dtype=object)])
        array(['7', 'a'], dtype=object)
    """
    return np.concatenate(parts) if len({ids.dtype.kind for ids in parts}) == 1 else one_type(parts)


def one_type(ids: Sequence[np.ndarray]) -> np.ndarray:
    """Ids of several blocks as one array: int64 where all are whole numbers that fit, else text."""
    if all(part.dtype == np.int64 for part in ids):
        return np.concatenate(ids)
    merged = np.concatenate([part.astype(object) for part in ids])
    if all(isinstance(each, int) and -(2**63) <= each < 2**63 for each in merged):
        return merged.astype(np.int64)
    return np.array([str(each) for each in merged], dtype=object)
