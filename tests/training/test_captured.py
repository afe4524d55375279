"""Steps of static shapes make the training that step by step makes, or say why they are not made."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pirank import losses
from pirank.data import RaggedBatches
from pirank.losses import PiRankLoss, PiRankNDCGLoss, SoftmaxLoss
from pirank.metrics import NDCG
from pirank.models import ListAttention
from pirank.sorts import NeuralSort, Sinkhorn, Tree
from pirank.training import Checkpoints, Interrupted, TrainingError, fit, make_fabric
from pirank.training.graphs import Graphs, unchanged
from pirank.training.optimizers import make_optimizer
from pirank.training.plan import Plan
from pirank.training.progress import Progress
from pirank.training.steps import Rates, StepByStep
from pirank.training.ways import choose
from training.static_cases import SETTINGS, Recorder, network, ragged_data, state


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small wait longer for a second thread than it saves, many times so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


BATCHES = {
    "lists cut to 6": {"list_size": 6},
    "lists padded to 40": {"list_size": 40},
    "whole lists": {},
    "documents": {"batch_documents": 50},
}
SCHEDULED = {"schedule": "cosine", "warmup": 0.2, "clip": 0.05}


def trained(capture, model, loss=None, train=None, valid=None, settings=SETTINGS, **more):
    train = ragged_data() if train is None else train
    report = Recorder()
    progress = fit(
        model, loss or PiRankNDCGLoss(k=5), train, valid, settings=settings.changed(capture=capture),
        report=report, **more,
    )  # fmt: skip
    return progress, report


def assert_same(*, make=network, loss=None, atol=2e-6, **options):
    """Both ways end with the same weights and buffers, and report the same."""
    models = make(), make()
    ways = [trained(way, model, loss, **options) for way, model in zip(("off", "on"), models, strict=True)]
    torch.testing.assert_close(state(models[1]), state(models[0]), atol=atol, rtol=1e-4)
    (progress, report), (static, static_report) = ways
    assert (static.step, static.documents, static.best_step) == (
        progress.step,
        progress.documents,
        progress.best_step,
    )
    for a, b in zip(report.of("validation"), static_report.of("validation"), strict=True):
        for name in ("step", "epoch", "loss", "gradient_norm", "learning_rate", "ndcg@10"):
            assert a.get(name, 0) == pytest.approx(b.get(name, 0), rel=1e-3, abs=1e-5), name


@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize("normalisation", ["none", "batch", "layer"])
def test_static_shapes_change_nothing(batches, normalisation):
    assert_same(
        make=lambda: network(normalisation),
        valid=ragged_data(seed=1),
        settings=SETTINGS.changed(**BATCHES[batches]),
    )


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_rates_clipping_and_every_optimiser(optimizer):
    # A loss that is not one of the ranking alone: the bias of the score has a gradient too.
    settings = SETTINGS.changed(optimizer=optimizer, **SCHEDULED)
    assert_same(loss=losses.get("mse"), settings=settings, atol=2e-5)


@pytest.mark.parametrize("name", losses.names())
def test_every_loss(name):
    settings = SETTINGS.changed(epochs=1, batch_size=7, learning_rate=0.005)
    assert_same(loss=losses.get(name), settings=settings, atol=1e-5)


@pytest.mark.parametrize("loss", [SoftmaxLoss(empty="zero"), PiRankNDCGLoss(empty="zero"), SoftmaxLoss()])
def test_query_weights_and_lists_that_count_though_blank(loss):
    settings = SETTINGS.changed(batch_size=7)  # the last batch of an epoch holds 2 lists
    assert_same(loss=loss, settings=settings)
    assert_same(loss=loss, settings=settings, weights=torch.arange(30.0) % 3)


def test_patience_ends_it_with_the_best_weights():
    settings = SETTINGS.changed(epochs=50, learning_rate=0.1, patience=2, validate_every=3)
    assert_same(valid=ragged_data(seed=1), settings=settings, atol=1e-3)


def test_bf16_learns_with_the_statistics_of_the_documents():
    fabric = make_fabric(accelerator="cpu", precision="bf16-mixed")
    settings = SETTINGS.changed(learning_rate=0.1)
    models = network("batch"), network("batch")
    for way, model in zip(("off", "on"), models, strict=True):
        trained(way, model, settings=settings, fabric=fabric)
    torch.testing.assert_close(state(models[1]), state(models[0]), atol=0.02, rtol=0.05)


@pytest.mark.parametrize("then", ["on", "off"])
@pytest.mark.parametrize("stop_at", [1, 4, 6, 8])
@pytest.mark.parametrize("batches", ["lists cut to 6", "documents"])
def test_stopped_anywhere_it_goes_on_either_way(tmp_path, monkeypatch, then, stop_at, batches):
    monkeypatch.setattr("pirank.training.captured.SECONDS_BETWEEN_LOOKS", 0.0)  # a look a step
    monkeypatch.setattr("pirank.data.schedule.WINDOW_DOCUMENTS", 100)
    settings = SETTINGS.changed(**BATCHES[batches], **SCHEDULED)
    train, valid = ragged_data(), ragged_data(seed=1)
    whole, parts, steps = network("batch"), network("batch"), []
    expected, _ = trained("on", whole, train=train, valid=valid, settings=settings)

    def stop():
        steps.append(1)
        return len(steps) == stop_at

    path = tmp_path / "state.safetensors"
    with pytest.raises(Interrupted, match=f"step {stop_at} of {expected.steps}"):
        trained(
            "on", parts, train=train, valid=valid, settings=settings, checkpoints=Checkpoints(path), stop=stop
        )
    parts = network("batch", seed=5)
    found, _ = trained(
        then, parts, train=train, valid=valid, settings=settings, checkpoints=Checkpoints(path), resume=True
    )
    if then == "on":
        assert torch.equal(state(parts), state(whole))
    torch.testing.assert_close(state(parts), state(whole), atol=2e-6, rtol=1e-4)
    assert (found.step, found.documents, found.best_step) == (
        expected.step,
        expected.documents,
        expected.best_step,
    )


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("stop_at", [None, 4])
def test_recording_shape_after_shape_counts_as_no_step(tmp_path, monkeypatch, optimizer, stop_at):
    """All but CUDA's own part of a captured training: warm-ups, what they undo, the optimiser that a graph can hold."""
    recorded = []

    class Recording(Graphs):
        def __call__(self, shape):
            if shape not in self.recorded:
                self.record(shape)
                recorded.append(shape)
            self.step(shape)

    monkeypatch.setattr("pirank.training.captured.can_record", lambda device: True)
    monkeypatch.setattr("pirank.training.captured.Graphs", Recording)
    stream = SimpleNamespace(wait_stream=lambda other: None)
    for name in ("Stream", "current_stream", "CUDAGraph", "graph_pool_handle"):
        monkeypatch.setattr(torch.cuda, name, lambda: stream)
    for name in ("stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, lambda *args, **more: nullcontext())
    for name in ("get_sync_debug_mode", "set_sync_debug_mode"):
        monkeypatch.setattr(torch.cuda, name, lambda *mode: 0)
    settings = SETTINGS.changed(optimizer=optimizer, batch_documents=50, **SCHEDULED)
    loss, models, steps = losses.get("mse"), (network("layer"), network("layer")), []
    trained("off", models[0], loss, settings=settings)
    checkpoints = Checkpoints(tmp_path / "state.safetensors")
    if stop_at is not None:
        monkeypatch.setattr("pirank.training.captured.SECONDS_BETWEEN_LOOKS", 0.0)
        stop = lambda: steps.append(1) or len(steps) == stop_at  # noqa: E731
        with pytest.raises(Interrupted):
            trained("on", network("layer"), loss, settings=settings, checkpoints=checkpoints, stop=stop)
    _, report = trained(
        "on", models[1], loss, settings=settings, checkpoints=checkpoints, resume=stop_at is not None
    )
    assert report.of("strategy")[0]["captured"]
    assert len(recorded) >= 2
    torch.testing.assert_close(state(models[1]), state(models[0]), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("what", ["scores", "loss"])
def test_a_number_that_is_not_finite_is_found_at_its_step(tmp_path, what):
    broken = []

    class Breaking(PiRankNDCGLoss):
        def forward(self, scores, labels, **batch):
            value = super().forward(scores, labels, **batch)
            broken.append(1)
            return value / 0 if what == "loss" and len(broken) == 4 else value

    settings = SETTINGS.changed(warmup=0.0, schedule="constant", epochs=5)
    if what == "scores":
        settings = settings.changed(learning_rate=1e30)
    path = tmp_path / "state.safetensors"
    checkpoints = Checkpoints(path, 0.0)
    with pytest.raises(
        TrainingError, match=rf"the {what} (is|are) (inf|nan) at step (\d+) .*checkpoint"
    ) as told:
        trained("on", network(), Breaking(), settings=settings, checkpoints=checkpoints)
    if what == "loss":
        assert "at step 4 (epoch 0.75)" in str(told.value)
    else:
        assert "lower learning_rate" in str(told.value)


def test_looks_add_up(monkeypatch):
    monkeypatch.setattr("pirank.training.captured.SECONDS_BETWEEN_LOOKS", 1e9)  # as many steps as there are
    train = ragged_data()
    _, report = trained("on", network(), train=train, settings=SETTINGS.changed(epochs=6))
    steps = [record["step"] for record in report.of("step")]
    assert steps[0] == 1
    assert steps[2] - steps[0] > 3  # a look at several steps
    assert steps[-1] == 24
    assert set(steps) >= {record["step"] for record in report.of("validation")} == {4, 8, 12, 16, 20, 24}
    assert all(record["learning_rate"] > 0 for record in report.of("step"))


def own_loss():
    class Own(nn.Module):
        def forward(self, scores, labels, offsets):
            return (scores - labels).square().mean()

    return Own()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"settings": {"accumulate": 2}}, "accumulate is 2"),
        (
            {"settings": {"temperature_schedule": "linear", "temperature_end": 0.1}},
            "temperature_schedule 'linear'",
        ),
        ({"model": ListAttention(4, width=4)}, "ListAttention may look across documents"),
        ({"model": nn.Sequential(nn.BatchNorm1d(4))}, "pirank.models.BatchNorm"),
        ({"loss": own_loss()}, "Own is no loss of pirank"),
        ({"loss": PiRankLoss(NDCG(), Sinkhorn())}, "Sinkhorn's iterations"),
        ({"loss": PiRankLoss(NDCG(), Tree(NeuralSort(), depth=2))}, "name it with branching="),
    ],
)
def test_what_stands_in_the_way_is_told(change, why):
    settings = SETTINGS.changed(epochs=1, **change.get("settings", {}))
    with pytest.raises(ValueError, match=f"capture='on' is not possible: .*{why}"):
        trained("on", change.get("model", network()), change.get("loss"), settings=settings)


def test_which_way_it_trains_is_told_once():
    settings = SETTINGS.changed(epochs=1)
    told = {
        way: trained(way, network(), settings=settings)[1].of("strategy") for way in ("auto", "on", "off")
    }
    assert [len(records) for records in told.values()] == [1, 1, 1]
    assert told["auto"][0]["why"] == "the device is a CPU"
    assert told["off"][0]["why"] == "capture is 'off'"
    assert "static shapes without a graph" in told["on"][0]["why"]
    assert not any(records[0]["captured"] for records in told.values())


def test_where_a_gpu_cannot_record_it_trains_step_by_step_and_says_why(monkeypatch):
    def fail(task, progress):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr("pirank.training.ways.StaticSteps", fail)
    monkeypatch.setattr("pirank.training.ways.obstacle", lambda *task: None)
    task = SimpleNamespace(
        network=None, loss=SoftmaxLoss(), train=None, batches=[], settings=SETTINGS,
        fabric=SimpleNamespace(device=torch.device("cuda")),
    )  # fmt: skip
    way = choose(task, Progress(steps=5))
    assert isinstance(way, StepByStep)
    assert way.why == "it cannot be captured: operation not permitted when stream is capturing"
    task.settings = SETTINGS.changed(capture="on")
    with pytest.raises(TrainingError, match=r"cannot be captured: operation not permitted.*capture='off'"):
        choose(task, Progress(steps=5))


def test_recording_leaves_everything_as_it_was():
    """What happens around a capture, with steps on a CPU in its place: they count as none."""
    model, data = network("batch", dropout=0.5), ragged_data()
    optimizer = make_optimizer(model, SETTINGS.changed(optimizer="adam"))
    counter = torch.zeros(1)

    def step():
        optimizer.zero_grad()
        model(data.features).sum().backward()
        optimizer.step()
        counter.add_(1)

    def everything():
        moments = [value.clone() for each in optimizer.state.values() for value in each.values()]
        return [
            *(v.clone() for v in model.state_dict().values()),
            *moments,
            counter.clone(),
            torch.get_rng_state(),
        ]

    before, places = state(model), [p.data_ptr() for p in model.parameters()]
    with unchanged(model, optimizer, [counter]) as restore:
        step()
        restore()
        step()
    assert torch.equal(state(model), before)
    assert not any(value.any() for each in optimizer.state.values() for value in each.values())
    step()
    after_one = everything()
    with unchanged(model, optimizer, [counter]):
        step()
    assert all(torch.equal(a, b) for a, b in zip(everything(), after_one, strict=True))
    assert places == [p.data_ptr() for p in model.parameters()]


def test_shapes_are_few_and_hold_their_batches():
    train = ragged_data(queries=400)
    batches = RaggedBatches(train, documents=120)
    plan = Plan(train, batches, Rates(SoftmaxLoss(), SETTINGS), None, False)
    plan.fill(Progress(steps=1000))
    assert len(set(plan.shapes)) <= 20
    for documents, shape in zip(plan.documents, plan.shapes, strict=True):
        assert documents <= shape.rows <= max(documents + 120 / 8 + 1, 15)
        assert shape.rows <= plan.largest.rows
