"""A scorer that looks at one document at a time: the multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from torch import Tensor, nn

from pirank.models.normalisation import BatchNorm
from pirank.names import unknown

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}
NORMALISATIONS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "batch": BatchNorm,
    "layer": nn.LayerNorm,
}


class MLP(nn.Module):
    """Fully connected layers from a document's features to its score.

    It takes flat rows, ``[N, F]``, so that batch normalisation sees documents and no padding.

    Args:
        in_features: columns.
        hidden: the width of each hidden layer; empty: a linear scorer.
        activation: ``"relu"``, ``"gelu"``, ``"silu"`` or ``"tanh"``.
        normalisation: ``"none"``, ``"batch"`` or ``"layer"``, between a layer and its activation.
        dropout: the share of activations dropped while training.
        residual: add a layer's input to its output where the widths agree.

    Example:
        >>> import torch
        >>> MLP(136, hidden=(64, 32))(torch.zeros(7, 136)).shape
        torch.Size([7])
    """

    row_by_row = True

    def __init__(
        self,
        in_features: int,
        *,
        hidden: Sequence[int] = (256, 128, 64),
        activation: str = "relu",
        normalisation: str = "none",
        dropout: float = 0.0,
        residual: bool = False,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(unknown("activation", activation, ACTIVATIONS))
        if normalisation not in NORMALISATIONS:
            raise ValueError(unknown("normalisation", normalisation, NORMALISATIONS))
        if any(width < 1 for width in hidden):
            raise ValueError(f"hidden must be widths of at least 1, got {tuple(hidden)}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}")
        self.residual = residual
        self.layers = nn.ModuleList()
        width = in_features
        for wider in hidden:
            self.layers.append(
                nn.Sequential(
                    # A batch normalisation takes away what a bias before it would add.
                    nn.Linear(width, wider, bias=normalisation != "batch"),
                    NORMALISATIONS[normalisation](wider),
                    ACTIVATIONS[activation](),
                    nn.Dropout(dropout),
                )
            )
            width = wider
        self.score = nn.Linear(width, 1)

    def hidden(self, features: Tensor) -> Tensor:
        """The last hidden layer, ``[N, F]`` to ``[N, width]``."""
        for layer in self.layers:
            out = _through(cast(nn.Sequential, layer), features)
            features = out + features if self.residual and out.shape == features.shape else out
        return features

    def forward(self, features: Tensor, offsets: Tensor | None = None) -> Tensor:
        """``features [N, F]`` to ``scores [N]``; a document's score does not depend on the others."""
        scores: Tensor = self.score(self.hidden(features))
        return scores.squeeze(-1)


def _through(layer: nn.Sequential, features: Tensor) -> Tensor:
    """A linear layer, its normalisation, activation and dropout; the last three at once where kernels can."""
    linear, norm, activation, dropout = cast("tuple[nn.Module, nn.Module, nn.Module, nn.Dropout]", layer)
    if not (isinstance(norm, BatchNorm) and isinstance(activation, nn.ReLU)):
        out: Tensor = layer(features)
        return out
    return norm.rectified(linear(features), dropout.p if dropout.training else 0.0)
