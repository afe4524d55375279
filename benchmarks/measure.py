"""What the benchmark scripts share: repeated timing, the machine, and rows of a CSV file."""

from __future__ import annotations

import csv
import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

import pirank

RESULTS = Path(__file__).parent / "results"


def seconds(
    run: Callable[[], Any], *, at_least: int = 5, at_most: int = 200, budget: float = 2.0
) -> list[float]:
    """How long single runs take, after two that do not count: as many as fit into the budget of seconds."""
    run()
    run()
    taken: list[float] = []
    while len(taken) < at_least or (sum(taken) < budget and len(taken) < at_most):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return taken


def quantiles(taken: list[float]) -> dict[str, float]:
    """The 20, 50 and 80 % quantiles in milliseconds."""
    ordered = sorted(taken)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]  # noqa: E731
    return {f"ms_{int(100 * q)}": round(1e3 * at(q), 4) for q in (0.2, 0.5, 0.8)}


def machine() -> dict[str, str]:
    """Processor, threads and versions, to stand in every row."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        name = found[0] if found else name
    return {
        "cpu": name,
        "cores": str(os.cpu_count()),
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "pirank": pirank.__version__,
    }


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Rows to a CSV file, each as it comes: what was measured before an interruption is in the ``.partial`` file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow(row)
            file.flush()
    partial.replace(path)
