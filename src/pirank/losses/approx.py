"""Metrics of smooth ranks: an item's rank as a sum of sigmoids of score differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pirank.lists import check_choice
from pirank.losses.base import ListLoss, list_loss
from pirank.losses.blocked import most, row_blocks
from pirank.metrics.ndcg import NDCG
from pirank.sorts.base import check_temperature


def approx_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    temperature: float = 0.1,
    gumbel_samples: int = 0,
    gumbel_scale: float = 1.0,
    generator: torch.Generator | None = None,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""ApproxNDCG, 1 − NDCG of smooth ranks.

    .. math::
        \ell(s, y) = 1 - \frac{1}{\mathrm{maxDCG}(y)} \sum_i \frac{2^{y_i} - 1}{\log_2(1 + \hat r_i)}, \qquad
        \hat r_i = 1 + \sum_{j \ne i} \sigma\!\left(\frac{s_j - s_i}{\tau}\right)

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        temperature: τ, how soft the ranks are; above 0.
        gumbel_samples: 0, or how many times to add Gumbel noise to the scores; the loss is the average.
        gumbel_scale: what to multiply the noise by.
        generator: where the noise is drawn from; None: PyTorch's default generator.

    Example:
        >>> approx_ndcg_loss(torch.tensor([0.0, 1.0, -1.0]), torch.tensor([0.0, 0.0, 1.0]), temperature=1.0)
        tensor(0.4603)

    References:
        Qin, Liu, Li: A general approximation framework for direct optimization of information retrieval
        measures, 2010.
        Bruch, Zoghi, Bendersky, Najork: Revisiting approximate metric optimization in the age of deep neural
        networks, SIGIR 2019.
        Bruch, Han, Bendersky, Najork: A stochastic treatment of learning to rank scoring functions, WSDM
        2020.
    """
    check_temperature(temperature)

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        ndcg = NDCG()
        gains = ndcg.item_values(labels)
        ideal = ndcg.normaliser(gains, mask)
        ranks, gains = ranks_of_relevant(scores, gains, mask, temperature)
        return 1 - (gains / torch.log2(1 + ranks)).sum(-1) / torch.where(ideal > 0, ideal, 1)

    return with_gumbel_noise(
        lambda noisy: list_loss(
            per_list, noisy, labels,
            mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
        ),
        scores, gumbel_samples, gumbel_scale, generator,
    )  # fmt: skip


def approx_mrr_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    temperature: float = 0.1,
    over: str = "first",
    gumbel_samples: int = 0,
    gumbel_scale: float = 1.0,
    generator: torch.Generator | None = None,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""ApproxMRR, 1 − reciprocal rank, with smooth ranks.

    .. math::
        \ell(s, y) = 1 - \max_{i: y_i > 0} \frac{1}{\hat r_i}, \qquad
        \hat r_i = 1 + \sum_{j \ne i} \sigma\!\left(\frac{s_j - s_i}{\tau}\right)

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        temperature: τ, how soft the ranks are; above 0.
        over: ``"first"``: the first relevant item counts, as in the metric and in Rax; ``"mean"``: the mean
            of 1/rank over the items weighted by their labels, as in TF-Ranking.
        gumbel_samples: 0, or how many times to add Gumbel noise to the scores; the loss is the average.
        gumbel_scale: what to multiply the noise by.
        generator: where the noise is drawn from; None: PyTorch's default generator.

    Example:
        >>> approx_mrr_loss(torch.tensor([0.0, 1.0, -1.0]), torch.tensor([0.0, 0.0, 1.0]), temperature=1.0)
        tensor(0.6171)

    References:
        Qin, Liu, Li: A general approximation framework for direct optimization of information retrieval
        measures, 2010.
    """
    check_temperature(temperature)
    check_choice("over", over, ("first", "mean"))

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        ranks, labels = ranks_of_relevant(scores, labels, mask, temperature)
        if over == "first":
            if ranks.shape[-1] == 0:
                return 1 - ranks.sum(-1)
            return 1 - (ranks.reciprocal() * (labels > 0)).amax(-1)
        total = labels.sum(-1)
        return 1 - (labels / ranks).sum(-1) / torch.where(total > 0, total, 1)

    return with_gumbel_noise(
        lambda noisy: list_loss(
            per_list, noisy, labels,
            mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
        ),
        scores, gumbel_samples, gumbel_scale, generator,
    )  # fmt: skip


class ApproxNDCGLoss(ListLoss, function=approx_ndcg_loss):
    """:func:`approx_ndcg_loss` as a module."""


class ApproxMRRLoss(ListLoss, function=approx_mrr_loss):
    """:func:`approx_mrr_loss` as a module."""


def with_gumbel_noise(
    loss: Callable[[Tensor], Tensor],
    scores: Tensor,
    samples: int,
    scale: float,
    generator: torch.Generator | None,
) -> Tensor:
    """The loss, averaged over draws of Gumbel noise for the scores; without noise if there are no draws."""
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 0:
        raise ValueError(f"gumbel_samples must be a whole number of at least 0, got {samples!r}")
    if not 0 <= scale < float("inf"):
        raise ValueError(f"gumbel_scale must be a finite number of at least 0, got {scale!r}")
    if samples == 0:
        return loss(scores)
    total: Tensor | None = None
    for _ in range(samples):
        # −log E is Gumbel for E exponential.
        noise = -torch.empty_like(scores).exponential_(generator=generator).log()
        value = loss(scores + scale * noise)
        total = value if total is None else total + value
    assert total is not None
    return total / samples


def ranks_of_relevant(
    scores: Tensor, values: Tensor, mask: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor]:
    """The smooth ranks of the items with a value above 0, and those values, ``[B, R]`` each.

    R is the most of any list; lists with fewer are filled up with items of value 0.
    """
    order = values.argsort(dim=-1, descending=True, stable=True)
    order = order[:, : most((values > 0).sum(-1), values.shape[-1])]
    others = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    ranks: Tensor = _SmoothRanks.apply(scores.gather(-1, order), others, temperature)
    return ranks, values.gather(-1, order)


class _SmoothRanks(torch.autograd.Function):
    """½ + Σ_j σ((s_j − s_i)/τ) for some items i among all items j, the item itself giving the other ½."""

    @staticmethod
    def forward(items: Tensor, others: Tensor, temperature: float) -> Tensor:
        ranks = torch.empty_like(items)
        for start, stop in row_blocks(others, items.shape[-1]):
            ranks[:, start:stop] = _above(items[:, start:stop], others, temperature).sum(-1) + 0.5
        return ranks

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.temperature = inputs[2]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        items, others = ctx.saved_tensors
        of_items, of_others = torch.empty_like(items), torch.zeros_like(others)
        for start, stop in row_blocks(others, items.shape[-1]):
            above = _above(items[:, start:stop], others, ctx.temperature)
            # σ′ = σ(1 − σ)
            slope = above * (1 - above) * (upstream[:, start:stop, None] / ctx.temperature)
            of_items[:, start:stop] = -slope.sum(2)
            of_others += slope.sum(1)
        return of_items, of_others, None


def _above(items: Tensor, others: Tensor, temperature: float) -> Tensor:
    return torch.sigmoid((others[:, None, :] - items[:, :, None]) / temperature)
