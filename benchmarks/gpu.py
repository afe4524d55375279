"""What the GPU benchmarks share: times as a program sees them, replays of a graph, memory, and the device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from measure import machine

Run = Callable[[], Any]


def require_gpu() -> None:
    """Numbers of a CPU under these names would mislead."""
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device: run it on one")


def gpu_machine() -> dict[str, str]:
    """The device and versions, to stand in every row."""
    import triton

    about = {
        "gpu": torch.cuda.get_device_name(),
        "cuda": str(torch.version.cuda),
        "triton": triton.__version__,
    }
    return about | machine()


def seconds_a_run(run: Run, *, budget: float = 0.2, at_most: int = 50) -> list[float]:
    """Seconds of one run, again and again: several in a row, as in a training, and at the end a wait for the device.

    Two samples that do not count come first: kernels are compiled and memory is taken then.
    """

    def sample(runs: int) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(runs):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / runs

    sample(1)
    once = sample(3)
    runs = max(1, min(20, int(0.01 / once)))
    taken: list[float] = []
    while len(taken) < 5 or (sum(taken) * runs < budget and len(taken) < at_most):
        taken.append(sample(runs))
    return taken


def as_graph(run: Run) -> Run:
    """The same work recorded once and replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def extra_megabytes(run: Run) -> float:
    """The most memory that a run takes beside what was there before, its results included."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def relative_error(found: Tensor, expected: Tensor) -> float:
    """The largest difference, over the largest number expected."""
    return float((found.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-300))


def with_gradient(loss: Callable[..., Tensor], scores: Tensor, labels: Tensor, **batch: Any) -> Run:
    """A run of a loss and its gradient by the scores, which stays in ``scores.grad``."""

    def run() -> None:
        scores.grad = None
        loss(scores, labels, **batch).backward()

    return run
