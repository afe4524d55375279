"""Where Triton kernels run: on GPUs that can compile them, and, for tests, on the CPU in Triton's interpreter."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

import torch

PATHS = ("auto", "kernels", "plain")

_OLDEST_CAPABILITY = (8, 0)
_HAS_TRITON = find_spec("triton") is not None


def runs_kernels(device: torch.device) -> bool:
    """Whether a device runs them at full speed."""
    if device.type != "cuda" or not _HAS_TRITON:
        return False
    return _can_compile(device) if torch.compiler.is_compiling() else _can_compile_once(device)


def interprets() -> bool:
    """Whether Triton's interpreter was asked for."""
    return _HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"


def refuse_without_interpreter(interpreting: bool) -> None:
    """Refuse kernels on a CPU that would not interpret them."""
    if not interpreting:
        raise RuntimeError("kernels run on the CPU for tests only: install triton and set TRITON_INTERPRET=1")


def _can_compile(device: torch.device) -> bool:
    return torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= _OLDEST_CAPABILITY


_can_compile_once = cache(_can_compile)
