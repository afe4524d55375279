"""The ordinal loss of a network with one output for each level."""

import pytest
import torch

from pirank import losses


def batch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 5, (3, 5), generator=generator).double()
    labels[:, 0] = 2
    return logits, labels


def test_one_logit_a_level_is_binary_cross_entropy_a_level():
    logits, labels = batch()
    expected = torch.zeros(3, dtype=torch.float64)
    for level in range(1, 5):
        reached = (labels >= level).double()
        chance = torch.sigmoid(logits[..., level - 1])
        expected -= (reached * chance.log() + (1 - reached) * (1 - chance).log()).mean(-1)
    torch.testing.assert_close(losses.ordinal_loss(logits, labels, reduction="none"), expected)


def test_one_score_an_item_is_the_case_of_fixed_thresholds():
    logits, labels = batch()
    scores = logits[..., 0]
    thresholds = torch.tensor([0.5, 1.5, 2.5, 3.5], dtype=torch.float64)
    torch.testing.assert_close(
        losses.ordinal_loss(scores, labels), losses.ordinal_loss(scores[..., None] - thresholds, labels)
    )


def test_layouts_blank_lists_and_absent_items():
    logits, labels = batch()
    labels[1] = 0
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[2, 3:] = False
    logits[2, 3:] = float("nan")
    logits.requires_grad_()
    each = losses.ordinal_loss(logits, labels, mask=mask, reduction="none")
    (gradient,) = torch.autograd.grad(each.sum(), logits)
    assert each[1] == 0
    assert (gradient[1] == 0).all()
    assert (gradient[2, 3:] == 0).all()
    assert gradient.isfinite().all()
    flat = losses.ordinal_loss(
        logits[mask], labels[mask], offsets=torch.tensor([0, 5, 10, 13]), reduction="none"
    )
    torch.testing.assert_close(flat, each)
    assert torch.autograd.gradcheck(
        lambda x: losses.ordinal_loss(x, labels[:2]), logits[:2].detach().requires_grad_()
    )


def test_the_number_of_levels_must_fit():
    logits, labels = batch()
    with pytest.raises(ValueError, match=r"one for each of 3 levels, \[3, 5, 3\]: got \[3, 5, 4\]"):
        losses.ordinal_loss(logits, labels, levels=3)
