"""What several test files need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# Triton looks at this when the kernels are imported: without a GPU they are tested in its interpreter.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# The same examples in every run, so that a run says something about the change at hand; HYPOTHESIS_PROFILE=default
# searches for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real ranking data: $PIRANK_DATA, or ../shared/data beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PIRANK_DATA", beside))
    if not folder.is_dir():
        pytest.skip(
            f"no real data: set PIRANK_DATA to the folder that holds MQ2008 and the others (not {folder})"
        )
    return folder


@pytest.fixture(scope="session")
def kernel_device() -> torch.device:
    """Where kernels are tested."""
    pytest.importorskip("triton", reason="the kernels need triton, which PyTorch for CUDA brings along")
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


@pytest.fixture
def by_kernels(kernel_device: torch.device) -> Iterator[torch.device]:
    """Everything in the test goes through the kernels, on this device."""
    from pirank.sorts import use_path

    with use_path("auto" if kernel_device.type == "cuda" else "kernels"):
        yield kernel_device
