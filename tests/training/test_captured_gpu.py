"""On a GPU: steps are really replayed, make the training that step by step makes, and go on where they stopped."""

import pytest
import torch

from pirank import losses
from pirank.losses import PiRankNDCGLoss, SoftmaxLoss
from pirank.models import ListAttention, get
from pirank.training import Checkpoints, Interrupted, TrainingError, fit, make_fabric, preset, scores_of
from training.static_cases import SETTINGS, Recorder, network, ragged_data, state

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a CUDA device"),
]
BATCHES = [{"list_size": 6}, {"list_size": 40}, {}, {"batch_documents": 50}]


def trained(capture, model, loss=None, settings=SETTINGS, precision="32-true", **more):
    report = Recorder()
    progress = fit(
        model, loss or PiRankNDCGLoss(k=5), ragged_data(), ragged_data(seed=1),
        settings=settings.changed(capture=capture, precision=precision), report=report,
        fabric=make_fabric(accelerator="cuda", precision=precision), **more,
    )  # fmt: skip
    return progress, report


def assert_same(settings=SETTINGS, make=network, loss=None, atol=2e-5, rtol=1e-3, precision="32-true"):
    models = make(), make()
    for capture, model in zip(("off", "on"), models, strict=True):
        _, report = trained(capture, model, loss, settings, precision)
        assert [record["captured"] for record in report.of("strategy")] == [capture == "on"]
    torch.testing.assert_close(state(models[1]), state(models[0]), atol=atol, rtol=rtol)


@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize("normalisation", ["none", "batch", "layer"])
def test_a_captured_training_is_the_same_training(batches, normalisation):
    assert_same(SETTINGS.changed(**batches), lambda: network(normalisation))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_rates_clipping_and_every_optimiser(optimizer):
    settings = SETTINGS.changed(optimizer=optimizer, schedule="cosine", warmup=0.2, clip=0.05)
    assert_same(settings, loss=losses.get("mse"), atol=1e-4)


@pytest.mark.parametrize("name", losses.names())
def test_every_loss_is_captured(name):
    assert_same(SETTINGS.changed(epochs=2, learning_rate=0.005), loss=losses.get(name), atol=1e-4)


@pytest.mark.parametrize("precision", ["tf32", "bf16-mixed"])
def test_lower_precisions(precision):
    assert_same(make=lambda: network("batch"), precision=precision, atol=0.05, rtol=0.1)


def test_a_gpu_and_a_cpu_see_the_same_lists():
    settings = SETTINGS.changed(list_size=6)
    models = network(), network()
    trained("on", models[0], settings=settings)
    fit(models[1], PiRankNDCGLoss(k=5), ragged_data(), ragged_data(seed=1), settings=settings)
    torch.testing.assert_close(state(models[0]), state(models[1]), atol=2e-4, rtol=1e-2)


@pytest.mark.parametrize("then", ["on", "off"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_stopped_it_goes_on(tmp_path, monkeypatch, then, dropout):
    monkeypatch.setattr("pirank.training.captured.SECONDS_BETWEEN_LOOKS", 0.0)
    settings = SETTINGS.changed(list_size=6, optimizer="adam")
    whole, parts, steps = network("layer", dropout=dropout), network("layer", dropout=dropout), []
    expected, _ = trained("on", whole, losses.get("mse"), settings)

    def stop():
        steps.append(1)
        return len(steps) == 6

    path = tmp_path / "state.safetensors"
    with pytest.raises(Interrupted, match="step 6 of 12"):
        trained("on", parts, losses.get("mse"), settings, checkpoints=Checkpoints(path), stop=stop)
    parts = network("layer", seed=5, dropout=dropout)
    found, _ = trained(then, parts, losses.get("mse"), settings, checkpoints=Checkpoints(path), resume=True)
    assert (found.step, found.documents) == (expected.step, expected.documents)
    if then == "on" or not dropout:  # step by step draws other elements to drop
        torch.testing.assert_close(state(parts), state(whole), atol=5e-4, rtol=1e-2)


def test_a_number_that_is_not_finite_is_found_at_its_step():
    settings = SETTINGS.changed(learning_rate=1e30, warmup=0.0, schedule="constant")
    with pytest.raises(TrainingError, match=r"(scores are|loss is|gradient is) (inf|nan) at step \d+"):
        trained("on", network(), settings=settings)


def test_dropout_differs_from_step_to_step():
    model = network(dropout=0.5)
    before = state(model)
    _, report = trained("on", model, SoftmaxLoss(), SETTINGS.changed(learning_rate=0.0, batch_size=30))
    assert torch.equal(state(model), before)
    seen = [record["loss"] for record in report.of("validation")]
    assert len(set(seen)) == len(seen) == 3


def test_auto_captures_or_says_why_not():
    _, report = trained("auto", network())
    assert report.of("strategy")[0]["captured"]
    _, report = trained("auto", ListAttention(4, width=4))
    assert not report.of("strategy")[0]["captured"]
    assert "may look across documents" in report.of("strategy")[0]["why"]


def test_a_loss_that_waits_for_the_device_is_trained_step_by_step():
    class Waiting(PiRankNDCGLoss):
        def forward(self, scores, labels, **batch):
            return super().forward(scores, labels, **batch) * (1.0 if float(labels.sum()) >= 0 else 0.0)

    models = network(), network()
    _, report = trained("auto", models[0], Waiting(k=5))
    assert "cannot be captured" in report.of("strategy")[0]["why"]
    trained("off", models[1])
    torch.testing.assert_close(state(models[0]), state(models[1]), atol=2e-5, rtol=1e-3)


def test_the_papers_training_is_captured():
    train = ragged_data(queries=60, features=8)
    settings = preset("paper-benchmark").changed(steps=12, validate_every=5, capture="on", precision="tf32")
    model, report = get(settings.model, 8), Recorder()
    loss = losses.get(settings.loss, **settings.loss_options)
    progress = fit(
        model, loss, train, train, settings=settings, report=report, fabric=make_fabric(accelerator="cuda")
    )
    assert progress.step == 12
    assert [record["step"] for record in report.of("validation")] == [5, 10, 12]
    assert scores_of(model, train, on_device=True).device.type == "cuda"
    assert scores_of(model, train).device.type == "cpu"
