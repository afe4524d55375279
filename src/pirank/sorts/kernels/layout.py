"""Where the lists of a batch stand in memory, and how many rows and columns a tile of weights has."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

# Rows that share an anchor: more would lose digits far from it.
MOST_ROWS = 64


@dataclass(frozen=True)
class Layout:
    """Where the lists of a batch stand.

    Attributes:
        lists: how many there are.
        channels: values an item.
        longest: places of the longest of them, padding counted.
        channel: places from one channel of values to the next.
        per_list: how much faster values move on than scores, from list to list.
    """

    lists: int
    channels: int
    longest: int
    channel: int
    per_list: int

    @classmethod
    def of(cls, values: Tensor, offsets: Tensor | None, longest: int) -> Layout:
        """The layout of ``values [lists, channels, list_size]``, or ``[channels, items]`` with offsets."""
        if offsets is None:
            return cls(values.shape[0], values.shape[1], values.shape[2], values.shape[2], values.shape[1])
        return cls(offsets.numel() - 1, values.shape[0], longest, values.shape[1], 1)


@dataclass(frozen=True)
class Linear:
    """A loss ``upper + direction · Σ_j weights_j r_j / normaliser`` of the ranked values r.

    Attributes:
        weights: ``[k]``.
        gain: what of a label is ranked: ``"same"``, ``"exp2"`` (2^y − 1), or ``"above"``, whether it is above
        threshold: this. An item with a label above it is relevant.
        per: what the normaliser is; see :class:`pirank.metrics.LinearMetric`.
        at_most: its upper bound.
        upper: the loss at a metric of 0.
        direction: 1 where lower is better, −1 where higher is.
        hard: report the metric of the hard sort.
        every: count the lists without a relevant item in the mean, as 0.
    """

    weights: Tensor
    gain: str
    threshold: float
    per: str
    at_most: float
    upper: float
    direction: float
    hard: bool
    every: bool


_tickets: dict[tuple[torch.device, int], Tensor] = {}


def tickets(device: torch.device) -> Tensor:
    """A zero with which the programs of a launch are counted, and which the last of them sets back.

    Launches on one stream follow one another and share it; a graph, which may be replayed on any, has its own.
    """
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return torch.zeros(1, dtype=torch.int32, device=device)
    # The stream's number, as Triton asks for it: an object for it would take a tenth of a short list's time.
    key = device, torch._C._cuda_getCurrentRawStream(device.index)
    if key not in _tickets:
        _tickets[key] = torch.zeros(1, dtype=torch.int32, device=device)
    return _tickets[key]


def rows_at_once(k: int) -> int:
    """Rows of a block: a power of 2, at least 16 and at most 64."""
    return min(max(int(triton.next_power_of_2(k)), 16), MOST_ROWS)
