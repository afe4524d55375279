"""Compile every kernel for a GPU that need not be there: python compile_kernels.py 90

Whatever the launches would start is compiled for that capability instead. Nothing is run, so nothing comes out.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from pirank.models import batch_norm_kernels
from pirank.sorts.kernels import launch_sort
from pirank.sorts.operators import (
    _linear_losses,
    _linear_losses_of_long,
    _linear_losses_of_long_backward,
    _ranked_values,
    _ranked_values_backward,
)
from pirank.sorts.paths import LONGEST_SHORT
from pirank.training import adam_kernels, gather_kernels

TYPES = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.bool: "*i1",
    torch.bfloat16: "*bf16",
}
compiled: set[str] = set()


def compile_only(self: JITFunction, *args: Any, grid: Any, warmup: bool, **named: Any) -> None:
    """In place of a launch."""
    given = dict(zip(self.arg_names, args, strict=False)) | {
        n: named[n] for n in named if n in self.arg_names
    }
    constants = {p.name: given[p.name] for p in self.params if p.is_constexpr or given[p.name] is None}
    signature, attributes = {}, {}
    for position, name in enumerate(self.arg_names):
        value = given[name]
        if name in constants:
            signature[name] = "constexpr"
        elif isinstance(value, torch.Tensor):
            signature[name] = TYPES[value.dtype]
            attributes[(position,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
    source = ASTSource(
        self, signature, {(self.arg_names.index(n),): v for n, v in constants.items()}, attributes
    )
    options = {name: named[name] for name in ("num_warps", "maxnreg") if name in named}
    triton.compile(source, target=GPUTarget("cuda", int(sys.argv[1]), 32), options=options)
    compiled.add(self.__name__)


def sorts(length: int, k: int, soft: bool) -> None:
    """Both operators and both layouts, at a length."""
    lists, items = 3, 3 * length
    scores, labels = torch.zeros(lists, length), torch.zeros(lists, length)
    mask, offsets = torch.ones(lists, length, dtype=torch.bool), torch.arange(0, items + 1, length)
    padded = (scores, labels, torch.ones(k), mask, None, None)
    flat = (scores.flatten(), labels.flatten(), torch.ones(k), None, offsets, None)
    for relative, per, gain, layout in ((True, "ideal", "exp2", padded), (False, "values", "above", flat)):
        how = (1.0, length, relative, soft, gain, 0.0, per, 1.0, 1.0, -1.0, False, False)
        if length <= LONGEST_SHORT:
            _linear_losses(*layout, *how, True)
        else:
            kept = _linear_losses_of_long(*layout, *how)[3:]
            _linear_losses_of_long_backward(torch.ones(lists), layout[4], *kept, soft)
    values = torch.zeros(lists, 2, length)
    kept = _ranked_values(scores, values, mask, None, torch.ones(lists), 1.0, k, length, False, soft)
    _ranked_values_backward(torch.zeros_like(kept[0]), mask, None, *kept[1:], length, soft, True)


def batch_norm() -> None:
    """The two kernels of the masked normalisation, alone and with a rectifier and dropout behind it."""
    rows, one = torch.zeros(10, 4), torch.ones(4)
    real = torch.ones(10, 1)
    running = (torch.zeros(4), torch.ones(4), torch.zeros((), dtype=torch.int64))
    for behind in (None, batch_norm_kernels.Behind(0.3, torch.ones(1, dtype=torch.int64), 0)):
        out, mean, scale = batch_norm_kernels.normalise(rows, real, one, one, running, 0.1, 1e-5, behind)
        kept = None if behind is None else out
        batch_norm_kernels.pull(out, rows, real, one, mean, scale, kept, 1.0, True, True)


def training() -> None:
    """What a captured step gathers and moves by."""
    at, table = torch.zeros(1, dtype=torch.int64), torch.zeros(2, 6, dtype=torch.int64)
    planned, scores = torch.zeros(9, dtype=torch.int64), torch.zeros(5, requires_grad=True)
    gather_kernels.gather(at, table, planned, torch.zeros(9), 5, 2, 3)
    gather_kernels.into_lists(scores, at, table, 2, 3).sum().backward()
    one, share = torch.ones(3), torch.ones(())
    for each, decoupled in ((None, True), (share, False)):
        rest = (2, (0.9, 0.999), 1e-8, 0.1, decoupled)
        adam_kernels.adam(one, one, one, one, one, share, each, *rest)


if __name__ == "__main__":
    JITFunction.run = compile_only
    launch_sort.TOGETHER_FROM = 20_000
    for each_length, each_k, is_soft in (
        (200, 10, False),
        (200, 100, True),
        (20_000, 10, False),
        (20_000, 10, True),
    ):
        sorts(each_length, each_k, is_soft)
    batch_norm()
    training()
    print(*sorted(compiled))
