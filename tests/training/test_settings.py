"""Settings and schedules: hand-computed values, presets from the paper's table, and refusals."""

import pytest

from pirank.training import PRESETS, Settings, preset
from pirank.training.recipe import check
from pirank.training.schedules import learning_rate_factor, temperature_at


def test_schedules_by_hand():
    assert learning_rate_factor("constant", 0.7) == 1
    assert [learning_rate_factor("step", p) for p in (0.4, 0.5, 0.8)] == pytest.approx([1, 0.1, 0.01])
    assert learning_rate_factor("cosine", 0.5) == pytest.approx(0.5)
    assert learning_rate_factor("constant", 0.02, warmup=0.1) == pytest.approx(0.2)
    assert temperature_at("linear", 4.0, 2.0, 0.25) == 3.5
    assert temperature_at("cosine", 4.0, 2.0, 0.5) == pytest.approx(3.0)
    assert temperature_at("exponential", 100.0, 1.0, 1.0) == pytest.approx(1.0)
    assert temperature_at("constant", 5.0, None, 0.9) == 5.0


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_complete(name):
    settings = preset(name)
    check(settings)
    assert Settings().changed(**settings.as_dict()) == settings


def test_the_papers_numbers():
    paper = preset("paper-benchmark")
    assert (paper.batch_size, paper.learning_rate, paper.steps, paper.list_size) == (16, 1e-3, 100_000, 200)
    assert paper.loss_options == {"k": 10, "temperature": 1000.0, "straight_through": True}
    paper = preset("paper-ablation")
    assert (paper.batch_size, paper.learning_rate, paper.epochs, paper.list_size) == (16, 1e-5, 100, 100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimiser": "adam"}, "did you mean 'optimizer'"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"epochs": 0}, "epochs must be a number of at least 1"),
        ({"batch_size": True}, "batch_size"),
        ({"clip": 0.0}, "clip must be above 0"),
        ({"temperature_schedule": "linear"}, "needs temperature_end"),
        ({"precision": "bf16"}, "did you mean 'bf16-mixed'"),
        ({"capture": "of"}, "did you mean 'off'"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Settings().changed(**change)
