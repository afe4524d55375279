"""The losses by kernels equal the metric after a sort, for every linear metric and every layout."""

from __future__ import annotations

import pytest
import torch

from pirank.losses import PiRankLoss, PiRankNDCGLoss
from pirank.metrics import ARP, DCG, MRR, NDCG, RBP, LinearMetric, Precision, Recall
from pirank.sorts import NeuralSort, SoftSort, paths_taken, use_path

pytestmark = pytest.mark.kernels

METRICS = [
    NDCG(10),
    NDCG(),
    DCG(5),
    ARP(),
    Precision(5),
    Precision(5, denominator="retrieved"),
    Precision(),
    Recall(5),
    Recall(5, denominator="reachable"),
    RBP(10),
]
SORTS = [NeuralSort(0.1, relative=True), SoftSort(0.5)]


def batch(length: int = 37) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(length)
    scores = (torch.randn(1, 4, length, generator=random) * 8).round() / 8
    labels = torch.randint(0, 4, (1, 4, length), generator=random).float()
    mask = torch.rand(1, 4, length, generator=random) > 0.3
    labels[0, 1] = 0  # no relevant item
    mask[0, 2] = False  # no item
    labels[~mask] = -1
    return scores, labels, mask


def flat() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores, labels, mask = batch(300)
    keep = mask[0, 0]
    lengths = torch.tensor([0, 5, 1, 130, int(keep.sum()) - 136])
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    return scores[0, 0][keep], labels[0, 0][keep], offsets


def results(
    loss: torch.nn.Module, path: str, scores, labels, device, **layout
) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = torch.float64 if path == "plain" else torch.float32
    where = torch.device("cpu") if path == "plain" else device
    layout = {
        name: value.to(where) if name != "offsets" and isinstance(value, torch.Tensor) else value
        for name, value in layout.items()
    }
    s = scores.to(where, dtype, copy=True).requires_grad_()
    with use_path("auto" if path == "kernels" and device.type == "cuda" else path):
        value = loss(s, labels.to(where, dtype), **layout)
    value.square().sum().backward()
    return value.detach().cpu().double(), s.grad.cpu().double()


def assert_same(loss: torch.nn.Module, scores, labels, device, **layout) -> None:
    with paths_taken() as paths:
        found = results(loss, "kernels", scores, labels, device, **layout)
    assert paths[0] in ("short kernels", "long kernels")
    expected = results(loss, "plain", scores, labels, device, **layout)
    for one, other, relative in zip(found, expected, (1e-6, 1e-5), strict=True):
        assert (one - other).abs().max() <= relative * other.abs().max() + 1e-12


@pytest.mark.parametrize("sort", SORTS, ids=["neural", "soft"])
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_every_linear_metric(metric, sort, by_kernels) -> None:
    assert isinstance(metric, LinearMetric)
    scores, labels, mask = batch()
    assert_same(PiRankLoss(metric, sort), scores, labels, by_kernels, mask=mask)
    scores, labels, offsets = flat()
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.0])
    assert_same(PiRankLoss(metric, sort), scores, labels, by_kernels, offsets=offsets, weights=weights)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("empty", ["skip", "zero"])
def test_reductions_and_blank_lists(reduction, empty, by_kernels) -> None:
    loss = PiRankNDCGLoss(k=5, reduction=reduction, empty=empty)
    scores, labels, mask = batch()
    assert_same(loss, scores, labels, by_kernels, mask=mask)
    scores, labels, offsets = flat()
    assert_same(loss, scores, labels, by_kernels, offsets=offsets)


def test_straight_through(by_kernels) -> None:
    """The hard metric is reported, at ties in the order of the items, with the relaxed gradient."""
    scores, labels, mask = batch()
    for metric in (NDCG(5), ARP()):
        loss = PiRankLoss(metric, NeuralSort(1.0), straight_through=True)
        assert_same(loss, scores, labels, by_kernels, mask=mask)


@pytest.fixture(params=["several launches", "one launch"])
def launches(request, monkeypatch) -> None:
    """Longer lists both ways: few of them are served by one launch."""
    if request.param == "several launches":
        monkeypatch.setattr("pirank.sorts.paths.FEW_ITEMS", 0)


def test_long_lists(by_kernels, launches) -> None:
    random = torch.Generator().manual_seed(0)
    scores, labels = (
        torch.randn(2, 2_300, generator=random),
        torch.randint(0, 5, (2, 2_300), generator=random).float(),
    )
    mask = torch.rand(2, 2_300, generator=random) > 0.2
    for metric in (
        NDCG(10),
        Recall(5, denominator="reachable"),
        Precision(7, denominator="retrieved"),
        RBP(10),
    ):
        for straight_through in (False, True):
            loss = PiRankLoss(metric, NeuralSort(500.0), straight_through=straight_through)
            assert_same(loss, scores, labels, by_kernels, mask=mask)
    assert_same(PiRankLoss(NDCG(10), SoftSort(0.1, relative=True)), scores, labels, by_kernels, mask=mask)


@pytest.mark.parametrize("layout", ["padded", "flat"])
def test_reductions_of_long_lists(layout, by_kernels, monkeypatch) -> None:
    """The gradient of long lists is worked out once it is known what asks for it: the mean, each loss, or both."""
    monkeypatch.setattr("pirank.sorts.paths.FEW_ITEMS", 0)
    random = torch.Generator().manual_seed(2)
    scores = (torch.randn(3, 2_100, generator=random) * 20).round() / 20
    labels = torch.randint(0, 5, (3, 2_100), generator=random).float()
    labels[1] = 0
    rest = {"weights": torch.tensor([1.0, 2.0, 0.5])}
    if layout == "flat":
        scores, labels = scores.flatten(), labels.flatten()
        rest["offsets"] = torch.tensor([0, 2_500, 2_500, 6_300])
    for reduction in ("mean", "sum", "none"):
        for empty in ("skip", "zero"):
            loss = PiRankNDCGLoss(k=5, temperature=300.0, reduction=reduction, empty=empty)
            assert_same(loss, scores, labels, by_kernels, **({} if reduction == "none" else rest))


def test_the_mean_and_each_loss_of_long_lists_at_once(by_kernels) -> None:
    from pirank.sorts.operators import linear_losses_by_kernels

    random = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 30, generator=random).to(by_kernels)
    labels, weights = torch.rand(2, 30, generator=random).to(by_kernels), torch.ones(3, device=by_kernels)
    found = []
    for longest in (30, 20_000):  # as short lists, and as long ones
        s = scores.clone().requires_grad_()
        options = (None, None, None, 1.0, longest, False, False, "same", 0.0, "ideal", 1.0, 1.0, -1.0)
        mean, losses = linear_losses_by_kernels(s, labels, weights, *options, False, False, True)
        (3 * mean + losses[0, 1]).backward()
        found.append((mean.detach(), losses.detach(), s.grad))
    torch.testing.assert_close(found[0], found[1])


def test_long_flat_lists(by_kernels, launches) -> None:
    random = torch.Generator().manual_seed(1)
    offsets = torch.tensor([0, 3, 3, 2_200, 2_230])
    scores = (torch.randn(2_230, generator=random) * 50).round() / 50
    labels = torch.randint(0, 5, (2_230,), generator=random).float()
    labels[2_200:] = 0
    for metric in (NDCG(10), Recall(5), Precision()):
        metric = metric if metric.k else Precision(20)
        for sort in (NeuralSort(0.05, relative=True), SoftSort(0.3)):
            assert_same(PiRankLoss(metric, sort), scores, labels, by_kernels, offsets=offsets)


def test_offsets_on_the_device_that_are_not_asked(by_kernels, monkeypatch) -> None:
    """Where the longest list is not known, an upper bound serves: the number of all items."""
    from pirank import lists
    from pirank.losses import fused

    scores, labels, offsets = flat()
    monkeypatch.setattr(fused, "longest_list", lambda offsets, items, ask_beyond: items)
    assert_same(PiRankNDCGLoss(k=10), scores, labels, by_kernels, offsets=offsets)
    assert lists.longest_list(offsets, len(scores), ask_beyond=0) == int(offsets.diff().max())


def test_no_gradient_is_worked_out_for_nobody(by_kernels) -> None:
    scores, labels, mask = (t.to(by_kernels) for t in batch())
    loss = PiRankNDCGLoss(k=5)
    with torch.no_grad():
        unwanted = loss(scores, labels, mask=mask)
    assert not unwanted.requires_grad
    torch.testing.assert_close(unwanted, loss(scores.clone().requires_grad_(), labels, mask=mask).detach())


@pytest.mark.parametrize("length", [12, 2_100])
def test_compiled_whole(length, by_kernels, monkeypatch) -> None:
    monkeypatch.setattr("pirank.sorts.paths.FEW_ITEMS", 0)
    scores, labels, mask = (t.to(by_kernels) for t in batch(length))
    loss = PiRankNDCGLoss(k=5, temperature=0.1, relative=True)
    backend = "inductor" if by_kernels.type == "cuda" else "aot_eager"
    results = []
    for call in (loss, torch.compile(loss, backend=backend, fullgraph=True)):
        s = scores.clone().requires_grad_()
        value = call(s, labels, mask=mask)
        value.backward()
        results.append((value.detach(), s.grad))
    torch.testing.assert_close(results[0], results[1])


def test_other_metrics_take_the_sorts_kernel(by_kernels) -> None:
    scores, labels, mask = batch()
    labels = labels.clamp(min=0)
    assert_same(PiRankLoss(MRR(), NeuralSort(1.0)), scores, labels, by_kernels, mask=mask)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.zeros(2, 3)}, "labels must have the shape of scores"),
        ({"mask": torch.ones(2, 4)}, "mask must be boolean"),
        ({"offsets": torch.tensor([0, 4])}, "with offsets, scores must be flat"),
        ({"weights": torch.ones(3)}, "weights must be one number a list"),
        ({"scores": torch.full((2, 4), float("nan"))}, "scores must be finite"),
        ({"labels": torch.full((2, 4), -1.0)}, "labels must not be negative"),
    ],
)
def test_the_same_errors_at_the_door(change, message, by_kernels) -> None:
    if by_kernels.type == "cuda" and ("finite" in message or "negative" in message):
        pytest.skip("values are not looked at on a GPU: that would make it wait")
    given = {"scores": torch.zeros(2, 4), "labels": torch.zeros(2, 4)} | change
    with pytest.raises((ValueError, TypeError), match=message):
        PiRankNDCGLoss()(**{name: value.to(by_kernels) for name, value in given.items()})
