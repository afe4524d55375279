"""Which queries come in which step of which process: seeded, resumable, without loss or repetition."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pirank.data.ranking_data import RankingData

if TYPE_CHECKING:
    from pirank.data.batches import Batch

# The documents, and the batches, whose row numbers are worked out at once: enough to make that cheap, little enough to
# hold.
WINDOW_DOCUMENTS = 1 << 20
WINDOW_BATCHES = 1 << 12


@dataclass(frozen=True)
class Window:
    """The row numbers of some consecutive batches, for those who gather the documents themselves.

    Attributes:
        rows: ``[n]`` the documents, batch after batch and list after list, where the data is.
        queries: the queries of every batch.
        lengths: how many documents each of them has here.
    """

    rows: Tensor
    queries: list[np.ndarray]
    lengths: list[np.ndarray]


class Schedule(ABC):
    """Epochs of batches, with a place that can be saved and taken up again."""

    def __init__(
        self, data: RankingData, seed: int, rank: int, world_size: int, device: torch.device | str | None
    ) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(
                f"rank must be from 0 to world_size - 1, got rank {rank} of world_size {world_size}"
            )
        self._data = data
        self._lengths = data.lengths.numpy(force=True)
        self._seed, self._rank, self._world_size = seed, rank, world_size
        self._device = None if device is None or torch.device(device) == data.device else torch.device(device)
        self._epoch = 0
        self._step = 0
        self._resume_at = 0
        self._planned: tuple[int, list[np.ndarray]] | None = None

    # --- what each kind of batches says ---------------------------------------------------------------------

    @abstractmethod
    def _plan(self, epoch: int) -> list[np.ndarray]:
        """The queries of every batch of an epoch, the same in all processes."""

    @abstractmethod
    def _gathered(self, batches: list[np.ndarray], epoch: int) -> Iterator[Batch]:
        """The batches of these queries."""

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """What the order depends on, next to data and seed."""

    @abstractmethod
    def _documents(self, queries: np.ndarray, epoch: int) -> tuple[Tensor, Tensor]:
        """The documents of these queries in their order: row numbers ``[n]``, and the offsets among them."""

    @property
    def list_size(self) -> int | None:
        """How many documents of a list are used; None: all."""
        return None

    @abstractmethod
    def largest(self) -> tuple[int, int]:
        """How many documents, and how many lists, a batch holds at most."""

    @cached_property
    def contents(self) -> str:
        """What tells the data from other data, as far as that is quick: its lists, labels and number of features."""
        digest = hashlib.blake2b(str(self._data.features.shape).encode(), digest_size=16)
        digest.update(self._lengths.tobytes())
        if self._data.labels is not None:
            digest.update(self._data.labels.numpy(force=True).tobytes())
        return digest.hexdigest()

    # --- one epoch ------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch the next iteration gives, or the one it is in."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration give this epoch; from its start, unless it is the one that was loaded."""
        if epoch != self._epoch:
            self._epoch, self._step, self._resume_at = epoch, 0, 0

    def __len__(self) -> int:
        """The number of steps of the epoch, the same in all processes."""
        return -(-len(self._batches_of(self._epoch)) // self._world_size)

    def __iter__(self) -> Iterator[Batch]:
        epoch, start = self._epoch, self._resume_at
        plan = self._batches_of(epoch)
        steps = len(self)
        self._step, self._resume_at = start, 0
        nothing = np.empty(0, np.int64)
        mine = [
            plan[i] if i < len(plan) else nothing
            for i in range(self._rank, steps * self._world_size, self._world_size)
        ]
        for step, batch in enumerate(self._gathered(mine[start:], epoch), start=start):
            # Counted as done before it is handed out: a state taken after training on it goes on with the
            # next.
            self._step = step + 1
            if self._world_size > 1:
                first = step * self._world_size
                together = sum(len(each) for each in plan[first : first + self._world_size])
                batch = replace(batch, weight=len(batch) * self._world_size / together)
            yield self._moved(batch)
        self._epoch, self._step = epoch + 1, 0

    def windows(self) -> Iterator[Window]:
        """What iterating would give, as row numbers; what is done with it is told to :meth:`took`.

        It goes on from where the batches stand, to the end of the epoch; a single process only.
        """
        epoch, batches = self._epoch, self._batches_of(self._epoch)[max(self._step, self._resume_at) :]
        for window in windows_of(batches, self._lengths):
            rows, offsets = self._documents(np.concatenate(window), epoch)
            lengths = [self._lengths[batch] for batch in window]
            if self.list_size is not None:
                starts = torch.repeat_interleave(offsets[:-1], offsets.diff(), output_size=len(rows))
                rows = rows[torch.arange(len(rows), device=rows.device) - starts < self.list_size]
                lengths = [each.clip(max=self.list_size) for each in lengths]
            yield Window(rows, window, lengths)

    def took(self, batches: int) -> None:
        """Count so many more batches of this epoch as handed out; after the last one the next epoch begins."""
        self._step = max(self._step, self._resume_at) + batches
        self._resume_at = self._step
        if self._step >= len(self):
            self._epoch, self._step, self._resume_at = self._epoch + 1, 0, 0

    def _batches_of(self, epoch: int) -> list[np.ndarray]:
        if self._planned is None or self._planned[0] != epoch:
            self._planned = (epoch, self._plan(epoch))
        return self._planned[1]

    def _moved(self, batch: Batch) -> Batch:
        if self._device is None:
            return batch
        if self._device.type == "cuda" and self._data.device.type == "cpu":
            return batch.pin_memory().to(self._device, non_blocking=True)
        return batch.to(self._device)

    # --- stopping and going on ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The place in the schedule, after the last batch that was handed out."""
        place = {"epoch": self._epoch, "step": self._step, "world_size": self._world_size}
        return {**place, "contents": self.contents, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was taken; the data and all options must be the same.

        The number of processes may differ, if the step is a whole one for them as well.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise ValueError(
                    f"the state was taken with {name} = {state.get(name)!r}, here it is {value!r}: "
                    "it cannot be taken up at the same place"
                )
        if state.get("contents", self.contents) != self.contents:
            raise ValueError(
                "the state was taken with other data: its lists or labels are not these, or not in this order"
            )
        done = state["step"] * state["world_size"]
        if done % self._world_size and done < len(self._batches_of(state["epoch"])):
            raise ValueError(
                f"the state was taken after {done} batches by {state['world_size']} processes: no whole "
                f"number of steps for {self._world_size}: change the number of processes between epochs"
            )
        self._epoch = state["epoch"]
        self._step = self._resume_at = -(-done // self._world_size)

    def _identity(self) -> dict[str, Any]:
        return {
            "seed": self._seed,
            "queries": len(self._data),
            "total_documents": self._data.documents,
            **self._options(),
        }


def windows_of(batches: list[np.ndarray], lengths: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Consecutive batches that hold about ``WINDOW_DOCUMENTS`` documents together."""
    window: list[np.ndarray] = []
    documents = 0
    for batch in batches:
        window.append(batch)
        documents += int(lengths[batch].sum())
        if documents >= WINDOW_DOCUMENTS or len(window) >= WINDOW_BATCHES:
            yield window
            window, documents = [], 0
    if window:
        yield window
