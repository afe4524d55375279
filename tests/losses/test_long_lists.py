"""A list of 20,000 items trains in little memory: nothing of the size of its 400 million pairs is held."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, re, torch
from pirank import losses
torch.manual_seed(0)
torch.set_num_threads(1)
labels = torch.randint(0, 5, (20_000,)).float()
peaks = {}
for name in losses.names():
    options = {"k": None} if name == "lambdarank" else {}
    scores = torch.randn(20_000, requires_grad=True)
    losses.get(name, **options)(scores, labels).backward()
    assert scores.grad.isfinite().all() and (scores.grad != 0).any(), name
    # Not getrusage: what that says of a process includes the one that started it.
    peaks[name] = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps(peaks))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_every_loss_trains_on_20000_items_within_a_gibibyte():
    # The process starts at about 0.3 GiB with PyTorch alone; the matrix of pairs would take 1.5 GiB in float32.
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    peaks = json.loads(run.stdout)
    assert {name: peak / 2**20 for name, peak in peaks.items() if peak > 2**20} == {}
