"""What only a GPU can show of the kernels: no waiting, CUDA graphs, autocast, long lists."""

from __future__ import annotations

import pytest
import torch

from pirank.losses import PiRankNDCGLoss
from pirank.sorts import NeuralSort, paths_taken, use_path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run it with make test-gpu"
    ),
]


def batch(lists: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator(device="cuda").manual_seed(length)
    scores = torch.randn(lists, length, generator=random, device="cuda")
    return scores, torch.randint(0, 5, (lists, length), generator=random, device="cuda").float()


def value_and_gradient(
    scores: torch.Tensor, labels: torch.Tensor, **layout
) -> tuple[torch.Tensor, torch.Tensor]:
    s = scores.clone().requires_grad_()
    loss = PiRankNDCGLoss(k=10)(s, labels, **layout)
    loss.backward()
    return loss.detach(), s.grad


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("length", [200, 5_000])
def test_nothing_waits_for_the_device(length) -> None:
    scores, labels = batch(16, length)
    mask = torch.arange(length, device="cuda") < length - 20
    mask = mask.expand_as(scores)
    offsets = torch.arange(0, 16 * length + 1, length)  # on the CPU: known there
    value_and_gradient(scores, labels, mask=mask)
    value_and_gradient(scores.flatten(), labels.flatten(), offsets=offsets)
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        value_and_gradient(scores, labels, mask=mask)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("length", [200, 2_048, 5_000, 20_000])
def test_replayed_as_a_graph(length) -> None:
    scores, labels = batch(16, length)
    static = scores.clone().requires_grad_()
    loss = PiRankNDCGLoss(k=10)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            static.grad = None
            loss(static, labels).backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    static.grad = None
    with torch.cuda.graph(graph):
        value = loss(static, labels)
        value.backward()
    for seed in range(2):
        fresh = torch.randn(scores.shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")
        with torch.no_grad():
            static.copy_(fresh)
        graph.replay()
        expected = value_and_gradient(fresh, labels)
        assert torch.equal(value, expected[0])
        assert torch.equal(static.grad, expected[1])


def test_autocast_leaves_the_loss_in_full_precision() -> None:
    scores, labels = batch(4, 100)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = value_and_gradient(scores, labels)
    outside = value_and_gradient(scores, labels)
    assert torch.equal(inside[0], outside[0])
    assert torch.equal(inside[1], outside[1])


@pytest.mark.parametrize("tau", [1.0, 1e5])
def test_a_million_items_against_float64(tau) -> None:
    scores, labels = batch(2, 1_000_000)
    gains = torch.exp2(labels) - 1
    found = []
    for path, dtype in (("auto", torch.float32), ("plain", torch.float64)):
        s = scores.to(dtype, copy=True).requires_grad_()
        with use_path(path), paths_taken() as paths:
            ranked = NeuralSort(tau).apply(s, gains.to(dtype), 10)
        assert paths == ["long kernels" if path == "auto" else "plain"]
        ranked.sum().backward()
        found.append((ranked.detach().double(), s.grad.double()))
    for (one, other), relative in zip(zip(*found, strict=True), (1e-6, 1e-5), strict=True):
        assert (one - other).abs().max() <= relative * other.abs().max()


def test_memory_is_linear() -> None:
    scores, labels = batch(16, 1_000_000)
    value_and_gradient(scores, labels)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    value_and_gradient(scores, labels)
    assert torch.cuda.max_memory_allocated() - before <= 10 * scores.nbytes
