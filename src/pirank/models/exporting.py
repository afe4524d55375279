"""Whether a model is being exported: some steps then take a form that other runtimes know."""

from __future__ import annotations

import torch


def exporting() -> bool:
    """True while ``torch.export`` traces; PyTorch before 2.7 does not tell it from ``torch.compile``."""
    known = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return bool(known())
