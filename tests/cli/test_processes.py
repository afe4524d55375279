"""The installed program: killed and resumed, interrupted, and in two processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

QUICK = ("--hidden", "8", "--accelerator", "cpu", "-q")


@pytest.fixture
def start():
    """Start the program; whatever still runs at the end is killed."""
    started = []

    def start(folder, *arguments, launcher=(sys.executable, "-m", "pirank")):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [*launcher, *map(str, arguments)], cwd=folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def finish(process, code=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, out + err
    return out, err


def wait_for(path, process):
    for _ in range(6000):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"no {path}")


@pytest.fixture
def train(files):
    return ("train", files / "train.txt", "--valid", files / "valid.txt", "--patience", "0", *QUICK)


def test_killed_or_interrupted_it_ends_with_the_same_weights(tmp_path, train, start):
    """Uninterrupted; killed with SIGKILL and resumed; stopped with Ctrl-C and resumed: three equal models."""
    many = ("--epochs", "100", "--checkpoint-seconds", "0", "--n-ensemble", "2")
    whole, killed, stopped = (
        start(tmp_path, *train, *many, "--out", name) for name in ("whole", "killed", "stopped")
    )
    wait_for(tmp_path / "killed" / "checkpoints" / "member-0.safetensors", killed)
    killed.kill()
    killed.communicate()
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    wait_for(tmp_path / "stopped" / "checkpoints" / "member-0.safetensors", stopped)
    stopped.send_signal(signal.SIGINT)
    _, err = finish(stopped, code=130)
    assert "pirank train --resume stopped" in err
    for process in [start(tmp_path, "train", "--resume", name, "-q") for name in ("killed", "stopped")]:
        finish(process)
    finish(whole)
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed", "stopped")]
    assert models[0] == models[1] == models[2]
    histories = [
        [
            (r["member"], r["step"], r["ndcg@10"])
            for r in map(json.loads, (tmp_path / name / "metrics.jsonl").read_text().splitlines())
        ]
        for name in ("whole", "killed", "stopped")
    ]
    assert histories[0] == histories[1] == histories[2]


def test_two_processes_make_the_steps_of_one(tmp_path, train, start):
    one = start(tmp_path, *train, "--epochs", "3", "--dropout", "0", "--out", "one")
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "pirank")
    two = start(tmp_path, *train, "--epochs", "3", "--dropout", "0", "--out", "two", launcher=launcher)
    finish(one)
    finish(two)
    losses = [
        [
            (r["step"], r["loss"], r["gradient_norm"])
            for r in map(json.loads, (tmp_path / name / "metrics.jsonl").read_text().splitlines())
        ]
        for name in ("one", "two")
    ]
    assert len(losses[0]) == 3
    for first, second in zip(*losses, strict=True):
        assert first == pytest.approx(second, rel=1e-4)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the other process in /proc")
def test_a_dead_process_ends_the_others_with_a_message(tmp_path, train, start):
    first = start(
        tmp_path, *train, "--epochs", "100000", "--devices", "2", "--out", "r", "--checkpoint-seconds", "0"
    )
    wait_for(tmp_path / "r" / "checkpoints" / "member-0.safetensors", first)
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    (second,) = [int(p) for p in children if b"--devices" in Path(f"/proc/{p}/cmdline").read_bytes()]
    os.kill(second, signal.SIGKILL)
    _, err = finish(first, code=2)
    assert "lost the others" in err
    assert "--resume r" in err
    assert (tmp_path / "r" / "checkpoints" / "member-0.safetensors").exists()
