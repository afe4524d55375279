"""Draw docs/pictures/relaxation.svg: the relaxed permutation matrix sharpening as the temperature falls.

Run from anywhere: ``python docs/pictures/relaxation.py``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch

matplotlib.use("svg")

from matplotlib import pyplot as plt

from pirank.losses import pirank_ndcg_loss
from pirank.metrics import NDCG
from pirank.sorts import NeuralSort

SCORES = torch.tensor([0.3, 2.1, -0.6, 1.1, 0.8, -1.4, 1.7])
LABELS = torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0])
TEMPERATURES = (10.0, 1.0, 0.1)


def draw(path: Path) -> None:
    """Matrices from hot to hard, side by side, each with the NDCG of its soft ranking."""
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "pirank", "svg.fonttype": "path"})
    items = len(SCORES)
    matrices = [NeuralSort(temperature=tau).matrix(SCORES) for tau in TEMPERATURES]
    matrices.append(torch.eye(items)[SCORES.argsort(descending=True)])
    titles = [f"τ = {tau:g}" for tau in TEMPERATURES] + ["the sort itself (τ → 0)"]
    ndcg = [1 - pirank_ndcg_loss(SCORES, LABELS, k=3, temperature=tau).item() for tau in TEMPERATURES]
    ndcg.append(NDCG(k=3)(SCORES, LABELS).item())

    figure, panels = plt.subplots(1, len(matrices), figsize=(10, 3.15), layout="constrained", sharey=True)
    for panel, matrix, title, value in zip(panels, matrices, titles, ndcg, strict=True):
        image = panel.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        panel.set_title(title, fontsize=11)
        panel.set_xlabel(f"score of each item, as given\n\nNDCG@3 = {value:.3f}")
        panel.set_xticks(range(items), [f"{score:g}" for score in SCORES.tolist()], fontsize=8)
        panel.set_yticks(range(items), range(1, items + 1))
        panel.tick_params(length=0)
        panel.spines[:].set_color("#999999")
    panels[0].set_ylabel("rank")
    bar = figure.colorbar(image, ax=panels, pad=0.01, fraction=0.03, ticks=[0, 0.5, 1])
    bar.set_label("weight of the item at the rank")
    bar.outline.set_visible(False)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".svg"))
