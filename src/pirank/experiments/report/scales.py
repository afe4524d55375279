"""From values to places on a page: linear and logarithmic axes with round ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pirank.experiments.report.formatting import MINUS, plain, power


@dataclass(frozen=True)
class Scale:
    """A map from values in ``[low, high]`` to pixels in ``[start, end]``, with the ticks to draw.

    Example:
        >>> Scale(0.0, 10.0, 100.0, 200.0)(5.0)
        150.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    ticks: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def fit(
    values: Sequence[float],
    start: float,
    end: float,
    *,
    log: bool = False,
    count: int = 6,
    round_ends: bool = True,
) -> Scale:
    """The scale that shows all values with about ``count`` round ticks.

    ``round_ends`` widens the range to the next half step between ticks on either side (of a linear axis).

    Example:
        >>> fit([0.0, 9.3], 0.0, 100.0).ticks
        (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
        >>> fit([1.0, 1000.0], 0.0, 100.0, log=True).labels
        ('1', '10', '100', '1,000')
    """
    low, high = min(values), max(values)
    if log:
        if high / low < 1.5:
            low, high = low / 1.3, high * 1.3
        ticks = log_ticks(low, high, count)
        return Scale(low, high, start, end, True, ticks, _log_labels(ticks))
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        pad = abs(high) * 0.1 or 1.0
        low, high = low - pad, high + pad
    step = nice_step((high - low) / max(1, count - 1))
    if round_ends:
        half = step / 2
        low, high = math.floor(low / half + 1e-9) * half, math.ceil(high / half - 1e-9) * half
    ticks = _multiples(step, low, high)
    while len(ticks) < 2:  # one tick says where a value is, but not how large a difference is
        step = nice_step(step / 3)
        ticks = _multiples(step, low, high)
    return Scale(low, high, start, end, False, ticks, linear_labels(ticks, step))


def _multiples(step: float, low: float, high: float) -> tuple[float, ...]:
    slack = 1e-9
    inside = range(math.ceil(low / step - slack), math.floor(high / step + slack) + 1)
    return tuple(index * step for index in inside)


def nice_step(rough: float) -> float:
    """The round number (1, 2 or 5 times a power of ten) at or above a rough step.

    Example:
        >>> nice_step(0.03), nice_step(7.0)
        (0.05, 10.0)
    """
    size = 10.0 ** math.floor(math.log10(rough))
    for factor in (1.0, 2.0, 5.0):
        if rough <= factor * size * (1 + 1e-9):
            return factor * size
    return 10.0 * size


def linear_labels(ticks: Sequence[float], step: float) -> tuple[str, ...]:
    """Labels of one axis, all with the digits that the step needs; k and M from ten thousand on.

    Example:
        >>> linear_labels([0.0, 0.05, 0.1], 0.05), linear_labels([0.0, 20000.0], 20000.0)
        (('0.00', '0.05', '0.10'), ('0', '20k'))
    """
    largest = max((abs(tick) for tick in ticks), default=0.0)
    if largest >= 1e9 or step < 1e-6:
        return tuple("0" if tick == 0 else (MINUS if tick < 0 else "") + power(abs(tick)) for tick in ticks)
    unit, suffix = (1e6, "M") if largest >= 1e6 else (1e3, "k") if largest >= 1e4 else (1.0, "")
    digits = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    labels = []
    for tick in ticks:
        text = f"{abs(tick) / unit:,.{digits}f}"
        is_zero = float(text.replace(",", "")) == 0
        shown = "0" if is_zero and suffix else text + ("" if is_zero else suffix)
        labels.append((MINUS if tick < 0 and not is_zero else "") + shown)
    return tuple(labels)


def log_ticks(low: float, high: float, count: int) -> tuple[float, ...]:
    """Powers of ten in a range, thinned to ``count``; between few of them also 2 and 5, or round steps.

    Example:
        >>> log_ticks(80.0, 4000.0, 6)
        (100.0, 200.0, 500.0, 1000.0, 2000.0)
    """
    slack = 1e-9
    first, last = math.ceil(math.log10(low) - slack), math.floor(math.log10(high) + slack)
    decades = math.log10(high / low)
    if decades < 0.7:
        step = nice_step((high - low) / max(1, count - 1))
        return tuple(tick for tick in _multiples(step, low, high) if tick > 0)
    for factors in ((1.0, 2.0, 5.0), (1.0,)):
        ticks = tuple(
            factor * 10.0**exponent
            for exponent in range(first - 1, last + 1)
            for factor in factors
            if low * (1 - slack) <= factor * 10.0**exponent <= high * (1 + slack)
        )
        if len(ticks) <= count + 1:
            return ticks
    stride = math.ceil((last - first + 1) / count)
    return tuple(10.0**exponent for exponent in range(first, last + 1, stride))


def _log_labels(ticks: Sequence[float]) -> tuple[str, ...]:
    exact = [float(f"{tick:.6g}") for tick in ticks]
    plainly = all(1e-3 <= tick < 1e6 for tick in exact)
    return tuple(plain(tick) if plainly else power(tick) for tick in exact)
