"""The two random options: Gumbel noise on the scores, and a drawn order of tied labels."""

from itertools import permutations

import pytest
import torch

from pirank import losses

SCORES = torch.tensor([0.3, -0.2, 0.9, 0.1, -1.0], dtype=torch.float64)
LABELS = torch.tensor([1.0, 0.0, 1.0, 2.0, 1.0], dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("loss", [losses.approx_ndcg_loss, losses.approx_mrr_loss])
def test_gumbel_noise(loss):
    plain = loss(SCORES, LABELS, temperature=1.0)
    noisy = [
        loss(SCORES, LABELS, temperature=1.0, gumbel_samples=3, generator=generator(seed))
        for seed in (0, 0, 1)
    ]
    assert noisy[0] == noisy[1] != noisy[2] != plain
    without = loss(SCORES, LABELS, temperature=1.0, gumbel_samples=3, gumbel_scale=0.0)
    torch.testing.assert_close(without, plain)


def test_gumbel_draws_are_averaged():
    each = generator()
    single = [losses.approx_ndcg_loss(SCORES, LABELS, gumbel_samples=1, generator=each) for _ in range(4)]
    together = losses.approx_ndcg_loss(SCORES, LABELS, gumbel_samples=4, generator=generator())
    torch.testing.assert_close(torch.stack(single).mean(), together)


def test_gumbel_noise_on_scores_draws_orders_with_plackett_luce():
    # With two items the first wins with probability σ(s_1 − s_2), and a sharp ApproxMRR is 0 then, ½ else.
    scores, labels = (
        torch.tensor([[1.0, 0.0]]).expand(20_000, 2),
        torch.tensor([[1.0, 0.0]]).expand(20_000, 2),
    )
    value = losses.approx_mrr_loss(scores, labels, temperature=1e-4, gumbel_samples=1, generator=generator())
    assert value.item() == pytest.approx(0.5 * (1 - torch.sigmoid(torch.tensor(1.0)).item()), abs=0.01)


@pytest.mark.parametrize("loss", [losses.listmle_loss, losses.position_aware_listmle_loss])
def test_shuffled_ties_draw_every_order_of_the_tied_items_and_no_other(loss):
    tied = [0, 2, 4]
    possible = set()
    for order in permutations(tied):
        items = torch.tensor([3, *order, 1])
        distinct = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0], dtype=torch.float64)
        possible.add(round(loss(SCORES[items], distinct).item(), 9))
    drawn = generator()
    seen = {round(loss(SCORES, LABELS, ties="shuffle", generator=drawn).item(), 9) for _ in range(100)}
    assert seen == possible
    by_input = loss(SCORES, LABELS).item()
    in_order = loss(
        SCORES[[3, 0, 2, 4, 1]], torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    ).item()
    assert by_input == pytest.approx(in_order)


def test_a_seed_repeats_the_shuffle():
    values = [
        losses.listmle_loss(SCORES, LABELS, ties="shuffle", generator=generator(5)).item() for _ in range(2)
    ]
    assert values[0] == values[1]


def test_shuffling_leaves_absent_items_out():
    mask = torch.tensor([True, True, False, True, True])
    scores = SCORES.clone()
    scores[2] = float("nan")
    value = losses.listmle_loss(scores, LABELS, mask=mask, ties="shuffle", generator=generator())
    kept = {
        round(
            losses.listmle_loss(SCORES[mask], LABELS[mask], ties="shuffle", generator=generator(i)).item(), 9
        )
        for i in range(20)
    }
    assert round(value.item(), 9) in kept
