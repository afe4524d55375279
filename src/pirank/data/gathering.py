"""Lists copied out of a table in memory, nearly as fast as one thread of the machine copies memory.

NumPy copies, on one thread: PyTorch would share the copy among all threads and wait for the last, which on a busy
machine takes many times as long.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# Lists shorter than this are copied row by row in one call; from here on a call for each list costs less.
_SHORT_LIST = 32


def rows_of_lists(starts: np.ndarray, lengths: np.ndarray, offsets: np.ndarray) -> list[slice] | np.ndarray:
    """The rows of consecutive documents, in the form in which :func:`flat_copy` copies them fastest.

    Args:
        starts: the first row of each list, ``[q]``.
        lengths: documents of each list, ``[q]``.
        offsets: boundaries of the lists in the copy, ``[q + 1]``.
    """
    count = int(offsets[-1])
    if count and count >= _SHORT_LIST * len(lengths):
        return list(map(slice, starts.tolist(), (starts + lengths).tolist()))
    return np.repeat(starts - offsets[:-1], lengths) + np.arange(count)


def flat_copy(table: Tensor, rows: list[slice] | np.ndarray, count: int) -> Tensor:
    """The ``count`` rows of a table, one after another."""
    values = table.numpy()
    copy = _empty_rows(values, count)
    if isinstance(rows, list):
        np.concatenate([values[run] for run in rows], out=copy)
    else:
        # "clip" checks nothing: these are rows of the table, and checking them would copy through a buffer.
        values.take(rows, axis=0, out=copy, mode="clip")
    return torch.from_numpy(copy)


def padded_copy(table: Tensor, rows: np.ndarray, lengths: np.ndarray, *, consecutive: bool) -> Tensor:
    """The rows of each list, padded with 0.

    Args:
        table: ``[N, F]``.
        rows: ``[q, L]`` row numbers; at padding, any row.
        lengths: how many of the L are not padding, ``[q]``.
        consecutive: the rows of a list stand together in the table.
    """
    values = table.numpy()
    count, size = rows.shape
    copy = np.empty((count, size, values.shape[1]), values.dtype)
    kept = lengths.tolist()
    if size < _SHORT_LIST:
        values.take(rows, axis=0, out=copy, mode="clip")
    elif consecutive:
        for place, start, length in zip(copy, rows[:, 0].tolist(), kept, strict=True):
            place[:length] = values[start : start + length]
    else:
        for place, own, length in zip(copy, rows, kept, strict=True):
            values.take(own[:length], axis=0, out=place[:length], mode="clip")
    for i in (lengths < size).nonzero()[0].tolist():
        copy[i, kept[i] :] = 0
    return torch.from_numpy(copy)


def _empty_rows(values: np.ndarray, count: int) -> np.ndarray:
    """Room for ``count`` rows, taken in few different sizes.

    So that the allocator can give a batch the room of one that is no longer held: memory fresh from the system costs
    more than the copy.
    """
    step = max(1 << count.bit_length() >> 3, 1)
    room = -(-count // step) * step
    return np.empty((room, *values.shape[1:]), values.dtype)[:count]
