"""The training loop: it learns, keeps the best, repeats itself, goes on bit for bit, and stops with a reason."""

import pytest
import torch
from safetensors.torch import save_file

from pirank import metrics
from pirank.data import RankingData, synthetic
from pirank.losses import PiRankNDCGLoss, SoftmaxLoss
from pirank.models import MLP
from pirank.training import Checkpoints, Interrupted, Settings, TrainingError, fit, make_fabric, scores_of
from pirank.training.checkpoint import read_checkpoint


def linear_data(queries=40, seed=0, features=4):
    """Queries whose labels follow the first feature, so that there is something to learn."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 12, (queries,), generator=generator)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    X = torch.randn(int(offsets[-1]), features, generator=generator)
    return RankingData(X, (X[:, 0] * 1.5).round().clamp(0, 4), offsets)


def network(seed=0, dropout=0.2):
    torch.manual_seed(seed)
    return MLP(4, hidden=(16,), dropout=dropout)


SETTINGS = Settings(epochs=4, batch_size=8, patience=None, learning_rate=0.01, checkpoint_seconds=0.0)


def ndcg(model, data):
    return float(metrics.NDCG(k=10)(scores_of(model, data), data.labels, offsets=data.offsets))


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_it_learns_and_keeps_the_best_weights():
    train, valid, model = linear_data(), linear_data(seed=1), network()
    before = ndcg(model, valid)
    records = []
    progress = fit(
        model, PiRankNDCGLoss(temperature=1.0), train, valid, settings=SETTINGS, report=records.append
    )
    validations = [r for r in records if r["event"] == "validation"]
    assert len(validations) == 4
    assert progress.step == 4 * 5
    assert progress.best == max(r["ndcg@10"] for r in validations)
    assert ndcg(model, valid) == pytest.approx(progress.best, abs=1e-6)
    assert progress.best > before + 0.1


def test_the_same_seed_gives_the_same_weights_and_another_one_others():
    def trained(seed):
        model = network()
        fit(model, SoftmaxLoss(), linear_data(), settings=SETTINGS.changed(seed=seed))
        return weights(model)

    assert torch.equal(trained(1), trained(1))
    assert not torch.equal(trained(1), trained(2))


# In two tests below the last weight, the bias of the score, is left out: the losses do not depend on it, and Adam
# makes steps of the rounding of its gradient.


def test_accumulated_batches_make_the_step_of_one_large_batch():
    data = linear_data(queries=32)
    data.labels[: int(data.offsets[5])] = 0  # blank lists spread unevenly over the batches
    models = network(dropout=0.0), network(dropout=0.0)
    settings = SETTINGS.changed(clip=None)
    fit(models[0], SoftmaxLoss(), data, settings=settings.changed(batch_size=16))
    fit(models[1], SoftmaxLoss(), data, settings=settings.changed(batch_size=4, accumulate=4))
    torch.testing.assert_close(weights(models[0])[:-1], weights(models[1])[:-1], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("stop_at", [1, 7, 10, 19])
@pytest.mark.parametrize("list_size", [None, 5])
def test_stopped_anywhere_it_goes_on_bit_for_bit(tmp_path, stop_at, list_size):
    train, valid = linear_data(), linear_data(seed=1)
    settings = SETTINGS.changed(temperature_schedule="exponential", temperature_end=0.1, list_size=list_size)
    whole, parts = network(), network()
    expected = fit(whole, PiRankNDCGLoss(), train, valid, settings=settings)
    steps = 0

    def stop():
        nonlocal steps
        steps += 1
        return steps == stop_at

    checkpoints = Checkpoints(tmp_path / "state.safetensors")
    with pytest.raises(Interrupted, match=f"step {stop_at} of 20"):
        fit(parts, PiRankNDCGLoss(), train, valid, settings=settings, checkpoints=checkpoints, stop=stop)
    torch.manual_seed(99)
    parts = network(seed=5)
    found = fit(
        parts, PiRankNDCGLoss(), train, valid, settings=settings, resume=True,
        checkpoints=Checkpoints(tmp_path / "state.safetensors"),
    )  # fmt: skip
    assert torch.equal(weights(parts), weights(whole))
    assert (found.step, found.best, found.best_step) == (expected.step, expected.best, expected.best_step)


def test_a_finished_training_is_not_trained_again(tmp_path):
    train, model = linear_data(), network()
    checkpoints = Checkpoints(tmp_path / "state.safetensors")
    fit(model, SoftmaxLoss(), train, settings=SETTINGS, checkpoints=checkpoints)
    records = []
    again = network(seed=3)
    fit(
        again,
        SoftmaxLoss(),
        train,
        settings=SETTINGS,
        checkpoints=checkpoints,
        resume=True,
        report=records.append,
    )
    assert records == []
    assert torch.equal(weights(model), weights(again))


def test_patience_ends_the_training():
    settings = SETTINGS.changed(patience=2, epochs=50, learning_rate=0.0)
    progress = fit(network(), SoftmaxLoss(), linear_data(), linear_data(seed=1), settings=settings)
    assert progress.step == 3 * progress.steps_per_epoch
    assert progress.best_step == progress.steps_per_epoch


def test_a_number_that_is_not_finite_stops_with_the_step_and_the_last_good_checkpoint(tmp_path):
    path = tmp_path / "state.safetensors"
    settings = SETTINGS.changed(
        optimizer="sgd", learning_rate=1e30, clip=None, warmup=0.0, schedule="constant"
    )
    with pytest.raises(
        TrainingError, match=r"at step \d+ .*temperature 1.*lower learning_rate.*checkpoint of step"
    ):
        fit(network(), PiRankNDCGLoss(), linear_data(), settings=settings, checkpoints=Checkpoints(path, 0.0))
    tensors, _ = read_checkpoint(path)
    assert all(torch.isfinite(value.float()).all() for value in tensors.values())


def test_a_damaged_checkpoint_and_another_number_of_processes_are_told(tmp_path):
    path = tmp_path / "state.safetensors"
    fit(network(), SoftmaxLoss(), linear_data(), settings=SETTINGS, checkpoints=Checkpoints(path))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TrainingError, match=r"damaged .* delete it"):
        fit(
            network(),
            SoftmaxLoss(),
            linear_data(),
            settings=SETTINGS,
            checkpoints=Checkpoints(path),
            resume=True,
        )
    path.write_bytes(whole.replace(b'\\"processes\\": 1', b'\\"processes\\": 2'))
    with pytest.raises(TrainingError, match="written by 2 processes"):
        fit(
            network(),
            SoftmaxLoss(),
            linear_data(),
            settings=SETTINGS,
            checkpoints=Checkpoints(path),
            resume=True,
        )


def test_other_data_is_not_taken_for_that_of_the_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path / "state.safetensors")
    data = linear_data()
    fit(network(), SoftmaxLoss(), data, settings=SETTINGS, checkpoints=checkpoints)
    other = RankingData(data.features, data.labels.flip(0), data.offsets)
    with pytest.raises(TrainingError, match="written while training on other data"):
        fit(network(), SoftmaxLoss(), other, settings=SETTINGS, checkpoints=checkpoints, resume=True)


def test_training_leaves_the_random_numbers_of_others_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    model, data = network(), linear_data()
    torch.manual_seed(7)
    fit(model, SoftmaxLoss(), data, settings=SETTINGS.changed(epochs=1))
    assert torch.equal(torch.rand(3), expected)


def test_a_disk_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "folder").write_text("a file where a folder should be")
    checkpoints = Checkpoints(tmp_path / "folder" / "state.safetensors", 0.0)
    with pytest.raises(TrainingError, match=r"cannot write .* there is no checkpoint yet"):
        fit(network(), SoftmaxLoss(), linear_data(), settings=SETTINGS, checkpoints=checkpoints)


def test_a_disk_that_fills_up_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    path, saved = tmp_path / "state.safetensors", []

    def save_until_full(tensors, target, metadata):
        if len(saved) == 3:
            target.write_bytes(b"half of")
            raise OSError(28, "No space left on device")
        saved.append(target)
        save_file(tensors, target, metadata=metadata)

    monkeypatch.setattr("pirank.files.save_file", save_until_full)
    with pytest.raises(TrainingError, match=r"No space left on device.*the checkpoint of step 3 is kept"):
        fit(network(), SoftmaxLoss(), linear_data(), settings=SETTINGS, checkpoints=Checkpoints(path, 0.0))
    assert read_checkpoint(path)[1]["progress"]["step"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["state.safetensors"]


def test_query_weights_of_0_take_queries_out():
    data = linear_data(queries=16)
    chosen = torch.ones(16)
    chosen[8:] = 0
    models = network(dropout=0.0), network(dropout=0.0)
    settings = SETTINGS.changed(batch_size=16)
    fit(models[0], SoftmaxLoss(), data, settings=settings, weights=chosen)
    fit(models[1], SoftmaxLoss(), data[:8], settings=settings)
    torch.testing.assert_close(weights(models[0])[:-1], weights(models[1])[:-1], atol=1e-5, rtol=1e-4)


def test_bf16_trains_with_the_loss_in_float32():
    seen = []

    class Watched(PiRankNDCGLoss):
        def forward(self, scores, labels, **batch):
            value = super().forward(scores, labels, **batch)
            seen.append(value.dtype)
            return value

    fabric = make_fabric(accelerator="cpu", precision="bf16-mixed")
    progress = fit(network(), Watched(), linear_data(), linear_data(seed=1), settings=SETTINGS, fabric=fabric)
    assert set(seen) == {torch.float32}
    assert progress.best > 0.6


def test_whole_batches_follow_the_document_budget():
    records = []
    data = synthetic(queries=30, list_size=(5, 15), seed=0)
    settings = Settings(epochs=1, batch_documents=100)
    model = MLP(data.features.shape[1], hidden=(8,))
    progress = fit(model, SoftmaxLoss(), data, settings=settings, report=records.append)
    assert progress.documents == len(data.features)
    assert progress.step >= len(data.features) / 100
