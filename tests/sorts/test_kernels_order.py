"""Long lists are put in order as PyTorch does it, whichever way it is done."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.kernels


@pytest.fixture
def together(monkeypatch, by_kernels) -> torch.device:
    """Lists of any length are sorted together, and dealt out in tiles that end within a list."""
    from pirank.sorts.kernels import launch_sort

    monkeypatch.setattr(launch_sort, "TOGETHER_FROM", 1)
    monkeypatch.setattr(launch_sort, "_TILE", 128)
    return by_kernels


@pytest.fixture
def dealt(monkeypatch) -> list[int]:
    """The numbers of lists that were sorted together."""
    from pirank.sorts.kernels import launch_sort

    numbers, sort = [], launch_sort._sorted_together
    monkeypatch.setattr(launch_sort, "_sorted_together", lambda keys: numbers.append(len(keys)) or sort(keys))
    return numbers


def lists_of(count: int, length: int) -> torch.Tensor:
    """Scores with ties within lists and between them."""
    random = torch.Generator().manual_seed(count + length)
    return (torch.randn(count, length, generator=random) * 8).round() / 8


def assert_in_order(found: tuple[torch.Tensor, torch.Tensor], keys: torch.Tensor) -> None:
    ordered, order = keys.sort(dim=-1, descending=True, stable=True)
    assert found[1].dtype == torch.int32
    assert torch.equal(found[1], order.int())
    assert torch.equal(found[0].view(torch.int32), ordered.view(torch.int32))  # NaN too


@pytest.mark.parametrize(("count", "length"), [(5, 300), (2, 1), (16, 96), (9, 50), (3, 600)])
def test_lists_that_are_sorted_together(count, length, together, dealt) -> None:
    from pirank.sorts.kernels.launch_sort import sorted_lists

    scores = lists_of(count, length)
    scores[0, ::7], scores[1, ::5], scores[-1, 1::9] = float("nan"), float("inf"), float("-inf")
    assert (scores == 0).any() or length == 1
    scores[scores == 0] *= -1
    scores = scores.to(together)
    assert_in_order(sorted_lists(scores, None, None), scores)
    mask = (torch.rand(count, length, generator=torch.Generator().manual_seed(0)) > 0.3).to(together)
    assert_in_order(sorted_lists(scores, mask, None), scores.masked_fill(~mask, float("-inf")))
    assert dealt == [count, count]


def test_what_is_not_sorted_together(together, dealt) -> None:
    """A single list, and more than 16, whose counts would take more time than they save."""
    from pirank.sorts.kernels.launch_sort import sorted_lists

    for count in (1, 17):
        scores = lists_of(count, 20).to(together)
        assert_in_order(sorted_lists(scores, None, None), scores)
    assert not dealt


@pytest.mark.parametrize("many", [False, True], ids=["few lists", "more than 16 bits count"])
def test_flat_lists(many, by_kernels) -> None:
    from pirank.sorts.kernels.launch_sort import sorted_lists

    lengths = torch.tensor([0, 3, 0, 500, 1, 130, 0])
    lengths = torch.cat((lengths, torch.zeros(40_000, dtype=torch.int64), lengths)) if many else lengths
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    beyond = 4  # items past the last list
    scores = lists_of(1, int(offsets[-1]) + beyond)[0]
    scores[scores == 0] *= torch.tensor([1.0, -1.0]).repeat(len(scores))[: int((scores == 0).sum())]
    ordered, order = (t.cpu() for t in sorted_lists(scores.to(by_kernels), None, offsets.to(by_kernels)))
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        expected = scores[begin:end].sort(descending=True, stable=True)
        assert torch.equal(order[begin:end], expected.indices.int())
        assert torch.equal(ordered[begin:end].view(torch.int32), expected.values.view(torch.int32))


@pytest.mark.parametrize("masked", [False, True])
def test_the_loss_of_lists_that_are_sorted_together(masked, together, dealt, monkeypatch) -> None:
    from pirank.losses import PiRankNDCGLoss
    from pirank.sorts.kernels import launch_sort

    random = torch.Generator().manual_seed(5)
    scores = lists_of(3, 2_100).to(together)
    labels = torch.randint(0, 5, scores.shape, generator=random).float().to(together)
    mask = (torch.rand(scores.shape, generator=random) > 0.3).to(together) if masked else None
    monkeypatch.setattr("pirank.sorts.paths.FEW_ITEMS", 0)
    found = []
    for at_least in (1, launch_sort.TOGETHER_FROM + 10**9):
        monkeypatch.setattr(launch_sort, "TOGETHER_FROM", at_least)
        s = scores.clone().requires_grad_()
        loss = PiRankNDCGLoss(k=5, temperature=50.0)(s, labels, mask=mask)
        loss.backward()
        found.append((loss.detach(), s.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert dealt == [3]
