"""Feature transforms that look at one row at a time: signed log1p, standardising, quantile normalising."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pirank.models.exporting import exporting

_ROWS_AT_A_TIME = 65536
_ROWS_FOR_QUANTILES = 200_000


class SignedLog1p(nn.Module):
    r"""``sign(x) · log(1 + |x|)``: tames counts and lengths, keeps the order and the sign.

    Example:
        >>> SignedLog1p(1)(torch.tensor([[0.0], [-1.0]]))
        tensor([[ 0.0000],
                [-0.6931]])
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()

    def fit(self, features: Tensor) -> None:
        """Nothing to learn."""

    def forward(self, features: Tensor) -> Tensor:
        return features.sign() * features.abs().log1p()


class Standardise(nn.Module):
    """Each feature minus its mean, over its standard deviation; a constant feature becomes 0.

    Example:
        >>> step = Standardise(1)
        >>> step.fit(torch.tensor([[1.0], [3.0]]))
        >>> step(torch.tensor([[3.0]]))
        tensor([[1.]])
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(in_features))
        self.register_buffer("scale", torch.ones(in_features))

    def fit(self, features: Tensor) -> None:
        """Learn means and deviations from ``features [N, F]``, in float64 and a slice of rows at a time."""
        slices = features.split(_ROWS_AT_A_TIME)
        rows = max(len(features), 1)
        mean = sum((part.double().sum(0) for part in slices), torch.zeros(features.shape[1]).double()) / rows
        squares = sum(((part.double() - mean).square().sum(0) for part in slices), torch.zeros_like(mean))
        deviation = (squares / rows).sqrt()
        # Rounding leaves a spread of about 1e-7 of its size in a constant column: that is no spread.
        constant = deviation <= 1e-7 * mean.abs()
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(constant | (deviation == 0), 1.0, deviation))

    def forward(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale


class QuantileNormalise(nn.Module):
    """Each feature mapped to a standard normal through its own quantiles, linearly between them.

    Values that the training rows repeat (zeros, mostly) get the middle of the quantiles they span. Values
    outside the training range get the score of its end.

    Args:
        in_features: columns.
        knots: how many quantiles are kept.
    """

    x: Tensor
    y: Tensor

    def __init__(self, in_features: int, knots: int = 101) -> None:
        super().__init__()
        self.register_buffer("x", torch.linspace(-2, 2, knots).repeat(in_features, 1))
        self.register_buffer("y", torch.linspace(-2, 2, knots).repeat(in_features, 1))

    def fit(self, features: Tensor) -> None:
        """Learn the quantiles from ``features [N, F]`` (evenly spaced rows where there are very many)."""
        knots = self.x.shape[1]
        step = max(1, math.ceil(len(features) / _ROWS_FOR_QUANTILES))
        levels = torch.linspace(0, 1, knots, dtype=torch.float64)
        heights = torch.special.ndtri(levels.clamp(0.5 / knots, 1 - 0.5 / knots)).float()
        for column in range(features.shape[1]):
            ordered = features[::step, column].double().sort().values
            if not len(ordered):
                return
            at = (levels * (len(ordered) - 1)).round().long()
            x, group = torch.unique_consecutive(ordered[at].float(), return_inverse=True)
            count = torch.bincount(group).float()
            y = torch.zeros(len(x)).index_add_(0, group, heights) / count
            self.x[column] = torch.cat([x, x[-1:].expand(knots - len(x))])
            self.y[column] = torch.cat([y, y[-1:].expand(knots - len(y))])
            if len(x) == 1:  # a constant says nothing
                self.y[column] = 0

    def forward(self, features: Tensor) -> Tensor:
        if exporting():
            return self._as_sum_of_ramps(features)
        x = self.x
        columns = features.T.contiguous()
        right = torch.searchsorted(x, columns).clamp(1, x.shape[1] - 1)
        left = right - 1
        x0, x1 = x.gather(1, left), x.gather(1, right)
        y0, y1 = self.y.gather(1, left), self.y.gather(1, right)
        part = ((columns - x0) / torch.where(x1 > x0, x1 - x0, 1)).clamp(0, 1)
        return (y0 + part * (y1 - y0)).T.contiguous()

    def _as_sum_of_ramps(self, features: Tensor) -> Tensor:
        """The same function without a search, for ONNX: y₀ + Σ slope_j clamp(x − x_j, 0, x_{j+1} − x_j)."""
        width = self.x.diff(dim=1)
        part = (features[:, :, None] - self.x[:, :-1]).clamp(min=0).minimum(width)
        part = part / torch.where(width > 0, width, 1)
        return self.y[:, 0] + (part * self.y.diff(dim=1)).sum(-1)
