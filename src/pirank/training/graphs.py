"""CUDA graphs of a training step, one a shape: recorded when a shape comes first, replayed ever after."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pirank.training.plan import Shape

# PyTorch asks for a few runs before a capture; the first makes what is kept from then on (constants, the optimiser's
# state, kernels that are compiled), the others are watched.
_WARM_UPS = 3


class Graphs:
    """Replays a step.

    Args:
        step: what is recorded; it reads and writes the same memory every time, and asks the device for nothing.
        network: what a step changes,
        optimizer: and the optimiser's state;
        counters: and these tensors. Recording leaves all of them as they were.
    """

    def __init__(
        self, step: Callable[[Shape], None], network: nn.Module, optimizer: Optimizer, counters: list[Tensor]
    ) -> None:
        self.step, self.network, self.optimizer, self.counters = step, network, optimizer, counters
        self.recorded: dict[Shape, torch.cuda.CUDAGraph] = {}
        # One stream and one pool for all: the graphs are replayed one after another, and keep nothing in it.
        self._stream, self._pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

    def __call__(self, shape: Shape) -> None:
        """Make a step."""
        if shape not in self.recorded:
            self.record(shape)
        self.recorded[shape].replay()

    def record(self, shape: Shape) -> None:
        """Record a step; none is made."""
        graph = torch.cuda.CUDAGraph()
        with unchanged(self.network, self.optimizer, self.counters) as restore:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                for run in range(_WARM_UPS):
                    with _warming_up(watched=run > 0):
                        self.step(shape)
                    restore()
            torch.cuda.current_stream().wait_stream(self._stream)
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                self.step(shape)
        self.recorded[shape] = graph


@contextmanager
def unchanged(
    network: nn.Module, optimizer: Optimizer, counters: list[Tensor]
) -> Iterator[Callable[[], None]]:
    """A function that puts weights, buffers, optimiser, counters and random numbers back, called at the end as well.

    Everything stays in its place in memory. State that an optimiser made in between becomes 0, which is what it
    starts from.
    """
    kept = [*network.parameters(), *network.buffers(), *counters]
    kept += [value for _, value in _state_of(optimizer)]
    before = [(tensor, tensor.detach().clone()) for tensor in kept]
    known = {id(tensor) for tensor in kept}
    device = kept[0].device
    random = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()

    @torch.no_grad()
    def restore() -> None:
        for tensor, value in before:
            tensor.copy_(value)
        for _, value in _state_of(optimizer):
            if id(value) not in known:
                value.zero_()
        if device.type == "cuda":
            torch.cuda.set_rng_state(random, device)
        else:
            torch.set_rng_state(random)

    try:
        yield restore
    finally:
        restore()


def _state_of(optimizer: Optimizer) -> list[tuple[str, Tensor]]:
    return [
        (name, value)
        for state in optimizer.state.values()
        for name, value in state.items()
        if isinstance(value, Tensor)
    ]


@contextmanager
def _warming_up(watched: bool) -> Iterator[None]:
    """Within it, if watched, what makes the program wait for the GPU is an error: a graph could not hold it."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        # PyTorch says that it does not find all waiting, and that the optimiser could do without being capturable.
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error" if watched else before)
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)
