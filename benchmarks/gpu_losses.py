"""Loss and gradient on a GPU against list length, k and the number of lists: the fused kernels, and what others cost.

    python benchmarks/gpu_losses.py          # on a GPU: writes benchmarks/results/gpu-losses.csv
    python benchmarks/gpu_losses.py --draw   # anywhere: draws docs/pictures/gpu-*.svg from it

16 lists, k = 10, float32, unit-variance scores, unless a row says otherwise. ``eager`` is what a program sees that
calls loss and backward twenty times in a row, ``graph`` the same work replayed as a CUDA graph. Before a size is timed,
value and gradient are compared with float64: the pairwise definition up to 2,048 items, the exact form above. Wrong
numbers are not timed; errors above the target are named at the end, and the exit code says so.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu import (
    as_graph,
    extra_megabytes,
    gpu_machine,
    relative_error,
    require_gpu,
    seconds_a_run,
    with_gradient,
)
from measure import RESULTS, quantiles, write_rows
from pirank.losses import ApproxNDCGLoss, LambdaRankLoss, NeuralNDCGLoss, PiRankNDCGLoss, SoftmaxLoss
from pirank.sorts import naive_neural_sort, use_path

LISTS, K = 16, 10
LENGTHS = (200, 10_000, 1_000_000, 50, 1_000, 2_048, 100_000)  # those with targets first
CUTOFFS = (1, 10, 64)
BATCHES = (1, 16, 256, 4_096)
VALUE_ERROR, GRADIENT_ERROR = 1e-6, 1e-5
WRONG = 1e-3
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

Loss = Callable[[Tensor, Tensor], Tensor]
inaccurate: list[str] = []


def batch(lists: int, length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores that want a gradient, and labels from 0 to 4."""
    random = torch.Generator("cuda").manual_seed(seed + length)
    scores = torch.randn(lists, length, generator=random, device="cuda")
    labels = torch.randint(0, 5, (lists, length), generator=random, device="cuda").float()
    return scores.requires_grad_(), labels


def ndcg_of(matrix: Tensor, labels: Tensor, k: int) -> Tensor:
    """1 − NDCG@k from rows of a relaxed permutation matrix."""
    gains = torch.exp2(labels) - 1
    discounts = 1 / torch.log2(torch.arange(2, k + 2, dtype=matrix.dtype, device=matrix.device))
    dcg = ((matrix[:, :k] @ gains[..., None])[..., 0] * discounts).sum(-1)
    return (1 - dcg / (gains.topk(k).values * discounts).sum(-1)).mean()


def pairwise(temperature: float, k: int = K) -> Loss:
    """The definition: a matrix of all pairwise distances, its row sums, k rows of a softmax."""
    return lambda scores, labels: ndcg_of(naive_neural_sort(scores, temperature, k), labels, k)


def ones_matrix(temperature: float, k: int = K) -> Loss:
    """As public code writes NeuralSort: row sums by a product with a matrix of ones, all L rows of the softmax."""

    def loss(scores: Tensor, labels: Tensor) -> Tensor:
        size = scores.shape[1]
        distances = (scores[:, :, None] - scores[:, None]).abs()
        sums = distances @ torch.ones(size, size, device=scores.device)
        scaling = size + 1 - 2 * torch.arange(1, size + 1, device=scores.device, dtype=scores.dtype)
        logits = scaling[:, None] * scores[:, None] - sums.mT
        return ndcg_of(torch.softmax(logits / temperature, -1), labels, k)

    return loss


def check(lists: int, length: int, temperature: float, k: int = K) -> dict[str, Any]:
    """How far value and gradient are from float64."""
    scores, labels = batch(min(lists, 16), length)
    loss = PiRankNDCGLoss(k=k, temperature=temperature)
    value = loss(scores, labels)
    value.backward()
    exact = scores.detach().double().requires_grad_()
    reference: Loss = pairwise(temperature, k) if length <= 2_048 else loss
    with use_path("plain"):
        expected = reference(exact, labels.double())
        expected.backward()
    found = relative_error(value.detach(), expected.detach()), relative_error(scores.grad, exact.grad)
    if not (found[0] <= VALUE_ERROR and found[1] <= GRADIENT_ERROR):
        inaccurate.append(f"{lists} x {length} items, τ = {temperature:g}, k = {k}: errors {found}")
    return {"value_error": f"{found[0]:.1e}", "gradient_error": f"{found[1]:.1e}"}


def right(errors: dict[str, Any]) -> bool:
    """Whether numbers are good enough for their time to mean anything."""
    return all(float(error or 0) <= WRONG for error in errors.values())


def plain(loss: Loss) -> Loss:
    """The same loss in PyTorch's own operations."""

    def run(scores: Tensor, labels: Tensor) -> Tensor:
        with use_path("plain"):
            return loss(scores, labels)

    return run


def rivals(length: int) -> Iterator[tuple[str, float, Loss, bool]]:
    """Name, temperature, loss, and whether it can be replayed as a graph."""
    for temperature in (1.0, 5.0 * length):
        yield "pirank kernels", temperature, PiRankNDCGLoss(k=K, temperature=temperature), True
    for depth in (2, 3):
        yield f"pirank tree, d = {depth}", 1.0, PiRankNDCGLoss(k=K, depth=depth), True
    yield "pirank in plain PyTorch", 1.0, plain(PiRankNDCGLoss(k=K)), False
    yield "softmax", 0.0, SoftmaxLoss(), True
    yield "lambdarank", 0.0, LambdaRankLoss(k=K), False
    if length <= 10_000:
        yield "pairwise definition", 1.0, pairwise(1.0), True
        yield "approx-ndcg", 0.1, ApproxNDCGLoss(), False
        yield "ones matrix", 1.0, ones_matrix(1.0), False
    if length <= 2_048:
        yield "neural-ndcg (Sinkhorn)", 1.0, NeuralNDCGLoss(k=K), False


def row_of(name: str, way: str, run: Callable[[], Any], about: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Time a run and say so."""
    memory = extra_megabytes(run) if way == "eager" else 0.0
    taken = seconds_a_run(run)
    row = {"method": name, "way": way, **about, "runs": len(taken), **quantiles(taken)}
    row |= {"extra_mb": round(memory, 3) if way == "eager" else "", **more}
    print(*(row[column] for column in ("method", "way", "temperature", "lists", "length", "k", "ms_50", "extra_mb")),
          *more.values(), flush=True)  # fmt: skip
    return row


def both_ways(
    name: str, loss: Loss, graph: bool, about: dict[str, Any], **more: Any
) -> Iterator[dict[str, Any]]:
    """A loss eager, and replayed as a graph."""
    if not right(more):
        return
    scores, labels = batch(about["lists"], about["length"])
    run = with_gradient(loss, scores, labels)
    nothing = dict.fromkeys(more, "")
    try:
        yield row_of(name, "eager", run, about, **more)
        if graph:
            yield row_of(name, "graph", as_graph(run), about, **nothing)
    except torch.OutOfMemoryError:
        print(name, about, "does not fit into the memory", flush=True)


def measured(lengths: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """All rows."""
    for length in lengths:
        for name, temperature, loss, graph in rivals(length):
            about = {"temperature": temperature, "lists": LISTS, "length": length, "k": K}
            errors = {"value_error": "", "gradient_error": ""}
            if name == "pirank kernels":
                errors = check(LISTS, length, temperature)
            yield from both_ways(name, loss, graph, about, **errors)
        scores, _ = batch(LISTS, length)
        about = {"temperature": 0.0, "lists": LISTS, "length": length, "k": K}
        alone = lambda scores=scores: scores.detach().sort(dim=-1, descending=True)  # noqa: E731
        for way, run in (("eager", alone), ("graph", as_graph(alone))):
            yield row_of("torch.sort alone", way, run, about, value_error="", gradient_error="")
    for length, k in [(200, k) for k in (*CUTOFFS, 200)] + [(10_000, k) for k in CUTOFFS]:
        about = {"temperature": 5.0 * length, "lists": LISTS, "length": length, "k": k}
        errors = check(LISTS, length, 5.0 * length, k)
        loss = PiRankNDCGLoss(k=k, temperature=5.0 * length)
        yield from both_ways("pirank kernels, by k", loss, True, about, **errors)
    about = {"temperature": 1.0, "lists": 1, "length": 100_000_000, "k": K}
    for name, temperature in (("pirank kernels, one list", 1.0), ("pirank kernels, one list", 5e8)):
        loss = PiRankNDCGLoss(k=K, temperature=temperature)
        errors = check(1, 100_000_000, temperature)
        yield from both_ways(name, loss, False, about | {"temperature": temperature}, **errors)
    for lists in BATCHES:
        about = {"temperature": 1000.0, "lists": lists, "length": 200, "k": K}
        errors = check(lists, 200, 1000.0)
        loss = PiRankNDCGLoss(k=K, temperature=1000.0)
        yield from both_ways("pirank kernels, by lists", loss, True, about, **errors)


def main() -> None:
    """Measure and write, or draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="draw the pictures from the CSV file")
    parser.add_argument("--quick", action="store_true", help="lists of 200, 10,000 and 1,000,000 items only")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu-losses.csv")
    given = parser.parse_args()
    if given.draw:
        with given.out.open() as file:
            draw(list(csv.DictReader(file)))
        return
    require_gpu()
    where = gpu_machine()
    lengths = LENGTHS[:3] if given.quick else LENGTHS
    write_rows(given.out, (row | where for row in measured(lengths)))
    if inaccurate:
        raise SystemExit("less exact than the target:\n" + "\n".join(inaccurate))


def draw(rows: list[dict[str, str]]) -> None:
    """Pictures of time against length, and against k and the number of lists."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "pirank"
    save = {"bbox_inches": "tight", "metadata": {"Date": None}}

    def points(
        name: str, way: str, against: str, soft: bool | None = None, **fixed: int
    ) -> list[list[float]]:
        found = []
        for row in rows:
            same = row["method"] == name and row["way"] == way
            same = same and all(int(row[column]) == value for column, value in fixed.items())
            if same and soft in (None, float(row["temperature"]) > 1):
                found.append((float(row[against]), float(row["ms_50"])))
        return [list(axis) for axis in zip(*sorted(found), strict=True)]

    figure, axes = plt.subplots(figsize=(7.5, 5))
    for name, soft, way, label, colour, style in (
        ("ones matrix", None, "eager", "ones matrix, as public code", "#7f0000", "v:"),
        ("neural-ndcg (Sinkhorn)", None, "eager", "NeuralNDCG (Sinkhorn)", "#d6604d", "d:"),
        ("approx-ndcg", None, "eager", "ApproxNDCG", "#b8860b", "P:"),
        ("lambdarank", None, "eager", "LambdaRank", "#8c6bb1", "<:"),
        ("pirank in plain PyTorch", None, "eager", "PiRank in plain PyTorch, τ = 1", "#67a9cf", "o:"),
        ("pairwise definition", None, "graph", "pairwise definition", "#b2182b", "s-"),
        ("softmax", None, "graph", "softmax", "#999999", "*-"),
        ("pirank tree, d = 3", None, "graph", "PiRank, the paper's tree, d = 3", "#5aae61", "^-"),
        ("pirank kernels", True, "graph", "PiRank kernels, τ = 5 L", "#2166ac", "o--"),
        ("pirank kernels", False, "graph", "PiRank kernels, τ = 1", "#053061", "o-"),
        ("torch.sort alone", None, "graph", "torch.sort alone", "#333333", "x-"),
    ):
        axes.plot(*points(name, way, "length", soft), style, color=colour, label=label, markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="items in a list", ylabel="milliseconds, loss and gradient")
    axes.set_title(
        f"{LISTS} lists, k = {K}, float32, {rows[0]['gpu']}; as a graph, or (dotted) eager", fontsize=10
    )
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(frameon=False, fontsize=7.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    figure.savefig(PICTURES / "gpu-length.svg", **save)

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    for length, colour in ((200, "#2166ac"), (10_000, "#b2182b")):
        left.plot(*points("pirank kernels, by k", "graph", "k", length=length), "o-", color=colour, markersize=4,
                  label=f"{LISTS} lists of {length:,}")  # fmt: skip
    right.plot(*points("pirank kernels, by lists", "graph", "lists"), "o-", color="#2166ac", markersize=4,
               label="lists of 200, k = 10")  # fmt: skip
    left.set(xscale="log", yscale="log", xlabel="k", ylabel="milliseconds, loss and gradient")
    right.set(xscale="log", yscale="log", xlabel="lists")
    figure.suptitle(f"As a graph, float32, τ = 5 L, {rows[0]['gpu']}", fontsize=10)
    for axes in (left, right):
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(frameon=False, fontsize=7.5)
        axes.set_yticks([0.025, 0.05, 0.1, 0.2, 0.4])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
    figure.savefig(PICTURES / "gpu-k-and-lists.svg", **save)


if __name__ == "__main__":
    main()
