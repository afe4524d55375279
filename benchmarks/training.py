"""Training at the paper's benchmark settings: captured, step by step, and a plain PyTorch loop with a DataLoader.

    python benchmarks/training.py [--queries 18919] [--steps 100000] [--precision tf32] [--workers 4 8 16]
    python benchmarks/training.py --draw    # anywhere: draws docs/pictures/gpu-training.svg from the results

Data in the shape of MSLR-WEB30K: 18,919 queries with 1 to 1,251 documents, 120 on average, 136 features, and a third as
many queries to validate on every 1,000 steps. Captured training makes all the steps, the others a fiftieth of them. The
documents a second count documents, not padding, and the seconds all that happens once the libraries are imported:
compiling, planning, recording, validation (the plain loop does not validate). The plain loop is timed with several
numbers of processes that read for it, and the ratios are to the fastest. On a GPU it writes ``results/training.csv``,
and of every validation, ``results/training-validation.csv``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from measure import RESULTS, machine, quantiles, write_rows
from pirank import losses, models
from pirank.data import RankingData
from pirank.training import Settings, fit, make_fabric, preset
from pirank.training.devices import matrix_products

FEATURES, LONGEST, MEAN, LIST_SIZE = 136, 1251, 120, 200
SHARES_OF_GRADES = (0.515, 0.325, 0.134, 0.018, 0.008)  # of MSLR-WEB30K
STEPS_AT_A_TIME = 10
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "gpu-training.svg"


def mslr_shaped(queries: int, device: torch.device, seed: int) -> RankingData:
    """Random lists with the lengths and grades of MSLR-WEB30K; the first features tell the grade a little."""
    rng = np.random.default_rng(seed)
    lengths = rng.gamma(3.0, MEAN / 3.0, queries).round().clip(1, LONGEST).astype(np.int64)
    lengths[0] = LONGEST
    offsets = torch.from_numpy(np.concatenate([[0], lengths.cumsum()]))
    generator = torch.Generator(device).manual_seed(seed)
    features = torch.randn(int(offsets[-1]), FEATURES, device=device, generator=generator)
    signal = features[:, :4].sum(1) + 2 * torch.randn(len(features), device=device, generator=generator)
    ordered = signal[:1_000_000].sort().values
    bounds = ordered[(torch.tensor(SHARES_OF_GRADES[:-1]).cumsum(0) * (len(ordered) - 1)).long().to(device)]
    return RankingData(features, torch.bucketize(signal, bounds).float(), offsets)


def with_fit(
    capture: str,
    train: RankingData,
    valid: RankingData,
    settings: Settings,
    device: torch.device,
    curve: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Seconds of a whole ``fit``, and of its steps between two looks; ``curve`` gets its validations."""
    torch.manual_seed(0)
    network = models.get(settings.model, FEATURES)
    looks: list[tuple[int, float]] = [(0, 0.0)]
    way = ""

    def report(record: dict[str, Any]) -> None:
        nonlocal way
        if record["event"] == "step":
            looks.append((record["step"], record["seconds"]))
        elif record["event"] == "strategy":
            way = record["why"]
        elif record["event"] == "validation" and curve is not None:
            seconds = time.perf_counter() - began
            curve.append({"step": record["step"], "seconds": round(seconds, 2), "loss": round(record["loss"], 5),
                          "ndcg@10": round(record["ndcg@10"], 5)})  # fmt: skip

    fabric = make_fabric(accelerator=device.type, precision=settings.precision)
    began = time.perf_counter()
    progress = fit(
        network,
        losses.get(settings.loss, **settings.loss_options),
        train,
        valid,
        settings=settings.changed(capture=capture),
        fabric=fabric,
        report=report,
    )
    _wait(device)
    whole = time.perf_counter() - began
    assert progress.best is not None, "it was validated"
    about = {"note": way, "best_ndcg_10": round(progress.best, 4), "best_step": progress.best_step}
    each = [(later[1] - sooner[1]) / (later[0] - sooner[0]) for sooner, later in pairwise(looks)]
    return {**about, **_row(progress.step, progress.documents, whole, each, device)}


class Padded(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """A query an item, shuffled, cut and padded, as public learning-to-rank code does it."""

    def __init__(self, data: RankingData) -> None:
        assert data.labels is not None
        self.features, self.labels, self.offsets = data.features, data.labels, data.offsets.tolist()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> tuple[Tensor, Tensor, Tensor]:
        start, stop = self.offsets[query], self.offsets[query + 1]
        rows = start + torch.randperm(stop - start)[:LIST_SIZE]
        features, labels = torch.zeros(LIST_SIZE, FEATURES), torch.zeros(LIST_SIZE)
        features[: len(rows)], labels[: len(rows)] = self.features[rows], self.labels[rows]
        return features, labels, torch.tensor(len(rows))


def pairwise_ndcg_loss(scores: Tensor, labels: Tensor, k: int, temperature: float) -> Tensor:
    """1 − NDCG@k of NeuralSort's matrix, from all pairwise distances, as public code writes it."""
    size = scores.shape[1]
    distances = (scores[:, :, None] - scores[:, None]).abs().sum(-1)
    ranks = torch.arange(1, size + 1, device=scores.device)
    logits = (size + 1 - 2 * ranks)[:, None] * scores[:, None] - distances[:, None]
    matrix = torch.softmax(logits / temperature, -1)
    gains = torch.exp2(labels) - 1
    discounts = 1 / torch.log2(1.0 + ranks[:k])
    dcg = ((matrix @ gains[..., None])[:, :k, 0] * discounts).sum(-1)
    best = (gains.sort(descending=True).values[:, :k] * discounts).sum(-1)
    return (1 - dcg / best.clamp(min=1e-10))[best > 0].mean()


def plain_loop(train: RankingData, settings: Settings, device: torch.device, workers: int) -> dict[str, Any]:
    """A loop over a DataLoader, one eager step after the other, without validation."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((FEATURES, 1024), (1024, 512), (512, 256)):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(0.3)]
    network = nn.Sequential(*layers, nn.Linear(256, 1)).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    options = settings.loss_options
    loader = DataLoader(
        Padded(train.to("cpu")),
        settings.batch_size,
        shuffle=True,
        num_workers=workers,
        pin_memory=device.type == "cuda",
    )
    step, documents, each = 0, 0, []
    began = last = time.perf_counter()
    while step < (settings.steps or 0):
        for features, labels, lengths in loader:
            features, labels = features.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            scores = network(features.flatten(0, 1)).view(labels.shape)
            loss = pairwise_ndcg_loss(scores, labels, options["k"], options["temperature"])
            loss.backward()
            optimizer.step()
            step += 1
            documents += int(lengths.sum())
            if step % STEPS_AT_A_TIME == 0 or step == settings.steps:
                loss.item()
                now = time.perf_counter()
                each.append((now - last) / ((step - 1) % STEPS_AT_A_TIME + 1))
                last = now
            if step == settings.steps:
                break
    _wait(device)
    about = {"note": f"{workers} workers", "best_ndcg_10": "", "best_step": ""}
    return about | _row(step, documents, time.perf_counter() - began, each, device)


def _row(
    steps: int, documents: int, seconds: float, each: list[float], device: torch.device
) -> dict[str, Any]:
    memory = torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else 0.0
    return {
        "steps": steps,
        "seconds": round(seconds, 2),
        "ms_a_step": round(1e3 * seconds / steps, 4),
        **quantiles(each),
        "documents_a_second": round(documents / seconds),
        "peak_gb_with_data": round(memory, 2),
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def draw(results: Path) -> None:
    """A picture of the steps that were made, against the seconds since the beginning."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "pirank"
    with results.open() as file:
        rows = list(csv.DictReader(file))
    with validations_of(results).open() as file:
        curve = list(csv.DictReader(file))
    captured = rows[0]
    plain = min((row for row in rows if row["way"] == "plain loop"), key=lambda row: float(row["ms_a_step"]))
    figure, axes = plt.subplots(figsize=(7.5, 3.4))
    seconds = [0.0, *(float(row["seconds"]) for row in curve)]
    made = [0.0, *(float(row["step"]) for row in curve)]
    axes.plot(seconds, made, "-", color="#2166ac", label="captured, compiling and validation included")
    share = seconds[-1] / (float(plain["seconds"]))
    axes.plot([0, seconds[-1]], [0, share * float(plain["steps"])], "--", color="#b2182b",
              label=f"plain PyTorch loop, at the pace of its {int(plain['steps']):,} steps")  # fmt: skip
    axes.set(xlabel="seconds", ylabel="steps", xlim=(0, None), ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(
        f"The paper's network, 16 lists of up to {LIST_SIZE} a step, {captured['gpu']}", fontsize=10
    )
    axes.grid(True, alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(PICTURE, bbox_inches="tight", metadata={"Date": None})


def validations_of(results: Path) -> Path:
    """The file beside the results that holds the validations."""
    return results.with_name(f"{results.stem}-validation.csv")


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=18919)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="tf32")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[4, 8, 16], help="processes of the plain loop's DataLoader"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "training.csv")
    parser.add_argument("--draw", action="store_true", help="draw the picture from the CSV files")
    given = parser.parse_args()
    if given.draw:
        draw(given.out)
        return
    device = torch.device(given.device)
    train = mslr_shaped(given.queries, device, seed=1)
    valid = mslr_shaped(max(given.queries // 3, 1), device, seed=2)
    every = min(1000, max(given.steps // 2, 1))
    settings = preset("paper-benchmark").changed(
        steps=given.steps, precision=given.precision, validate_every=every
    )
    fewer = settings.changed(steps=min(given.steps, max(given.steps // 50, 200)))
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "none"
    rows: list[dict[str, Any]] = []
    curve: list[dict[str, Any]] = []
    runs: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        ("captured", lambda: with_fit("on", train, valid, settings, device, curve)),
        ("step by step", lambda: with_fit("off", train, valid, fewer, device)),
    ]
    for workers in given.workers:
        runs.append(("plain loop", lambda workers=workers: plain_loop(train, fewer, device, workers)))
    for way, run in runs:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with matrix_products(given.precision) if way == "plain loop" else nullcontext():
            found = run()
        about = {"queries": len(train), "documents": train.documents, "precision": given.precision}
        rows.append({"way": way, **found, **about, "gpu": name, "cuda": str(torch.version.cuda), **machine()})
        print(*rows[-1].values(), file=sys.stderr, flush=True)
    rival = max(row["documents_a_second"] for row in rows if row["way"] == "plain loop")
    for row in rows:
        ratio = row["documents_a_second"] / rival
        row["times_the_plain_loop"] = round(ratio, 2)
        print(
            f"{row['way']}, {row['note']}: {row['ms_a_step']} ms a step, {ratio:.2f} x the plain loop's documents"
        )
    if device.type == "cuda":
        write_rows(given.out, rows)
        write_rows(validations_of(given.out), curve)
    else:
        print("not written: these are not the numbers of a GPU", file=sys.stderr)


if __name__ == "__main__":
    main()
