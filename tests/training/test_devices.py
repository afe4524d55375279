"""Precision of matrix products: as asked for while training, as it was afterwards."""

import pytest
import torch

from pirank.losses import SoftmaxLoss
from pirank.training import Settings, fit, make_fabric
from training.static_cases import network, ragged_data


@pytest.mark.parametrize("capture", ["on", "off"])
@pytest.mark.parametrize(("precision", "expected"), [("tf32", "high"), ("32-true", "highest")])
def test_tf32_holds_for_the_training_only(capture, precision, expected):
    seen = set()
    settings = Settings(epochs=1, precision=precision, capture=capture)
    fit(
        network(), SoftmaxLoss(), ragged_data(), ragged_data(seed=1), settings=settings,
        fabric=make_fabric(accelerator="cpu", precision=precision),
        report=lambda record: seen.add(torch.get_float32_matmul_precision()),
    )  # fmt: skip
    assert seen == {expected}
    assert torch.get_float32_matmul_precision() == "highest"
