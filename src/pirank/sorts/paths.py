"""Which way a sort is worked out: by the Triton kernels, or in plain PyTorch; and which way it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from pirank.kernel_paths import PATHS, interprets, refuse_without_interpreter, runs_kernels
from pirank.lists import check_choice

LONGEST_SHORT = 2048
"""Lists up to this long are sorted inside a kernel."""
LONGEST_FEW = 16_384
"""A whole loss of lists up to this long is one launch where there are few items: other ways start more than they do."""
FEW_ITEMS = 1 << 18
MOST_ROWS_OF_LONG = 64
"""Rows that the kernels for longer lists have; with more, long lists take the plain path."""


@dataclass
class _Choice:
    """What is asked for in this process, and where it is recorded: plain values, which a compiled program can see."""

    asked: str = "auto"
    taken: list[str] | None = None
    interprets: bool = False


_choice = _Choice()


@contextmanager
def use_path(path: str) -> Iterator[None]:
    """Work sorts and losses out in one way, in this process.

    Args:
        path: ``"auto"``: kernels on CUDA devices that can run them; ``"plain"``: PyTorch's own operations;
            ``"kernels"``: kernels on the CPU too, which is for tests and needs ``TRITON_INTERPRET=1``.

    Example:
        >>> from pirank.sorts import NeuralSort
        >>> with use_path("plain"), paths_taken() as paths:
        ...     ranked = NeuralSort().apply(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
        >>> paths
        ['plain']
    """
    before, _choice.asked = _choice.asked, check_choice("path", path, PATHS)
    _choice.interprets = interprets()
    try:
        yield
    finally:
        _choice.asked = before


@contextmanager
def paths_taken() -> Iterator[list[str]]:
    """Record which way every sort and loss goes: ``"plain"``, ``"short kernels"`` or ``"long kernels"``, in turn."""
    before, _choice.taken = _choice.taken, []
    try:
        yield _choice.taken
    finally:
        _choice.taken = before


def take_kernels(scores: Tensor, rows: int, longest: int, *, whole: bool = False) -> bool:
    """Whether kernels serve these lists, which is noted.

    Args:
        scores: of any layout.
        rows: how many ranks are wanted.
        longest: the length of the longest list, or an upper bound.
        whole: of a whole loss; see :func:`one_launch`.
    """
    short = one_launch(scores, longest) if whole else longest <= LONGEST_SHORT
    served = (
        may_take_kernels(scores)
        and scores.dtype == torch.float32
        and min(scores.numel(), longest, rows) > 0
        and (short or rows <= MOST_ROWS_OF_LONG)
    )
    _note(("short kernels" if short else "long kernels") if served else "plain")
    return served


def one_launch(scores: Tensor, longest: int) -> bool:
    """Whether the loss of these lists is worked out in one launch."""
    return longest <= LONGEST_SHORT or (longest <= LONGEST_FEW and scores.numel() <= FEW_ITEMS)


def may_take_kernels(scores: Tensor) -> bool:
    """Whether kernels are wanted, and run where these scores are."""
    if _choice.asked == "plain":
        return False
    return runs_kernels(scores.device) or _interpreted(scores.device)


def _note(path: str) -> None:
    if torch.compiler.is_compiling():
        return
    if _choice.taken is not None:
        _choice.taken.append(path)


def _interpreted(device: torch.device) -> bool:
    if _choice.asked != "kernels" or device.type != "cpu":
        return False
    refuse_without_interpreter(_choice.interprets)
    return True
