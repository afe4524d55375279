"""Batch normalisation over the rows that are there: PyTorch's on those rows, whatever the padding holds."""

import pytest
import torch
from torch import nn

from pirank.models import MLP, BatchNorm, ListAttention
from pirank.models.alone import why_not_alone
from pirank.models.normalisation import real_rows

WIDTH, ROWS, PADDING = 5, 9, 4


def pair(**options):
    generator = torch.Generator().manual_seed(0)
    ours, theirs = BatchNorm(WIDTH, **options), nn.BatchNorm1d(WIDTH, **options)
    if options.get("affine", True):
        with torch.no_grad():
            ours.weight.uniform_(0.5, 2.0, generator=generator)
            ours.bias.normal_(generator=generator)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize(
    "options", [{}, {"momentum": None}, {"momentum": 0.3, "eps": 0.1}, {"affine": False}]
)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_it_is_pytorchs_on_the_real_rows(options, offset):
    ours, theirs = pair(**options)
    generator = torch.Generator().manual_seed(1)
    real = torch.ones(ROWS + PADDING, 1)
    real[[0, 3, 4, 12]] = 0
    there = real[:, 0] > 0
    for _ in range(3):
        rows = torch.randn(ROWS + PADDING, WIDTH, generator=generator) + offset
        upstream = torch.randn(ROWS + PADDING, WIDTH, generator=generator)
        rows[~there] *= 100
        upstream[~there] = 0
        a, b = rows.clone().requires_grad_(), rows[there].clone().requires_grad_()
        with real_rows(ours, real):
            out = ours(a)
        expected = theirs(b)
        torch.testing.assert_close(out[there], expected, atol=2e-4 if offset else 1e-5, rtol=1e-4)
        ours.zero_grad()
        theirs.zero_grad()
        out.backward(upstream)
        expected.backward(upstream[there])
        tolerance = {"atol": 1e-3 if offset else 1e-5, "rtol": 1e-3 if offset else 1e-4}
        torch.testing.assert_close(a.grad[there], b.grad, **tolerance)
        assert not a.grad[~there].any()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, other.grad, **tolerance)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, atol=1e-5, rtol=1e-4)


def test_it_is_pytorchs_exactly_outside_and_in_evaluation():
    ours, theirs = pair()
    rows = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2))
    assert torch.equal(ours(rows), theirs(rows))
    ours.eval()
    theirs.eval()
    with real_rows(ours, torch.ones(ROWS, 1)):
        assert torch.equal(ours(rows), theirs(rows))
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_half_precision_takes_statistics_in_float32():
    ours, _ = pair()
    rows = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(3)) * 3 + 7
    with real_rows(ours, torch.ones(ROWS, 1)):
        whole, half = ours(rows.bfloat16().float()), ours(rows.bfloat16())
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, whole.bfloat16())


def test_networks_that_look_across_documents_are_known():
    assert why_not_alone(MLP(3, normalisation="batch", residual=True)) is None
    assert why_not_alone(MLP(3, normalisation="layer", activation="silu")) is None
    assert "ListAttention may look across" in why_not_alone(ListAttention(3))
    assert "use pirank.models.BatchNorm" in why_not_alone(nn.Sequential(nn.BatchNorm1d(3)))

    class Changed(MLP):
        def forward(self, features, offsets=None):
            return super().forward(features) - features.mean()

    assert "Changed may look" in why_not_alone(Changed(3))
