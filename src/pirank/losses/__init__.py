"""Losses, each a function and a module of one signature; :func:`get` finds them by name."""

from pirank.losses.approx import ApproxMRRLoss, ApproxNDCGLoss, approx_mrr_loss, approx_ndcg_loss
from pirank.losses.base import ListLoss, list_loss
from pirank.losses.lambdas import LambdaLoss, LambdaRankLoss, lambdaloss, lambdarank_loss
from pirank.losses.listwise import (
    ListMLELoss,
    ListNetLoss,
    PositionAwareListMLELoss,
    SoftmaxLoss,
    listmle_loss,
    listnet_loss,
    position_aware_listmle_loss,
    softmax_loss,
)
from pirank.losses.neural_ndcg import NeuralNDCGLoss, neural_ndcg_loss
from pirank.losses.neuralsort import NeuralSortLoss, neuralsort_loss
from pirank.losses.pairwise import PairwiseHingeLoss, RankNetLoss, pairwise_hinge_loss, ranknet_loss
from pirank.losses.pirank import (
    PiRankARPLoss,
    PiRankLoss,
    PiRankNDCGLoss,
    pirank_arp_loss,
    pirank_ndcg_loss,
)
from pirank.losses.pointwise import (
    MSELoss,
    OrdinalLoss,
    SigmoidCrossEntropyLoss,
    mse_loss,
    ordinal_loss,
    sigmoid_cross_entropy_loss,
)
from pirank.losses.registry import get, names
from pirank.losses.spread import SpreadLoss, whole_lists

__all__ = [
    "ApproxMRRLoss",
    "ApproxNDCGLoss",
    "LambdaLoss",
    "LambdaRankLoss",
    "ListLoss",
    "ListMLELoss",
    "ListNetLoss",
    "MSELoss",
    "NeuralNDCGLoss",
    "NeuralSortLoss",
    "OrdinalLoss",
    "PairwiseHingeLoss",
    "PiRankARPLoss",
    "PiRankLoss",
    "PiRankNDCGLoss",
    "PositionAwareListMLELoss",
    "RankNetLoss",
    "SigmoidCrossEntropyLoss",
    "SoftmaxLoss",
    "SpreadLoss",
    "approx_mrr_loss",
    "approx_ndcg_loss",
    "get",
    "lambdaloss",
    "lambdarank_loss",
    "list_loss",
    "listmle_loss",
    "listnet_loss",
    "mse_loss",
    "names",
    "neural_ndcg_loss",
    "neuralsort_loss",
    "ordinal_loss",
    "pairwise_hinge_loss",
    "pirank_arp_loss",
    "pirank_ndcg_loss",
    "position_aware_listmle_loss",
    "ranknet_loss",
    "sigmoid_cross_entropy_loss",
    "softmax_loss",
    "whole_lists",
]
