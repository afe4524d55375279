"""Loss and gradient of PiRank-NDCG against list length, on the CPU.

    python benchmarks/sorts.py            # writes benchmarks/results/sorts.csv and docs/pictures/cost.svg

Rivals in the same run: the pairwise definition (as far as memory lets it), ``torch.sort`` alone, and the paper's
3-level tree. 16 lists, k = 10, float32, unit-variance scores. Before anything is timed, the exact form is compared with
the definition in float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from measure import RESULTS, machine, quantiles, seconds, write_rows
from pirank.losses import PiRankLoss, PiRankNDCGLoss
from pirank.metrics import NDCG
from pirank.sorts import NeuralSort, Tree, naive_neural_sort

LISTS, K = 16, 10
LENGTHS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000)
TEMPERATURES = (0.01, 1.0, 100.0, 1e4, 1e7)
NAIVE_UP_TO = 5_000
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "cost.svg"


def naive_loss(scores: Tensor, labels: Tensor, temperature: float) -> Tensor:
    gains = torch.exp2(labels) - 1
    discounts = 1 / torch.log2(torch.arange(2, K + 2, dtype=scores.dtype))
    ranked = (naive_neural_sort(scores, temperature, K) @ gains[..., None])[..., 0]
    return (1 - (ranked * discounts).sum(-1) / (gains.topk(K).values * discounts).sum(-1)).mean()


def check() -> None:
    """No speed is reported for a wrong number."""
    scores = torch.randn(4, 300, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(0, 5, (4, 300), generator=torch.Generator().manual_seed(2)).float()
    for temperature in TEMPERATURES:
        exact = scores.clone().requires_grad_()
        PiRankNDCGLoss(k=K, temperature=temperature)(exact, labels).backward()
        naive = scores.double().requires_grad_()
        naive_loss(naive, labels.double(), temperature).backward()
        error = (exact.grad - naive.grad).abs().max() / naive.grad.abs().max()
        if not error < 5e-5:
            raise SystemExit(f"wrong gradient at temperature {temperature:g}: relative error {error:.1e}")


def rivals(length: int) -> dict[tuple[str, float], Callable[[], object]]:
    scores = torch.randn(LISTS, length, generator=torch.Generator().manual_seed(length)).requires_grad_()
    labels = torch.randint(0, 5, (LISTS, length), generator=torch.Generator().manual_seed(0)).float()

    def step(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], object]:
        def run() -> None:
            scores.grad = None
            loss(scores, labels).backward()

        return run

    runs: dict[tuple[str, float], Callable[[], object]] = {
        ("torch.sort alone", 0.0): lambda: scores.detach().sort(dim=-1, descending=True)
    }
    for temperature in TEMPERATURES:
        runs["exact", temperature] = step(PiRankNDCGLoss(k=K, temperature=temperature))
    tree = PiRankLoss(NDCG(k=K), Tree(NeuralSort(1.0), depth=3))
    runs["tree, depth 3", 1.0] = step(tree)
    if length <= NAIVE_UP_TO:
        runs["pairwise", 1.0] = step(lambda s, y: naive_loss(s, y, 1.0))
    return runs


def measured(lengths: tuple[int, ...]) -> list[dict[str, object]]:
    rows = []
    where = machine()
    for length in lengths:
        runs = rivals(length)
        # In turns, so that a disturbance of the machine hits all rivals alike.
        taken: dict[tuple[str, float], list[float]] = {name: [] for name in runs}
        for _ in range(3):
            for name, run in runs.items():
                taken[name] += seconds(run, at_least=2, at_most=100, budget=0.7)
        for (name, temperature), times in taken.items():
            row = {"method": name, "temperature": temperature, "lists": LISTS, "length": length, "k": K}
            row |= {"runs": len(times)} | quantiles(times)
            sort_alone = quantiles(taken["torch.sort alone", 0.0])["ms_50"]
            row["times_sort"] = round(row["ms_50"] / sort_alone, 3)
            naive = taken.get(("pairwise", 1.0))
            row["naive_times"] = round(quantiles(naive)["ms_50"] / row["ms_50"], 2) if naive else ""
            rows.append(row | where)
            print(
                f"{length:>9,} {name:18} τ={temperature:<8g} {row['ms_50']:>10.3f} ms  {row['times_sort']:>8.2f} sorts"
            )
    return rows


def draw(rows: list[dict[str, object]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "pirank"
    figure, axes = plt.subplots(figsize=(7, 4.5))
    looks = {
        ("pairwise", 1.0): ("pairwise definition", "#b2182b", "s-"),
        ("tree, depth 3", 1.0): ("the paper's tree, depth 3 (exact nodes)", "#b8860b", "^-"),
        ("exact", 1e4): ("exact, τ = 10,000", "#2166ac", "o-"),
        ("exact", 1.0): ("exact, τ = 1", "#67a9cf", "o--"),
        ("torch.sort alone", 0.0): ("torch.sort alone", "#555555", "x:"),
    }
    for key, (label, colour, style) in looks.items():
        points = [(r["length"], r["ms_50"]) for r in rows if (r["method"], r["temperature"]) == key]
        axes.plot(*zip(*points, strict=True), style, color=colour, label=label, markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="items in a list", ylabel="milliseconds, loss and gradient")
    axes.set_title(f"{LISTS} lists, k = {K}, float32, {rows[0]['threads']} CPU threads", fontsize=10)
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="lists of up to 10,000 items only")
    parser.add_argument("--out", type=Path, default=RESULTS / "sorts.csv")
    options = parser.parse_args()
    check()
    table = measured(LENGTHS[:7] if options.quick else LENGTHS)
    write_rows(options.out, table)
    draw(table, options.out.with_suffix(".svg") if options.quick else PICTURE)
