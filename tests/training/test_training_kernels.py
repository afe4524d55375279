"""The kernels of a captured step: gathering, lists, and Adam, equal what PyTorch's operations give."""

import math

import pytest
import torch
from torch import nn

from pirank.models import MLP
from pirank.training import Settings, make_fabric
from pirank.training.batching import make_batches
from pirank.training.flat_adam import FlatAdam, share_within
from pirank.training.optimizers import make_capturable, make_optimizer
from pirank.training.plan import Plan
from pirank.training.progress import Progress
from pirank.training.steps import Rates
from training.static_cases import ragged_data

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(
    "batches", [{"list_size": 6}, {"list_size": 40}, {}, {"batch_documents": 50}, {"batch_size": 30}]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_is_gathered_as_by_pytorch(batches, weighted, kernel_device):
    settings = Settings(**{"batch_size": 8, **batches})
    train = ragged_data().to(kernel_device)
    schedule = make_batches(train, settings, make_fabric(accelerator=kernel_device.type))
    weights = torch.arange(30.0) if weighted else None
    plan = Plan(train, schedule, Rates(nn.Identity(), settings), weights, weighted)
    progress = Progress.of(len(schedule), settings)
    plan.fill(progress)
    for step, shape in enumerate(plan.shapes):
        plan.at.fill_(step)
        found = []
        for plan.by_kernels in (False, True):
            batch = plan.gather(shape)
            scores = torch.linspace(-1, 1, shape.rows, device=kernel_device).requires_grad_()
            listed = batch.listed(scores)
            assert ("IntoLists" in listed.grad_fn.name()) == plan.by_kernels
            pulled = torch.arange(1.0, listed.numel() + 1, device=kernel_device).view_as(listed)
            listed.backward(pulled * batch.mask)
            found.append((batch, listed.detach(), scores.grad))
        (plain, in_lists, gradient), (ours, ours_in_lists, ours_gradient) = found
        there = plain.real[:, 0] > 0
        assert there.any()
        assert torch.equal(ours.real, plain.real)
        assert torch.equal(ours.mask, plain.mask)
        assert torch.equal(ours.features[there], plain.features[there])
        assert torch.equal(ours.labels, torch.where(plain.mask, plain.labels, 0))
        assert torch.equal(ours_in_lists, torch.where(plain.mask, in_lists, 0))
        assert torch.equal(ours_gradient, gradient)
        assert (plain.weights is None) == (ours.weights is None)
        if weighted:
            assert torch.equal(plain.weights, ours.weights)


def trained_by(kind, device, flat, settings, clip=None, steps=6):
    torch.manual_seed(0)
    network = MLP(4, hidden=(40, 30)).to(device)
    optimizer = make_optimizer(network, settings)
    rate = make_capturable(optimizer, device)
    adam = FlatAdam.of(optimizer) if flat else None
    assert (adam is not None) == flat
    rows = torch.randn(50, 4, generator=torch.Generator().manual_seed(1)).to(device)
    for step in range(steps):
        rate.fill_(settings.learning_rate / (step + 1))
        optimizer.zero_grad()
        (network(rows) - rows[:, 0]).square().mean().backward()
        if adam is None:
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()
        else:
            gradient = adam.gradient()
            norm = torch.linalg.vector_norm(gradient)
            adam.step(gradient, None if clip is None else share_within(clip, norm))
    return network, optimizer, adam


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_adam_is_pytorchs(optimizer, clip, kernel_device, monkeypatch):
    monkeypatch.setattr("pirank.training.flat_adam.runs_kernels", lambda device: True)
    settings = Settings(optimizer=optimizer, learning_rate=0.05, weight_decay=0.1)
    (expected, theirs, _), (found, ours, adam) = (
        trained_by(optimizer, kernel_device, flat, settings, clip) for flat in (False, True)
    )
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=2e-6, rtol=1e-5)
        assert ours.state[a].keys() == theirs.state[b].keys()
        for name, value in theirs.state[b].items():
            torch.testing.assert_close(ours.state[a][name], value, atol=1e-7, rtol=1e-5)
    # Weights and state are views of one piece, from which PyTorch's own step goes on.
    assert len({p.untyped_storage().data_ptr() for p in found.parameters()}) == 1
    for network, each in ((expected, theirs), (found, ours)):
        each.zero_grad()
        network(torch.ones(3, 4, device=kernel_device)).sum().backward()
        each.step()
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=4e-6, rtol=1e-5)
    adam.part()
    assert len({p.untyped_storage().data_ptr() for p in found.parameters()}) == 6


def test_adam_goes_on_from_a_state(kernel_device, monkeypatch):
    monkeypatch.setattr("pirank.training.flat_adam.runs_kernels", lambda device: True)
    settings = Settings(optimizer="adam", learning_rate=0.05, weight_decay=0.0)
    network, optimizer, _ = trained_by("adam", kernel_device, False, settings)
    before = {id(p): {k: v.clone() for k, v in optimizer.state[p].items()} for p in network.parameters()}
    adam = FlatAdam.of(optimizer)
    for p in network.parameters():
        for name, value in before[id(p)].items():
            assert torch.equal(optimizer.state[p][name], value)
    assert float(adam.steps[0]) == 6
    assert adam.decayed == 0


@pytest.mark.parametrize("why", ["sgd", "float64", "amsgrad", "steps", "no kernels"])
def test_what_does_not_fit_is_left_alone(why, kernel_device, monkeypatch):
    monkeypatch.setattr("pirank.training.flat_adam.runs_kernels", lambda device: why != "no kernels")
    network = MLP(3, hidden=(4,)).to(kernel_device)
    if why == "float64":
        network.double()
    optimizer = make_optimizer(network, Settings(optimizer="sgd" if why == "sgd" else "adamw"))
    make_capturable(optimizer, kernel_device)
    if why == "amsgrad":
        for group in optimizer.param_groups:
            group["amsgrad"] = True
    if why == "steps":
        first = next(network.parameters())
        optimizer.state[first] = {"step": torch.tensor(3.0), "exp_avg": first * 0, "exp_avg_sq": first * 0}
    places = [p.data_ptr() for p in network.parameters()]
    assert FlatAdam.of(optimizer) is None
    assert [p.data_ptr() for p in network.parameters()] == places


def test_a_parameter_without_a_gradient_is_seen(kernel_device, monkeypatch):
    monkeypatch.setattr("pirank.training.flat_adam.runs_kernels", lambda device: True)
    network = MLP(3, hidden=(4,)).to(kernel_device)
    optimizer = make_optimizer(network, Settings())
    make_capturable(optimizer, kernel_device)
    adam = FlatAdam.of(optimizer)
    network.layers[0](torch.ones(2, 3, device=kernel_device)).sum().backward()
    assert adam.gradient() is None


def test_a_gradient_is_clipped_as_by_pytorch():
    weight = torch.ones(4, requires_grad=True)
    for size in (0.1, 10.0):
        weight.grad = torch.full((4,), size)
        norm = torch.linalg.vector_norm(weight.grad)
        share = share_within(1.0, norm)
        torch.nn.utils.clip_grad_norm_(weight, 1.0)
        assert float(weight.grad[0]) == pytest.approx(size * float(share))
        assert not math.isnan(float(share))
