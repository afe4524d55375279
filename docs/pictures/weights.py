"""Draw docs/pictures/weights.svg: how many items carry weight in the first ranks, by temperature.

Run from anywhere: ``python docs/pictures/weights.py``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch

matplotlib.use("svg")

from matplotlib import pyplot as plt

from pirank.sorts import NeuralSort

LENGTHS = {100: "#94c4df", 1000: "#2f7ebc", 10000: "#08306b"}
TEMPERATURES = torch.logspace(-2, 5, 57).tolist()
K = 10


def draw(path: Path) -> None:
    """The effective number of items in the first 10 ranks, for raw and for relative temperatures."""
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "pirank", "svg.fonttype": "path"})
    figure, panels = plt.subplots(1, 2, figsize=(10, 3.1), layout="constrained", sharey=True)
    for length, color in LENGTHS.items():
        scores = torch.randn(20, length, generator=torch.Generator().manual_seed(0))
        label = f"L = {length:,}"
        raw = [taking_part(scores, NeuralSort(tau)) for tau in TEMPERATURES]
        panels[0].plot(TEMPERATURES, raw, color=color, label=label)
        relative = [tau / 10**4 for tau in TEMPERATURES]
        panels[1].plot(
            relative,
            [taking_part(scores, NeuralSort(tau, relative=True)) for tau in relative],
            color=color,
            label=label,
        )
    panels[0].set_xlabel("τ (scores of standard deviation 1)")
    panels[1].set_xlabel("τ, relative=True: in units of L × standard deviation")
    panels[0].set_ylabel("items in the first 10 ranks")
    for panel in panels:
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def taking_part(scores: torch.Tensor, sort: NeuralSort) -> float:
    """The effective number of items in the first k ranks: e^entropy of their mean weights, averaged over lists."""
    share = sort.matrix(scores, K).mean(-2)
    return torch.special.entr(share).sum(-1).exp().mean().item()


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".svg"))
