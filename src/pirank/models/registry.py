"""Networks by name, so that a command line, a configuration file and a saved model can say which."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from pirank.models.attention import ListAttention
from pirank.models.mlp import MLP
from pirank.names import unknown

# The paper's scorers, Table 4 (tab:expParams).
_PAPER_BENCHMARK = {
    "hidden": (1024, 512, 256),
    "activation": "relu",
    "normalisation": "batch",
    "dropout": 0.3,
}
_PAPER_ABLATION = {"hidden": (256, 256, 128, 128, 64, 64), "activation": "relu"}

NETWORKS: dict[str, tuple[Callable[..., nn.Module], dict[str, Any]]] = {
    "mlp": (MLP, {}),
    "linear": (MLP, {"hidden": ()}),
    "attention": (ListAttention, {}),
    "paper-benchmark": (MLP, _PAPER_BENCHMARK),
    "paper-ablation": (MLP, _PAPER_ABLATION),
}


def names() -> list[str]:
    """The names :func:`get` knows."""
    return list(NETWORKS)


def get(name: str, in_features: int, **options: Any) -> nn.Module:
    """A network by name, mapping ``features [N, F]`` and ``offsets [Q + 1]`` to ``scores [N]``.

    Args:
        name: ``"mlp"``, ``"linear"``, ``"attention"``, ``"paper-benchmark"`` or ``"paper-ablation"``.
        in_features: columns.
        **options: what the network's class takes, instead of the name's own settings.

    Example:
        >>> get("mlp", in_features=5, hidden=(8,)).score
        Linear(in_features=8, out_features=1, bias=True)
    """
    if name not in NETWORKS:
        raise ValueError(unknown("model", name, NETWORKS))
    make, settings = NETWORKS[name]
    known = [p for p in inspect.signature(make).parameters if p != "in_features"]
    for option in options:
        if option not in known:
            raise ValueError(unknown(f"option of model {name!r}:", option, known))
    return make(in_features, **{**settings, **options})
