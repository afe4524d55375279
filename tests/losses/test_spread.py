"""Lists over several processes: the same numbers as on one, and clear refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed

from pirank.losses import PiRankLoss, PiRankNDCGLoss, SoftmaxLoss, SpreadLoss, whole_lists
from pirank.metrics import MRR
from pirank.sorts import NeuralSort

HERE = Path(__file__).parent


@pytest.mark.skipif(not distributed.is_available(), reason="this PyTorch has no torch.distributed")
@pytest.mark.parametrize("processes", [1, 3])
def test_parts_give_the_loss_and_gradient_of_the_whole(processes) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1] / "src")}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    done = subprocess.run(
        [*launcher, str(processes), str(HERE / "spread_lists.py")],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "compared 72" in done.stdout


def test_what_cannot_be_spread_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a PiRank loss, got SoftmaxLoss: use whole_lists"):
        SpreadLoss(SoftmaxLoss())
    with pytest.raises(ValueError, match="metric must be linear in the ranked values, MRR"):
        SpreadLoss(PiRankLoss(MRR(), NeuralSort()))
    with pytest.raises(ValueError, match="temperature must not be relative"):
        SpreadLoss(PiRankNDCGLoss(relative=True))
    for call in (SpreadLoss(PiRankNDCGLoss()), whole_lists):
        with pytest.raises(RuntimeError, match="init_process_group"):
            call(torch.zeros(1, 2), torch.zeros(1, 2))
