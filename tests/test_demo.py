"""The demo shows what it promises: a network that ranks better after training."""

from __future__ import annotations

import io

from rich.console import Console

from pirank.demo import main


def test_demo_improves_every_cutoff():
    shown = io.StringIO()
    after = main(steps=40, console=Console(file=shown, width=100))
    assert min(after.values()) > 0.35  # an untrained network is at about 0.2
    for k in (1, 3, 5, 10):
        assert f"NDCG@{k}" in shown.getvalue()
