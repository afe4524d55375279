"""Draw docs/pictures/staircase.svg: NDCG as one item's score moves, and its relaxations.

Run from anywhere: ``python docs/pictures/staircase.py``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch

matplotlib.use("svg")

from matplotlib import pyplot as plt

from pirank.losses import pirank_ndcg_loss
from pirank.metrics import NDCG

OTHERS = torch.tensor([2.0, 1.2, 0.4, -0.5, -1.3])
LABELS = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 2.0])
TEMPERATURES = {0.1: "#08306b", 1.0: "#2f7ebc", 10.0: "#94c4df"}


def draw(path: Path) -> None:
    """The metric on the left, its slope on the right."""
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "pirank", "svg.fonttype": "path"})
    moving = torch.linspace(-2.5, 3.2, 1141, requires_grad=True)
    scores = torch.cat([OTHERS.expand(len(moving), -1), moving[:, None]], dim=1)
    labels = LABELS.expand_as(scores)

    figure, (value, slope) = plt.subplots(1, 2, figsize=(10, 3.1), layout="constrained")
    hard = NDCG(k=None)(scores.detach(), labels, reduction="none")
    value.plot(moving.detach(), hard, color="black", linewidth=1.2, label="NDCG")
    for tau, color in TEMPERATURES.items():
        relaxed = 1 - pirank_ndcg_loss(scores, labels, k=None, temperature=tau, reduction="none")
        (gradient,) = torch.autograd.grad(relaxed.sum(), moving, retain_graph=True)
        value.plot(moving.detach(), relaxed.detach(), color=color, label=f"relaxed, τ = {tau:g}")
        slope.plot(moving.detach(), gradient, color=color, label=f"relaxed, τ = {tau:g}")
    slope.axhline(0, color="black", linewidth=1.2, label="NDCG: 0 wherever it has a slope")
    value.set_ylabel("value")
    slope.set_ylabel("slope")
    for panel in (value, slope):
        panel.set_xlabel("score of the best item; the others' scores are the ticks")
        panel.set_xticks(OTHERS, [f"{score:g}" for score in OTHERS.tolist()])
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".svg"))
