"""A minute with PiRank: a small network learns to rank the paper's synthetic data. ``python -m pirank.demo``."""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

from pirank.data import synthetic
from pirank.losses import pirank_ndcg_loss
from pirank.metrics import NDCG

LIST_SIZE = 100
TRAINING_LISTS, TEST_LISTS = 2000, 500
LISTS_A_STEP = 32
LEARNING_RATE = 3e-3
CUTOFFS = (1, 3, 5, 10)
FIRST = 5


def main(steps: int = 300, seed: int = 0, console: Console | None = None) -> dict[int, float]:
    """Train, and show NDCG on lists that were not trained on, before and after.

    Args:
        steps: how many batches to train on.
        seed: of the data, the network and the batches.
        console: where to show it.

    Returns:
        NDCG@k after training, by k.
    """
    console = console or Console()
    torch.manual_seed(seed)
    features, labels = lists_of(TRAINING_LISTS, seed)
    test_features, test_labels = lists_of(TEST_LISTS, seed + 1)
    console.print(
        f"The paper's synthetic task: {TRAINING_LISTS:,} lists of {LIST_SIZE} items to train on, {TEST_LISTS} others "
        f"to test on, {features.shape[-1]} features.\nAn item's relevance is a weighted sum of 10 of its 25 features; "
        "each list has its own 10 and its own weights, which are among the features."
    )
    network = nn.Sequential(
        nn.Linear(features.shape[-1], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)
    )
    before = ndcg(network, test_features, test_labels)
    first_before = first_items(network, test_features[0], test_labels[0])

    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    start = time.perf_counter()
    with progress_bar(console) as progress:
        task = progress.add_task("training with PiRank-NDCG", total=steps, loss="")
        for _ in range(steps):
            chosen = torch.randint(TRAINING_LISTS, (LISTS_A_STEP,))
            scores = network(features[chosen]).squeeze(-1)
            loss = pirank_ndcg_loss(scores, labels[chosen], k=10, temperature=1.0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            progress.update(task, advance=1, loss=f"loss {loss.item():.3f}")
    seconds = time.perf_counter() - start

    after = ndcg(network, test_features, test_labels)
    console.print(comparison(before, after))
    best = test_labels[0].sort(descending=True).values
    first_after = first_items(network, test_features[0], test_labels[0])
    console.print(relevance({"before": first_before, "after": first_after, "best possible": best[:FIRST]}))
    console.print(
        f"On {TEST_LISTS} lists it never saw, after {steps} steps in {seconds:.1f} s. A perfect ranking has 1."
    )
    return after


def lists_of(lists: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features ``[lists, LIST_SIZE, F]`` and labels ``[lists, LIST_SIZE]`` of the paper's synthetic task.

    The paper does not show a model which columns count, so that no model could learn the task completely; here
    they are shown.
    """
    data = synthetic(lists, LIST_SIZE, reveal_columns=True, seed=seed)
    assert data.labels is not None
    return data.features.view(lists, LIST_SIZE, -1), data.labels.view(lists, LIST_SIZE)


@torch.no_grad()
def ndcg(network: nn.Module, features: Tensor, labels: Tensor) -> dict[int, float]:
    """NDCG@k of the network's ranking, averaged over lists, by k."""
    scores = network(features).squeeze(-1)
    return {k: NDCG(k=k)(scores, labels).item() for k in CUTOFFS}


@torch.no_grad()
def first_items(network: nn.Module, features: Tensor, labels: Tensor) -> Tensor:
    """The labels of the items that the network ranks first in one list."""
    return labels[network(features).squeeze(-1).argsort(descending=True)][:FIRST]


def relevance(rankings: dict[str, Tensor]) -> Table:
    """The labels of a list's first items, one row a ranking."""
    table = Table("one list, relevance 0 to 5", *(f"rank {rank}" for rank in range(1, FIRST + 1)))
    for name, labels in rankings.items():
        table.add_row(name, *(f"{label:.1f}" for label in labels.tolist()))
    return table


def comparison(before: dict[int, float], after: dict[int, float]) -> Table:
    """The table of the two, one row a cutoff."""
    table = Table("metric")
    for column in ("before", "after", "gain"):
        table.add_column(column, justify="right")
    for k in CUTOFFS:
        gain = after[k] - before[k]
        table.add_row(f"NDCG@{k}", f"{before[k]:.3f}", f"[bold]{after[k]:.3f}[/bold]", f"{gain:+.3f}")
    return table


def progress_bar(console: Console) -> Progress:
    """A bar that shows the step, the loss, and the time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}  {task.fields[loss]}"),
        TimeRemainingColumn(),
        console=console,
    )


if __name__ == "__main__":
    main()
