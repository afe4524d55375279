"""PiRank: learning to rank by optimising the ranking metric itself.

>>> import torch
>>> import pirank
>>> scores = torch.tensor([[0.1, 0.9, 0.5]], requires_grad=True)
>>> pirank.pirank_ndcg_loss(scores, torch.tensor([[2.0, 0.0, 1.0]]), k=2, temperature=0.1)
tensor(0.8182, grad_fn=<DivBackward0>)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pirank import losses, metrics, sorts
from pirank.losses import PiRankLoss, pirank_arp_loss, pirank_ndcg_loss
from pirank.version import __version__

if TYPE_CHECKING:
    from pirank import data, models, training
    from pirank.estimator import PiRanker

# Rooms that import more than torch and numpy are opened at first use, so that `import pirank` stays light.
_OPENED_AT_FIRST_USE = {
    "data": "pirank.data",
    "models": "pirank.models",
    "training": "pirank.training",
}

__all__ = [
    "PiRankLoss",
    "PiRanker",
    "__version__",
    "data",
    "losses",
    "metrics",
    "models",
    "pirank_arp_loss",
    "pirank_ndcg_loss",
    "sorts",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in _OPENED_AT_FIRST_USE:
        return import_module(_OPENED_AT_FIRST_USE[name])
    if name == "PiRanker":
        return import_module("pirank.estimator").PiRanker
    raise AttributeError(f"module 'pirank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
