"""The wheel, built and installed outside the checkout, is the whole package."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
USE = """
import pathlib, sys, torch, pirank
assert pathlib.Path(pirank.__file__).is_relative_to(sys.argv[1]), pirank.__file__
scores = torch.tensor([0.2, 0.7, 0.1], requires_grad=True)
pirank.pirank_ndcg_loss(scores, torch.tensor([0.0, 0.0, 1.0])).backward()
assert scores.grad.isfinite().all()
"""


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True)


@pytest.mark.slow
def test_wheel_installs_and_works(tmp_path):
    options = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    pip("wheel", *options, "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("pirank-*-py3-none-any.whl")

    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = ROOT / "src"
    kept = {p.relative_to(sources).as_posix() for p in sources.rglob("*") if p.is_file()}
    assert packed == {name for name in kept if "__pycache__" not in name}
    assert "pirank/py.typed" in packed

    installed = tmp_path / "installed"
    pip("install", *options, "--target", str(installed), str(wheel))
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    subprocess.run([sys.executable, "-c", USE, str(installed)], check=True, cwd=tmp_path, env=environment)
