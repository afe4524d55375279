"""Run by torchrun: every process holds a part of each list, and compares with the whole lists on its own.

python -m torch.distributed.run --nproc-per-node 3 spread_lists.py
"""

from __future__ import annotations

import torch
from torch import Tensor, distributed, nn

from pirank.losses import PiRankLoss, PiRankNDCGLoss, SoftmaxLoss, SpreadLoss, whole_lists
from pirank.metrics import ARP, NDCG, RBP, Precision, Recall
from pirank.sorts import NeuralSort, SoftSort, Tree

LISTS = 5


def batch(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lists with ties and absent items: one of them blank, one with all its items in the first third."""
    random = torch.Generator().manual_seed(length)
    scores = (torch.randn(LISTS, length, generator=random, dtype=torch.float64) * 4).round() / 4
    labels = torch.randint(0, 4, (LISTS, length), generator=random).double()
    mask = torch.rand(LISTS, length, generator=random) < 0.8
    labels[1] = 0
    mask[2, length // 3 :] = False
    labels[~mask] = -1
    return scores, labels, mask


def gradient(loss: Tensor, scores: Tensor) -> Tensor:
    return torch.autograd.grad(loss.square().sum(), scores)[0]


def compare(found: Tensor, expected: Tensor, own: Tensor, whole: Tensor, mine: slice) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(
        gradient(found, own), gradient(expected, whole)[:, mine], rtol=1e-10, atol=1e-14
    )


def main() -> None:
    """All comparisons."""
    distributed.init_process_group("gloo")
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    checked = 0
    for part in (1, 4, 17):
        mine = slice(rank * part, (rank + 1) * part)
        scores, labels, mask = batch(part * processes)
        whole = scores.clone().requires_grad_()
        own = scores[:, mine].clone().requires_grad_()
        parts = (own, labels[:, mine])
        for metric in (NDCG(5), NDCG(), ARP(), Precision(3, denominator="retrieved"), Recall(4), RBP(10)):
            for sort in (NeuralSort(0.7), SoftSort(0.3)):
                for straight_through in (False, True):
                    options = {"straight_through": straight_through, "reduction": "none"}
                    spread = SpreadLoss(PiRankLoss(metric, sort, **options))
                    tree = PiRankLoss(metric, Tree(sort, branching=(part, processes)), **options)
                    compare(
                        spread(*parts, mask=mask[:, mine]), tree(whole, labels, mask=mask), own, whole, mine
                    )
                    checked += 1
        for loss in (PiRankNDCGLoss(k=5, relative=True, temperature=0.1), SoftmaxLoss()):
            gathered = whole_lists(*parts, mask=mask[:, mine])
            found = loss(gathered[0], gathered[1], mask=gathered[2])
            compare(found, loss(whole, labels, mask=mask), own, whole, mine)
        weights = torch.rand(LISTS, generator=torch.Generator().manual_seed(1)).double()
        spread = SpreadLoss(PiRankNDCGLoss(k=5, empty="zero"))
        tree = PiRankNDCGLoss(k=5, empty="zero", branching=(part, processes))
        compare(
            spread(*parts, mask=mask[:, mine], weights=weights),
            tree(whole, labels, mask=mask, weights=weights), own, whole, mine,
        )  # fmt: skip
    unequal(rank, processes)
    networks(rank, processes)
    if rank == 0:
        print(f"compared {checked}")


def unequal(rank: int, processes: int) -> None:
    """Processes that hold parts of different widths, one of them nothing."""
    widths = [3 * place for place in range(processes)]
    starts = [sum(widths[:place]) for place in range(processes)]
    mine = slice(starts[rank], starts[rank] + widths[rank])
    scores, labels, _ = batch(sum(widths))
    labels = labels.clamp(min=0)
    whole, own = scores.clone().requires_grad_(), scores[:, mine].clone().requires_grad_()
    gathered = whole_lists(own, labels[:, mine])
    exact = PiRankNDCGLoss(k=5)
    compare(exact(gathered[0], gathered[1], mask=gathered[2]), exact(whole, labels), own, whole, mine)
    spread = SpreadLoss(PiRankNDCGLoss(k=50, temperature=1e-4))(own, labels[:, mine])
    torch.testing.assert_close(spread, PiRankNDCGLoss(k=50, temperature=1e-4)(whole, labels))


def networks(rank: int, processes: int) -> None:
    """DistributedDataParallel takes the mean of the processes' gradients; times their number it is the whole's."""
    torch.manual_seed(0)
    network = nn.Linear(3, 1, dtype=torch.float64)
    features = torch.randn(2, 6 * processes, 3, dtype=torch.float64)
    labels = torch.randint(0, 3, features.shape[:2]).double()
    mine = slice(rank * 6, rank * 6 + 6)
    loss = PiRankNDCGLoss(k=4, branching=(6, processes))
    expected = torch.autograd.grad(loss(network(features)[..., 0], labels), network.weight)[0]
    parallel = nn.parallel.DistributedDataParallel(network)
    spread = SpreadLoss(PiRankNDCGLoss(k=4))
    (spread(parallel(features[:, mine])[..., 0], labels[:, mine]) * processes).backward()
    torch.testing.assert_close(network.weight.grad, expected, rtol=1e-10, atol=1e-14)


if __name__ == "__main__":
    main()
