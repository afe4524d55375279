"""The relaxed metric beside the hard one while training, as in the paper's temperature figures."""

from __future__ import annotations

import torch
from torch import nn

from pirank.data import RankingData
from pirank.losses import PiRankLoss
from pirank.metrics import NDCG
from pirank.training import scores_of

CUTOFFS = (1, 3, 5, 10, 15)


def relaxed_and_hard(network: nn.Module, loss: nn.Module, valid: RankingData) -> dict[str, float]:
    """NDCG@k of the validation queries, and its relaxation at the loss's present temperature.

    Args:
        network: maps features and offsets to scores.
        loss: a PiRank loss, whose sort is used.
        valid: the queries, with labels.
    """
    sort = getattr(loss, "sort", None)
    assert sort is not None, "only the losses that sort have a relaxed metric"
    assert valid.labels is not None, "checked before the training"
    scores, labels = scores_of(network, valid), valid.labels.cpu()
    found = {}
    with torch.no_grad():
        for k in CUTOFFS:
            metric = NDCG(k)
            hard = metric(scores, labels, offsets=valid.offsets.cpu())
            found[f"ndcg@{k}"] = float(hard)
            found[f"relaxed ndcg@{k}"] = 1 - float(
                PiRankLoss(metric, sort)(scores, labels, offsets=valid.offsets.cpu())
            )
    return found
