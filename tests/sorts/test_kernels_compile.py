"""What the interpreter runs, a GPU's compiler must take too: without a GPU, kernels are compiled for three kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNELS = {
    *(
        "linear_short",
        "forward_short",
        "backward_short",
        "heights_of_chunks",
        "bests_of_chunks",
        "sums_of_chunks",
    ),
    *("rows_of_lists", "losses_of_lists", "pull_of_chunks", "prefix_of_chunks", "gradient_of_chunks"),
    *("count_in_tiles", "deal_out"),
    *("_normalise", "_pull", "_gather", "_into_lists", "_out_of_lists", "_adam"),
}


@pytest.mark.parametrize("capability", ["80", "90", "100"], ids=["Ampere", "Hopper", "Blackwell"])
def test_every_kernel_compiles(capability) -> None:
    pytest.importorskip("triton", reason="the kernels need triton, which PyTorch for CUDA brings along")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(HERE.parents[1] / "src")
    done = subprocess.run(
        [sys.executable, str(HERE / "compile_kernels.py"), capability],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == KERNELS
