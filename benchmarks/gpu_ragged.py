"""Loss and gradient of thousands of ragged lists on a GPU: flat kernels, and padded plain PyTorch.

    python benchmarks/gpu_ragged.py    # on a GPU: writes benchmarks/results/gpu-ragged.csv

4,096 lists of 1 to 1,251 items, 120 on average, as MSLR-WEB30K's; k = 10. The offsets lie on the CPU, or, as ``offsets
on the GPU``, where nobody knows the longest list without asking. Both layouts are compared with float64 first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

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
from pirank.lists import padded
from pirank.losses import PiRankNDCGLoss
from pirank.sorts import use_path

LISTS, MEAN, LONGEST, K = 4_096, 120, 1_251, 10
TEMPERATURES = (1.0, 1000.0)


def lengths() -> torch.Tensor:
    """As many items as MSLR-WEB30K's lists have, roughly."""
    random = torch.Generator().manual_seed(0)
    found = torch.distributions.Gamma(3.0, 3.0 / MEAN)
    with torch.random.fork_rng():
        torch.manual_seed(int(random.initial_seed()))
        items = found.sample((LISTS,)).round().clamp(1, LONGEST).long()
    items[:2] = torch.tensor([LONGEST, 1])
    return items


def measured() -> Iterator[dict[str, Any]]:
    """All rows."""
    items = lengths()
    offsets = torch.nn.functional.pad(items.cumsum(0), (1, 0))
    random = torch.Generator("cuda").manual_seed(0)
    scores = torch.randn(int(offsets[-1]), generator=random, device="cuda").requires_grad_()
    labels = torch.randint(0, 5, scores.shape, generator=random, device="cuda").float()
    there = offsets.cuda()
    wide, mask = padded(scores.detach(), there)
    wide_labels, _ = padded(labels, there)
    wide.requires_grad_()
    for temperature in TEMPERATURES:
        loss = PiRankNDCGLoss(k=K, temperature=temperature)
        plain = with_gradient(loss, wide, wide_labels, mask=mask)
        flat = with_gradient(loss, scores, labels, offsets=offsets)
        runs = {
            ("flat kernels", "eager"): flat,
            ("flat kernels", "graph"): as_graph(with_gradient(loss, scores, labels, offsets=there)),
            ("flat kernels, offsets on the GPU", "eager"): with_gradient(loss, scores, labels, offsets=there),
            ("padded kernels", "eager"): with_gradient(loss, wide, wide_labels, mask=mask),
        }
        exact = wide.detach().double().requires_grad_()
        with use_path("plain"):
            loss(exact, wide_labels.double(), mask=mask).backward()
        expected = exact.grad[mask]
        found = {}
        for (name, way), run in runs.items():
            run()
            grad = wide.grad[mask] if name == "padded kernels" else scores.grad
            error = relative_error(grad, expected)
            if not error <= 1e-5:
                raise SystemExit(f"wrong: {name}, {way}, τ = {temperature:g}: gradient error {error:.1e}")
            found[name, way] = (error, extra_megabytes(run) if way == "eager" else "", seconds_a_run(run))
        with use_path("plain"):
            found["padded plain PyTorch", "eager"] = ("", extra_megabytes(plain), seconds_a_run(plain))
        slow = quantiles(found["padded plain PyTorch", "eager"][2])["ms_50"]
        for (name, way), (error, memory, taken) in found.items():
            row = {"method": name, "way": way, "temperature": temperature, "lists": LISTS}
            row |= {"items": len(scores), "longest": LONGEST, "k": K, "runs": len(taken), **quantiles(taken)}
            row |= {"extra_mb": memory, "gradient_error": error}
            row["plain_times"] = round(slow / row["ms_50"], 2)
            print(name, way, temperature, row["ms_50"], "ms", row["plain_times"], "x", flush=True)
            yield row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu-ragged.csv")
    given = parser.parse_args()
    require_gpu()
    where = gpu_machine()
    write_rows(given.out, (row | where for row in measured()))
