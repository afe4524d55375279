"""Losses that work in blocks, against their definitions written out over all pairs."""

import pytest
import torch
from torch.nn.functional import softplus

from pirank import losses
from pirank.losses import blocked
from pirank.sorts.naive import naive_neural_sort

DTYPE = torch.float64


@pytest.fixture(params=[1, 64, 1 << 18], ids=["row-by-row", "some-rows", "one-block"])
def blocks(request, monkeypatch):
    """Blocks of one row, of a few rows, and the whole list as one block; how many there were."""
    monkeypatch.setattr(blocked, "_CPU_BLOCK", request.param)
    return request.param


def lists(tied_scores, tied_labels, length=9, count=4):
    generator = torch.Generator().manual_seed(length)
    scores = torch.randn(count, length, generator=generator, dtype=DTYPE)
    labels = torch.rand(count, length, generator=generator, dtype=DTYPE) * 4
    if tied_scores:
        scores = scores.round() * 0.7  # not at the hinge's kink
    if tied_labels:
        labels = labels.round()
    labels[:, 0] = 3
    mask = torch.rand(count, length, generator=generator) < 0.8
    mask[:, 0] = True
    return scores, labels, mask


def ranking(scores, mask):
    keys = scores.masked_fill(~mask, float("-inf"))
    above = (keys[:, None, :] > keys[:, :, None]).sum(-1)
    position = torch.arange(scores.shape[-1])
    tied_before = ((keys[:, None, :] == keys[:, :, None]) & (position < position[:, None])).sum(-1)
    return above + tied_before + 1


def naive_pairs(scores, labels, mask, penalty, weight=1.0):
    better = (labels[:, :, None] > labels[:, None, :]) & mask[:, :, None] & mask[:, None, :]
    cost = penalty(scores[:, :, None] - scores[:, None, :]) * weight
    return torch.where(better, cost, 0).sum((1, 2))


def pairwise(values):
    return (values[:, :, None] - values[:, None, :]).abs()


def naive_lambdarank(scores, labels, mask, k, metric):
    """The change of the metric for each pair, by making the swap and taking the metric anew."""
    ranks = ranking(scores, mask)
    weight = torch.zeros(*scores.shape, scores.shape[-1], dtype=DTYPE)
    for i in range(scores.shape[-1]):
        for j in range(scores.shape[-1]):
            swapped = ranks.clone()
            swapped[:, i], swapped[:, j] = ranks[:, j], ranks[:, i]
            change = metric_at(swapped, labels, mask, k, metric) - metric_at(ranks, labels, mask, k, metric)
            weight[:, i, j] = change.abs()
    return naive_pairs(scores, labels, mask, lambda margin: softplus(-margin), weight)


def metric_at(ranks, labels, mask, k, metric):
    labels = labels * mask
    seen = ranks <= k if k else torch.ones_like(mask)
    if metric == "arp":
        return (labels * ranks).sum(-1) / labels.sum(-1)
    if metric == "precision":
        return ((labels > 0) & seen).sum(-1).double() / k
    if metric == "recall":
        return ((labels > 0) & seen).sum(-1).double() / (labels > 0).sum(-1)
    if metric == "rbp":
        return torch.where((labels > 0) & seen, 0.2 * 0.8 ** (ranks.double() - 1), 0).sum(-1)
    if metric == "ap":
        above = ((ranks[:, None, :] <= ranks[:, :, None]) & (labels > 0)[:, None, :]).sum(-1) / ranks.double()
        relevant = labels > 0
        return torch.where(relevant & seen, above, 0).sum(-1) / relevant.sum(-1)
    if metric == "mrr":
        return torch.where((labels > 0) & seen, 1 / ranks.double(), 0).amax(-1)
    discount = torch.where(seen, 1 / torch.log2(1 + ranks.double()), 0)
    dcg = ((2**labels - 1) * discount).sum(-1)
    if metric == "dcg":
        return dcg
    best = (2**labels - 1).sort(-1, descending=True).values[:, : k or None]
    return dcg / (best / torch.log2(torch.arange(2, best.shape[-1] + 2, dtype=DTYPE))).sum(-1)


def naive_lambdaloss(scores, labels, mask, k, mu, plus_plus):
    labels = labels * mask
    ranks = ranking(scores, mask).double()
    best = (2**labels - 1).sort(-1, descending=True).values[:, : k or None]
    ideal = (best / torch.log2(torch.arange(2, best.shape[-1] + 2, dtype=DTYPE))).sum(-1)
    gains = (2**labels - 1) / ideal[:, None]

    def discount(rank):
        return 1 / torch.log2(1 + rank)

    apart = pairwise(ranks)
    weight = torch.where(apart > 0, discount(apart) - discount(apart + 1), 0)
    if k is not None:
        lower = torch.maximum(ranks[:, :, None], ranks[:, None, :])
        weight = torch.where(lower > k, weight / (1 - discount(lower)), weight)
    if plus_plus:
        weight = mu * weight + pairwise(torch.where(ranks <= k, discount(ranks), 0) if k else discount(ranks))
    return naive_pairs(
        scores,
        labels,
        mask,
        lambda margin: softplus(-margin),
        torch.where(apart > 0, weight, 0) * pairwise(gains),
    )


def naive_ranks(scores, mask, temperature):
    above = torch.sigmoid((scores[:, None, :] - scores[:, :, None]) / temperature)
    others = mask[:, None, :] & ~torch.eye(scores.shape[-1], dtype=torch.bool)
    return 1 + torch.where(others, above, 0).sum(-1)


def naive_approx_ndcg(scores, labels, mask, temperature):
    gains = (2 ** (labels * mask)) - 1
    best = gains.sort(-1, descending=True).values
    ideal = (best / torch.log2(torch.arange(2, best.shape[-1] + 2, dtype=DTYPE))).sum(-1)
    return 1 - (gains / torch.log2(1 + naive_ranks(scores, mask, temperature))).sum(-1) / ideal


def naive_approx_mrr(scores, labels, mask, temperature, over):
    labels = labels * mask
    reciprocal = 1 / naive_ranks(scores, mask, temperature)
    if over == "first":
        return 1 - torch.where(labels > 0, reciprocal, 0).amax(-1)
    return 1 - (labels * reciprocal).sum(-1) / labels.sum(-1)


def by_list(function):
    """A function of one list without padding, for a batch with a mask."""

    def of_batch(scores, labels, mask):
        return torch.stack([function(s[m], y[m]) for s, y, m in zip(scores, labels, mask, strict=True)])

    return of_batch


def naive_neuralsort(scores, labels, temperature, label_temperature):
    wanted = naive_neural_sort(labels, 1e-9 if label_temperature is None else label_temperature)
    return -(wanted * naive_neural_sort(scores, temperature).log()).sum() / scores.shape[-1]


def naive_neural_ndcg(scores, labels, temperature, k, iterations):
    matrix = naive_neural_sort(scores, temperature)
    for _ in range(iterations):
        matrix = matrix / matrix.sum(0)
        matrix = matrix / matrix.sum(1, keepdim=True)
    gains = 2**labels - 1
    discount = (1 / torch.log2(torch.arange(2, len(scores) + 2, dtype=DTYPE)))[:k]
    best = gains.sort(descending=True).values[:k]
    return 1 - ((matrix @ gains)[:k] @ discount) / (best @ discount)


def hinge(margin):
    return (1 - margin).clamp(min=0)


LAMBDAS = [("ndcg", None), ("ndcg", 3), ("ndcg", 50), ("dcg", 3), ("mrr", None), ("mrr", 3)]
LAMBDAS += [("precision", 3), ("ap", None), ("ap", 3), ("recall", 3), ("rbp", None), ("arp", None)]
CASES = {
    "ranknet": (losses.ranknet_loss, {}, lambda s, y, m: naive_pairs(s, y, m, lambda x: softplus(-x))),
    "hinge": (losses.pairwise_hinge_loss, {}, lambda s, y, m: naive_pairs(s, y, m, hinge)),
    **{
        f"lambdarank-{metric}-{k}": (
            losses.lambdarank_loss,
            {"metric": metric, "k": k},
            lambda s, y, m, k=k, metric=metric: naive_lambdarank(s, y, m, k, metric),
        )
        for metric, k in LAMBDAS
    },
    **{
        f"lambdaloss-{scheme}-{k}": (
            losses.lambdaloss,
            {"scheme": scheme, "k": k, "mu": 3.0},
            lambda s, y, m, k=k, scheme=scheme: naive_lambdaloss(s, y, m, k, 3.0, scheme == "ndcg2++"),
        )
        for scheme in ("ndcg2", "ndcg2++")
        for k in (None, 3)
    },
    "approx-ndcg": (
        losses.approx_ndcg_loss,
        {"temperature": 0.3},
        lambda s, y, m: naive_approx_ndcg(s, y, m, 0.3),
    ),
    **{
        f"approx-mrr-{over}": (
            losses.approx_mrr_loss,
            {"temperature": 0.3, "over": over},
            lambda s, y, m, over=over: naive_approx_mrr(s, y, m, 0.3, over),
        )
        for over in ("first", "mean")
    },
    **{
        f"neuralsort-{temperature}-{sharp}": (
            losses.neuralsort_loss,
            {"temperature": temperature, "label_temperature": sharp},
            by_list(lambda s, y, t=temperature, sharp=sharp: naive_neuralsort(s, y, t, sharp)),
        )
        for temperature in (0.5, 5.0)
        for sharp in (None, 1.0)
    },
    **{
        f"neural-ndcg-{k}-{iterations}-{transposed}": (
            losses.neural_ndcg_loss,
            {"k": k, "max_iterations": iterations, "tolerance": 0.0, "transposed": transposed},
            by_list(lambda s, y, k=k, iterations=iterations: naive_neural_ndcg(s, y, 1.0, k, iterations)),
        )
        for k in (None, 3)
        for iterations, transposed in [(1, False), (5, True)]
    },
}


@pytest.mark.parametrize(
    ("tied_scores", "tied_labels"), [(False, False), (True, False), (False, True), (True, True)]
)
@pytest.mark.parametrize("case", CASES)
def test_value_and_gradient_are_those_of_the_definition(case, tied_scores, tied_labels, blocks):
    loss, options, naive = CASES[case]
    scores, labels, mask = lists(tied_scores, tied_labels)
    scores.requires_grad_()
    value = loss(scores, labels, mask=mask, reduction="none", **options)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    expected = naive(scores, labels, mask)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), scores)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("loss", [losses.ranknet_loss, losses.pairwise_hinge_loss])
def test_the_average_is_over_the_pairs_with_different_labels(loss):
    scores, labels, mask = lists(tied_scores=False, tied_labels=True)
    pairs = naive_pairs(scores, labels, mask, torch.ones_like)
    total = loss(scores, labels, mask=mask, reduction="none")
    average = loss(scores, labels, mask=mask, reduction="none", average_pairs=True)
    torch.testing.assert_close(average, total / pairs)
    # Labels that are not contiguous in memory, and a list with a single label: no pair, no loss.
    shared = torch.tensor([2.0, 0.0, 1.0], dtype=DTYPE).expand(4, 3)
    torch.testing.assert_close(
        loss(scores[:, :3], shared, average_pairs=True),
        loss(scores[:, :3], shared.clone(), average_pairs=True),
    )
    assert loss(scores[0], torch.ones(9, dtype=DTYPE), average_pairs=True) == 0


def test_blocks_cover_every_row_once(blocks):
    scores = torch.zeros(2, 100)
    covered = [row for start, stop in blocked.row_blocks(scores, 37) for row in range(start, stop)]
    assert covered == list(range(37))
    assert len(list(blocked.row_blocks(scores, 37))) == {1: 37, 64: 37, 1 << 18: 1}[blocks]


def test_only_columns_with_weight_are_visited():
    from pirank.losses.neural_rows import NeuralRows

    # Ten well separated groups of a hundred close items: no row sees another group.
    scores = (torch.arange(10.0)[:, None] * 1000 + 1e-4 * torch.arange(100.0)).reshape(1, 1000).double()
    seen = [rows.columns.stop - rows.columns.start for rows in NeuralRows(scores, None, 1.0).blocks()]
    assert max(seen) < 1000
    matrix = torch.zeros(1000, 1000, dtype=DTYPE)
    for rows in NeuralRows(scores, None, 1.0).blocks():
        matrix[rows.rows, rows.columns] = rows.weights[0]
    expected = naive_neural_sort(scores[0], 1.0).flip(-1)  # items rise
    torch.testing.assert_close(matrix, expected, atol=1e-7, rtol=0)
