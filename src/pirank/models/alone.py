"""Whether a network scores each document by itself, as far as its modules are known."""

from __future__ import annotations

from torch import nn

from pirank.models.normalisation import BatchNorm
from pirank.models.row_transforms import QuantileNormalise, SignedLog1p, Standardise

# What these give for a row depends on that row; BatchNorm can be told which rows there are.
_ROW_BY_ROW = {
    nn.Identity, nn.Sequential, nn.ModuleList, nn.Linear, nn.LayerNorm, nn.RMSNorm, BatchNorm, nn.Dropout,
    nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus, nn.Tanh, nn.Sigmoid,
    Standardise, SignedLog1p, QuantileNormalise,
}  # fmt: skip


def why_not_alone(network: nn.Module) -> str | None:
    """None if every module is known to work row by row, else which is not.

    A module with a ``forward`` of its own says that it does with ``row_by_row = True`` in its class.

    Example:
        >>> why_not_alone(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)))
        >>> why_not_alone(nn.Sequential(nn.BatchNorm1d(3)))
        'BatchNorm1d takes its statistics over padding too: use pirank.models.BatchNorm'
    """
    for module in network.modules():
        kind = type(module)
        if kind in _ROW_BY_ROW or vars(kind).get("row_by_row", False):
            continue
        if getattr(module, "looks_at_queries", None) is False:
            continue
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return f"{kind.__name__} takes its statistics over padding too: use pirank.models.BatchNorm"
        return (
            f"{kind.__name__} may look across documents: row_by_row = True in its class says that it does not"
        )
    return None
