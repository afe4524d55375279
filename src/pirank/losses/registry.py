"""The losses by name, for the command line and for configuration files."""

from __future__ import annotations

from typing import Any

from pirank.losses.approx import ApproxMRRLoss, ApproxNDCGLoss
from pirank.losses.base import ListLoss
from pirank.losses.lambdas import LambdaLoss, LambdaRankLoss
from pirank.losses.listwise import ListMLELoss, ListNetLoss, PositionAwareListMLELoss, SoftmaxLoss
from pirank.losses.neural_ndcg import NeuralNDCGLoss
from pirank.losses.neuralsort import NeuralSortLoss
from pirank.losses.pairwise import PairwiseHingeLoss, RankNetLoss
from pirank.losses.pirank import PiRankARPLoss, PiRankLoss, PiRankNDCGLoss
from pirank.losses.pointwise import MSELoss, OrdinalLoss, SigmoidCrossEntropyLoss
from pirank.names import nearest

LOSSES: dict[str, type[ListLoss] | type[PiRankNDCGLoss] | type[PiRankARPLoss]] = {
    "pirank-ndcg": PiRankNDCGLoss,
    "pirank-arp": PiRankARPLoss,
    "mse": MSELoss,
    "sigmoid-ce": SigmoidCrossEntropyLoss,
    "ordinal": OrdinalLoss,
    "ranknet": RankNetLoss,
    "pairwise-hinge": PairwiseHingeLoss,
    "lambdarank": LambdaRankLoss,
    "lambdaloss": LambdaLoss,
    "softmax": SoftmaxLoss,
    "listnet": ListNetLoss,
    "listmle": ListMLELoss,
    "p-listmle": PositionAwareListMLELoss,
    "approx-ndcg": ApproxNDCGLoss,
    "approx-mrr": ApproxMRRLoss,
    "neuralsort": NeuralSortLoss,
    "neural-ndcg": NeuralNDCGLoss,
}


def names() -> tuple[str, ...]:
    """The names that :func:`get` knows."""
    return tuple(LOSSES)


def get(name: str, **options: Any) -> ListLoss | PiRankLoss:
    """The loss of that name as a module, with its options.

    Example:
        >>> get("lambdarank", k=10)
        LambdaRankLoss(k=10)
    """
    if name not in LOSSES:
        raise ValueError(f"there is no loss {name!r}{nearest(name, LOSSES)}")
    known = LOSSES[name].option_names()
    for option in options:
        if option not in known:
            raise ValueError(f"the loss {name!r} has no option {option!r}{nearest(option, known)}")
    return LOSSES[name](**options)
