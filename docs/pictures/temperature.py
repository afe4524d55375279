"""Draw docs/pictures/temperature.svg from benchmarks/results/temperature.csv.

Run from anywhere: ``python docs/pictures/temperature.py``.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from statistics import mean

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot as plt

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "temperature.csv"


PANELS = {
    "τ in training": ("temperature", {"relative": "False", "k": "10"}),
    "τ in training, relative=True": ("temperature", {"relative": "True", "k": "10"}),
    "k in training": ("k", {"relative": "False", "temperature": "1.0"}),
}


def draw(path: Path) -> None:
    """NDCG@10 on other lists, against τ at k = 10 and against k at τ = 1: every seed, and the mean."""
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "pirank", "svg.fonttype": "path"})
    with RESULTS.open() as file:
        runs = list(csv.DictReader(file))
    figure, panels = plt.subplots(1, len(PANELS), figsize=(10, 2.9), layout="constrained", sharey=True)
    for panel, (label, (chosen, fixed)) in zip(panels, PANELS.items(), strict=True):
        found = defaultdict(list)
        for run in runs:
            if all(run[name] == value for name, value in fixed.items()):
                found[float(run[chosen])].append(float(run["ndcg@10"]))
        places = range(len(found))
        panel.plot(places, [mean(found[at]) for at in sorted(found)], color="#2f7ebc")
        for place, at in zip(places, sorted(found), strict=True):
            panel.plot([place] * len(found[at]), found[at], ".", color="#08306b")
        panel.set_xticks(places, [f"{at:,g}" for at in sorted(found)])
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("NDCG@10 on other lists")
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".svg"))
