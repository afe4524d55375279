"""What every relaxed sort is: scores in, the values in (relaxed) rank order out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from pirank.lists import check_finite, check_k, check_mask, check_scores, in_full_precision

Temperature = float | Tensor
"""A number, or one number a list as a tensor ``[B, 1]``."""


class Sort(ABC):
    """A relaxation of sorting in descending order.

    A sort is a family of row-stochastic matrices ``P̂(scores, temperature)`` that tends to the permutation matrix of
    the sort as the temperature falls to 0. Row i holds the weights of the items at rank i.

    A subclass implements :meth:`relaxed_matrix` on ``[B, L]`` batches, and :meth:`sorted_values` where it can do
    without the matrix.

    Args:
        temperature: how soft the sort is; above 0.
        relative: take the temperature in units of list length × standard deviation of the list's scores (detached),
            so that a change of the scores' scale or of the list's length does not change how soft the sort is.
    """

    def __init__(self, temperature: float = 1.0, *, relative: bool = False) -> None:
        self.temperature = temperature
        self.relative = relative

    @property
    def temperature(self) -> float:
        """How soft the sort is; can be set between steps, as temperature schedules do."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        check_temperature(value)
        self._temperature = value

    def apply(
        self, scores: Tensor, values: Tensor, k: int | None = None, *, mask: Tensor | None = None
    ) -> Tensor:
        """The first k relaxed ranked values, ``matrix(scores, k) @ values``, without forming the matrix.

        Args:
            scores: ``[..., L]``, higher ranks first.
            values: ``[..., L]``, one value an item (a gain, a label, ...).
            k: how many ranks; None: all L. Ranks beyond a list's own length hold 0.
            mask: ``[..., L]``, True at the items that are there.

        Returns:
            ``[..., k]``, float32 for half-precision input.
        """
        scores, mask, shape, k = self._open(scores, k, mask)
        if values.shape != shape:
            raise ValueError(
                f"values must have the shape of scores, one value an item: "
                f"got values {list(values.shape)} and scores {list(shape)}"
            )
        values = values.to(scores.dtype).reshape(shape[:-1].numel(), 1, shape[-1])
        if mask is not None:
            values = torch.where(mask[:, None], values, 0)
        tau = self.temperature_of(scores, mask)
        return self.sorted_values(scores, values, mask, k, tau)[:, 0].reshape(*shape[:-1], k)

    def matrix(self, scores: Tensor, k: int | None = None, *, mask: Tensor | None = None) -> Tensor:
        """The first k rows of the relaxed permutation matrix, for looking at, teaching and tests.

        Args:
            scores: ``[..., L]``, higher ranks first.
            k: how many rows; None: all L. Rows beyond a list's own length are 0.
            mask: ``[..., L]``, True at the items that are there; columns of absent items are 0.

        Returns:
            ``[..., k, L]``, columns in the order of the input items.
        """
        scores, mask, shape, k = self._open(scores, k, mask)
        tau = self.temperature_of(scores, mask)
        return self.relaxed_matrix(scores, mask, k, tau).reshape(*shape[:-1], k, shape[-1])

    def temperature_of(self, scores: Tensor, mask: Tensor | None) -> Temperature:
        """The absolute temperature of each list of a ``[B, L]`` batch: a number, or ``[B, 1]`` where relative."""
        if not self.relative:
            return self.temperature
        return self.temperature * length_times_spread(scores, mask)

    def sorted_values(
        self, scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: Temperature
    ) -> Tensor:
        """Relaxed ranked values of several values an item: ``values [B, C, L]`` to ``[B, C, k]``.

        Absent items arrive with score 0 and value 0. Sorts that can do without the matrix override this.
        """
        matrix = self.relaxed_matrix(scores, mask, k, temperature)
        with torch.autocast(scores.device.type, enabled=False):
            return values @ matrix.mT

    @abstractmethod
    def relaxed_matrix(self, scores: Tensor, mask: Tensor | None, k: int, temperature: Temperature) -> Tensor:
        """The matrix ``[B, k, L]`` of a ``[B, L]`` batch; k may exceed L, and those rows are 0."""

    def _open(
        self, scores: Tensor, k: int | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None, torch.Size, int]:
        check_scores(scores)
        check_k(k)
        mask = check_mask(mask, scores)
        shape = scores.shape
        scores = in_full_precision(scores)
        if mask is not None:
            scores = torch.where(mask, scores, 0)
            mask = mask.reshape(shape[:-1].numel(), shape[-1])
        scores = scores.reshape(shape[:-1].numel(), shape[-1])
        check_finite(scores, mask, "scores")
        return scores, mask, shape, shape[-1] if k is None else k

    def __repr__(self) -> str:
        relative = ", relative=True" if self.relative else ""
        return f"{type(self).__name__}(temperature={self.temperature:g}{relative})"


def check_temperature(value: object) -> None:
    """Temperatures are finite numbers above 0."""
    if isinstance(value, Tensor):
        raise TypeError("temperature must be a number, not a tensor: use float(temperature)")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"temperature must be a number above 0, got {value!r}")
    if not 0 < value < float("inf"):
        raise ValueError(
            f"temperature must be a finite number above 0, got {value}: the limit 0 is the hard metric itself"
        )


def length_times_spread(scores: Tensor, mask: Tensor | None) -> Tensor:
    """List length × standard deviation of the list's scores, ``[B, L]`` to ``[B, 1]``, detached and above 0.

    Scores that are all equal, as a fresh network's may be, have no scale: their spread counts as 1.
    """
    scores = scores.detach()
    tiny = torch.finfo(scores.dtype).tiny
    if scores.shape[-1] == 0:
        return scores.new_ones(scores.shape[0], 1)
    if mask is None:
        count = scores.new_full((scores.shape[0], 1), scores.shape[-1])
        present = torch.ones_like(scores)
    else:
        present = mask.to(scores.dtype)
        count = present.sum(-1, keepdim=True).clamp(min=1)
    # Scaled by the largest score, so that squares neither overflow nor vanish.
    scale = (scores * present).abs().amax(-1, keepdim=True).clamp(min=tiny)
    unit = scores / scale
    mean = (unit * present).sum(-1, keepdim=True) / count
    variance = ((unit - mean).square() * present).sum(-1, keepdim=True) / count
    deviation = variance.sqrt()
    # A spread within rounding is none: a gradient in its units would be without bounds.
    spread = torch.where(deviation > torch.finfo(scores.dtype).eps, deviation * scale, 1)
    return (count * spread).clamp(min=tiny, max=torch.finfo(scores.dtype).max)


def lengths_of(scores: Tensor, mask: Tensor | None) -> Tensor:
    """How many items each list of a ``[B, L]`` batch holds, ``[B]``."""
    if mask is None:
        return torch.full((scores.shape[0],), scores.shape[1], device=scores.device)
    return mask.sum(-1)
