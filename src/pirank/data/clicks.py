"""Clicks simulated from graded labels, so that learning from implicit feedback can be studied with a known truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pirank.data.errors import DataError
from pirank.data.ranking_data import RankingData

_MODELS = ("position", "cascade")
_HIGHEST_LABEL = 1000  # beyond 1023, 2^label is infinite


@dataclass(frozen=True)
class Clicks:
    """Simulated clicks of several sessions on the same rankings.

    Attributes:
        data: the data the clicks were simulated on.
        clicks: ``[sessions, N]``, True where the document was clicked.
        positions: ``[N]``, the rank at which the document was shown, from 1; 0 where it was not shown.
        propensities: ``[N]``, the probability that the document was looked at; 0 where it was not shown.
    """

    data: RankingData
    clicks: Tensor
    positions: Tensor
    propensities: Tensor

    def to_data(self, *, unbiased: bool = False, least_propensity: float = 0.01) -> RankingData:
        """The data with clicks in place of labels.

        Args:
            unbiased: False: the share of sessions in which a document was clicked. True: that share divided by the
                probability that the document was looked at, whose expected value is the probability of a click on a
                document that is looked at, wherever it was shown.
            least_propensity: smaller probabilities are raised to this one, against huge labels.
        """
        rates = self.clicks.to(torch.float32).mean(0)
        if unbiased:
            rates = rates / self.propensities.clamp(min=least_propensity)
        data = self.data
        return RankingData(
            data.features, rates, data.offsets, data.query_ids, data.doc_ids, data.feature_names
        )


def simulate_clicks(
    data: RankingData,
    scores: Tensor | None = None,
    *,
    model: str = "position",
    sessions: int = 1,
    cutoff: int | None = None,
    eta: float = 1.0,
    noise: float = 0.1,
    satisfied: float = 0.9,
    patience: float = 1.0,
    max_label: float | None = None,
    seed: int = 0,
) -> Clicks:
    r"""Simulate clicks on ranked lists.

    A document of label y that is looked at is clicked with probability
    :math:`a(y) = \epsilon + (1 - \epsilon) (2^y - 1) / (2^{y_{max}} - 1)`. Who looks at what is the model's:

    - ``"position"``: rank r is looked at with probability :math:`r^{-\eta}`, independently of all else;
    - ``"cascade"``: from the top down; after a click the user stops with probability ``satisfied`` · a(y), and without
      a click goes on with probability ``patience``.

    Args:
        data: labelled queries.
        scores: ``[N]``, the scores of the ranker that showed the lists; None: they were shown in the data's order.
        model: ``"position"`` or ``"cascade"``.
        sessions: how often each list was shown.
        cutoff: how many documents of a list are shown; None: all.
        eta: how quickly attention falls with the rank.
        noise: ε, the probability of a click on a document of label 0 that is looked at.
        satisfied: see the cascade model.
        patience: see the cascade model.
        max_label: y_max; None: the largest label of the data.
        seed: the same seed gives the same clicks.

    Example:
        >>> data = RankingData(torch.zeros(3, 1), [0, 2, 1], [0, 3])
        >>> simulate_clicks(data, model="cascade", noise=0.0, seed=1).clicks
        tensor([[False,  True, False]])

    References:
        Joachims, Swaminathan and Schnabel, "Unbiased Learning-to-Rank with Biased Feedback", 2017 (position).
        Craswell et al., "An Experimental Comparison of Click Position-Bias Models", 2008 (cascade).
    """
    if model not in _MODELS:
        raise ValueError(f"model must be one of {', '.join(map(repr, _MODELS))}, got {model!r}")
    if data.labels is None:
        raise DataError("clicks are simulated from labels: the data has none")
    if sessions < 1:
        raise ValueError(f"sessions must be at least 1, got {sessions}")
    for name, value in (("noise", noise), ("satisfied", satisfied), ("patience", patience)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be a probability, got {value}")
    if not 0 <= eta < math.inf:
        raise ValueError(f"eta must be at least 0, got {eta}")
    if cutoff is not None and cutoff < 1:
        raise ValueError(f"cutoff must be at least 1, got {cutoff}")
    order, positions = _shown(data, scores)
    attraction = _attraction(data.labels.double().cpu(), noise, max_label)
    shown = positions <= (cutoff if cutoff is not None else data.documents)
    rng = np.random.default_rng(seed)
    draw = torch.from_numpy(rng.random((sessions, data.documents)))
    if model == "position":
        propensities = positions.double() ** -eta
        clicks = draw < propensities * attraction
    else:
        going_on = attraction * (1 - satisfied * attraction) + (1 - attraction) * patience
        propensities = torch.empty_like(going_on)
        propensities[order] = _products_before(going_on[order], data.offsets.cpu())
        clicked = draw < attraction
        stop_draw = torch.from_numpy(rng.random((sessions, data.documents)))
        stops = torch.where(clicked, stop_draw < satisfied * attraction, stop_draw >= patience)
        looked_at = torch.empty_like(clicked)
        looked_at[:, order] = _sums_before(stops[:, order], data.offsets.cpu()) == 0
        clicks = clicked & looked_at
    return Clicks(
        data,
        (clicks & shown).to(data.device),
        torch.where(shown, positions, 0).to(data.device),
        torch.where(shown, propensities, 0).float().to(data.device),
    )


def _attraction(labels: Tensor, noise: float, max_label: float | None) -> Tensor:
    highest = float(labels.max()) if max_label is None and labels.numel() else max_label or 0.0
    if highest > _HIGHEST_LABEL:
        raise ValueError(f"labels are grades, of gain 2^label: got a label of {highest:g}")
    if labels.numel() and float(labels.max()) > highest:
        raise ValueError(
            f"max_label must be at least the largest label, {float(labels.max()):g}, got {highest:g}"
        )
    gain = (2 ** labels.clamp(min=0) - 1) / max(2**highest - 1, 1e-12)
    return noise + (1 - noise) * gain


def _shown(data: RankingData, scores: Any) -> tuple[Tensor, Tensor]:
    """Documents in the order they were shown, query by query ``[N]``, and each document's rank from 1 ``[N]``."""
    query = data.query_index.cpu()
    if scores is None:
        order = torch.arange(data.documents)
    else:
        scores = scores if isinstance(scores, Tensor) else torch.as_tensor(np.asarray(scores))
        if scores.shape != (data.documents,):
            raise ValueError(
                f"scores must be one number a document, [{data.documents}]: got {list(scores.shape)}"
            )
        if bool(scores.isnan().any()):
            raise ValueError("scores must be numbers: got NaN")
        by_score = scores.detach().cpu().argsort(descending=True, stable=True)
        order = by_score[query[by_score].argsort(stable=True)]
    positions = torch.empty_like(order)
    positions[order] = torch.arange(data.documents) - data.offsets.cpu()[query] + 1
    return order, positions


def _sums_before(values: Tensor, offsets: Tensor) -> Tensor:
    """For each item the sum over the items before it in its list: ``[..., N]``."""
    total = torch.zeros(*values.shape[:-1], values.shape[-1] + 1, dtype=torch.int64)
    torch.cumsum(values.to(torch.int64), -1, out=total[..., 1:])
    starts = torch.repeat_interleave(offsets[:-1], offsets.diff())
    return total[..., :-1] - total[..., starts]


def _products_before(values: Tensor, offsets: Tensor) -> Tensor:
    """For each item the product over the items before it in its list: ``[N]``."""
    result = torch.ones_like(values)
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        if stop - start > 1:
            torch.cumprod(values[start : stop - 1], 0, out=result[start + 1 : stop])
    return result
