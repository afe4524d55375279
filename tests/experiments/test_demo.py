"""``make demo`` is one command that needs no data: it compares PiRank with the five losses of the paper."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from pirank.cli import app
from pirank.experiments.methods import PAPER_LOSSES


def test_the_demo_compares_six_losses_without_any_data(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    (line,) = [line for line in makefile.splitlines() if "pirank compare" in line and "BIN" in line]
    command = line.split("pirank ", 1)[1].split()
    assert command == ["compare", "--quick", "--out", "runs/demo"]
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*command, "--steps", "3", "--seeds", "1"])
    assert result.exit_code == 0, result.output
    for name in PAPER_LOSSES:
        assert name in result.output
    assert (tmp_path / "runs" / "demo" / "report.html").exists()
    assert "report: runs/demo/report.html" in result.output
