"""The sorts on a GPU, each way by itself: ``apply`` and its gradient, kernels and plain PyTorch.

    python benchmarks/gpu_sorts.py    # on a GPU: writes benchmarks/results/gpu-sorts.csv

16 lists, k = 10, one value an item, float32, unit-variance scores; NeuralSort at τ = 1 and 5 × length, SoftSort at
τ = 0.1, and trees of NeuralSort. ``graph`` is the work replayed as a CUDA graph. Before a size is timed, values and
gradient are compared with float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from gpu import as_graph, extra_megabytes, gpu_machine, relative_error, require_gpu, seconds_a_run
from measure import RESULTS, quantiles, write_rows
from pirank.sorts import NeuralSort, SoftSort, Sort, Tree, use_path

LISTS, K = 16, 10
LENGTHS = (200, 2_048, 10_000, 100_000, 1_000_000)
VALUE_ERROR, GRADIENT_ERROR = 1e-6, 1e-5
WRONG = 1e-3
inaccurate: list[str] = []


def sorts(length: int) -> dict[str, Sort]:
    """What is measured at a length."""
    return {
        "NeuralSort, τ = 1": NeuralSort(1.0),
        "NeuralSort, τ = 5 L": NeuralSort(5.0 * length),
        "SoftSort, τ = 0.1": SoftSort(0.1),
        "tree of NeuralSort, d = 2": Tree(NeuralSort(1.0), depth=2),
        "tree of NeuralSort, d = 3": Tree(NeuralSort(1.0), depth=3),
    }


def measured(length: int) -> Iterator[dict[str, Any]]:
    """All rows of a length."""
    random = torch.Generator("cuda").manual_seed(length)
    scores = torch.randn(LISTS, length, generator=random, device="cuda").requires_grad_()
    values = torch.rand(LISTS, length, generator=random, device="cuda")
    weights = torch.linspace(0.5, 1.5, K, device="cuda")
    for name, sort in sorts(length).items():

        def forward(sort: Sort = sort) -> torch.Tensor:
            return sort.apply(scores, values, K)

        def both() -> None:
            scores.grad = None
            (forward() * weights).sum().backward()

        def plain() -> None:
            with use_path("plain"):
                both()

        both()
        exact = scores.detach().double().requires_grad_()
        with use_path("plain"):
            expected = sort.apply(exact, values.double(), K)
        (expected * weights.double()).sum().backward()
        errors = (
            relative_error(forward().detach(), expected.detach()),
            relative_error(scores.grad, exact.grad),
        )
        if not (errors[0] <= VALUE_ERROR and errors[1] <= GRADIENT_ERROR):
            inaccurate.append(f"{name}, {length} items: errors {errors}")
            if max(errors) > WRONG:
                continue
        runs = {
            ("forward", "eager"): torch.no_grad()(forward),
            ("forward and backward", "eager"): both,
            ("forward and backward", "graph"): as_graph(both),
            ("forward and backward, plain PyTorch", "eager"): plain,
        }
        for (what, way), run in runs.items():
            memory = round(extra_megabytes(run), 3) if way == "eager" else ""
            taken = seconds_a_run(run, budget=0.2)
            row = {"sort": name, "what": what, "way": way, "lists": LISTS, "length": length, "k": K}
            row |= {"runs": len(taken), **quantiles(taken), "extra_mb": memory}
            row |= {"value_error": f"{errors[0]:.1e}", "gradient_error": f"{errors[1]:.1e}"}
            print(name, what, way, length, row["ms_50"], "ms", flush=True)
            yield row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu-sorts.csv")
    given = parser.parse_args()
    require_gpu()
    where = gpu_machine()
    write_rows(given.out, (row | where for length in LENGTHS for row in measured(length)))
    if inaccurate:
        raise SystemExit("less exact than the target:\n" + "\n".join(inaccurate))
