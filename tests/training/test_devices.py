"""Precision of matrix products: rounded in the network while training, exact in the loss and afterwards."""

import pytest
import torch

from pirank.losses import PiRankNDCGLoss
from pirank.models import MLP
from pirank.training import Settings, fit, make_fabric
from training.static_cases import ragged_data


class Watch(torch.autograd.Function):
    """Writes down how exact matrix products are where it stands, on the way there and on the way back."""

    @staticmethod
    def forward(ctx, values, name, seen):
        ctx.name, ctx.seen = name, seen
        seen.add((name, torch.get_float32_matmul_precision()))
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.seen.add((ctx.name + " on the way back", torch.get_float32_matmul_precision()))
        return gradient, None, None


@pytest.mark.parametrize("capture", ["on", "off"])
@pytest.mark.parametrize(("precision", "expected"), [("tf32", "high"), ("32-true", "highest")])
def test_tf32_holds_for_the_network_only(capture, precision, expected):
    seen = set()

    class Network(MLP):
        row_by_row = True

        def forward(self, features, offsets=None):
            return Watch.apply(super().forward(features), "network", seen)

    class Loss(PiRankNDCGLoss):
        def forward(self, scores, labels, **batch):
            return super().forward(Watch.apply(scores, "loss", seen), labels, **batch)

    fit(
        Network(4, hidden=(8,)), Loss(), ragged_data(), ragged_data(seed=1),
        settings=Settings(epochs=1, precision=precision, capture=capture),
        fabric=make_fabric(accelerator="cpu", precision=precision),
        report=lambda record: seen.add(("outside", torch.get_float32_matmul_precision())),
    )  # fmt: skip
    assert seen == {
        ("network", expected), ("network on the way back", expected),
        ("loss", "highest"), ("loss on the way back", "highest"), ("outside", "highest"),
    }  # fmt: skip
    assert torch.get_float32_matmul_precision() == "highest"
