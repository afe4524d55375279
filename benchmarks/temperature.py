"""Train one small network at many temperatures and cutoffs, on the paper's synthetic data.

Writes ``benchmarks/results/temperature.csv``, one row a run; ``docs/pictures/temperature.py`` draws it.

    python benchmarks/temperature.py
"""

from __future__ import annotations

import csv
import itertools
import platform
from pathlib import Path

import torch
from torch import nn

from pirank.data import synthetic
from pirank.losses import pirank_ndcg_loss
from pirank.metrics import NDCG

LIST_SIZE = 100
STEPS = 300
TEMPERATURES = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
RELATIVE_TEMPERATURES = [0.0001, 0.001, 0.01, 0.1, 1.0]
CUTOFFS = [1, 3, 10, LIST_SIZE]
SEEDS = [0, 1, 2]
RESULTS = Path(__file__).parent / "results" / "temperature.csv"


def main() -> None:
    """All temperatures at k = 10, raw and relative, and all cutoffs at τ = 1."""
    grid = [(tau, False, 10) for tau in TEMPERATURES] + [(1.0, False, k) for k in CUTOFFS if k != 10]
    grid += [(tau, True, 10) for tau in RELATIVE_TEMPERATURES]
    rows = [run(tau, relative, k, seed) for seed, (tau, relative, k) in itertools.product(SEEDS, grid)]
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def run(tau: float, relative: bool, k: int, seed: int) -> dict[str, object]:
    """One network trained with PiRank-NDCG@k at temperature τ, and its NDCG on other lists."""
    torch.manual_seed(seed)
    features, labels = lists_of(2000, seed)
    network = nn.Sequential(
        nn.Linear(features.shape[-1], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)
    )
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        chosen = torch.randint(len(features), (32,))
        scores = network(features[chosen]).squeeze(-1)
        loss = pirank_ndcg_loss(scores, labels[chosen], k=k, temperature=tau, relative=relative)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    features, labels = lists_of(500, seed + 1000)
    with torch.no_grad():
        scores = network(features).squeeze(-1)
    ndcg = {f"ndcg@{cut}": round(NDCG(k=cut)(scores, labels).item(), 4) for cut in (1, 3, 10)}
    return {
        "temperature": tau,
        "relative": relative,
        "k": k,
        "seed": seed,
        "steps": STEPS,
        **ndcg,
        "score_spread": round(scores.std(-1).mean().item(), 4),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }


def lists_of(lists: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and labels of the synthetic task, the columns that count among the features."""
    data = synthetic(lists, LIST_SIZE, reveal_columns=True, seed=seed)
    assert data.labels is not None
    return data.features.view(lists, LIST_SIZE, -1), data.labels.view(lists, LIST_SIZE)


if __name__ == "__main__":
    main()
