"""What every sort has in common: padding, permutation, limits, shapes, errors."""

from __future__ import annotations

import itertools

import pytest
import torch

from pirank import sorts
from pirank.sorts import NeuralSort, Sinkhorn, SoftSort, Sort, Tree, naive_neural_sort

MAKERS = {
    "neural": lambda tau: NeuralSort(tau),
    "neural relative": lambda tau: NeuralSort(tau, relative=True),
    "soft": lambda tau: SoftSort(tau),
    "soft relative": lambda tau: SoftSort(tau, relative=True),
    "sinkhorn": lambda tau: Sinkhorn(tau),
    "tree of neural": lambda tau: Tree(NeuralSort(tau), depth=2),
    "tree of soft": lambda tau: Tree(SoftSort(tau), depth=3),
    "tree of sinkhorn": lambda tau: Tree(Sinkhorn(tau), depth=2),
    "wide tree": lambda tau: Tree(NeuralSort(tau), branching=(4, 2, 4), widths=(4, 7)),
}
every_sort = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
# The trees' leaves are consecutive items: moving an item to another leaf changes them.
flat_sort = pytest.mark.parametrize(
    "make", [MAKERS[n] for n in MAKERS if "tree" not in n], ids=[n for n in MAKERS if "tree" not in n]
)


def random_lists(
    *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(*shape, generator=random, dtype=dtype)
    return scores, torch.rand(*shape, generator=random, dtype=dtype)


def value_and_gradients(
    sort: Sort, scores: torch.Tensor, values: torch.Tensor, k: int, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores, values = scores.clone().requires_grad_(), values.clone().requires_grad_()
    ranked = sort.apply(scores, values, k, mask=mask)
    weights = 1 / torch.arange(1, k + 1, dtype=scores.dtype)
    (ranked * weights).sum().backward()
    return ranked.detach(), scores.grad, values.grad


@every_sort
def test_apply_is_matrix_times_values(make) -> None:
    scores, values = random_lists(3, 19)
    mask = torch.rand(3, 19, generator=torch.Generator().manual_seed(5)) > 0.4
    mask[2] = False
    for tau, k, present in itertools.product((0.05, 1.0), (1, 4, 7), (None, mask)):
        sort = make(tau)
        matrix = sort.matrix(scores, k, mask=present)
        assert matrix.shape == (3, k, 19)
        torch.testing.assert_close(
            sort.apply(scores, values, k, mask=present),
            (matrix @ values[..., None])[..., 0],
            rtol=1e-9,
            atol=1e-9,
        )


@every_sort
def test_rows_sum_to_one_and_rows_beyond_the_list_are_zero(make) -> None:
    scores, _ = random_lists(2, 12)
    mask = torch.zeros(2, 12, dtype=torch.bool)
    mask[0, ::2] = True
    k = 6 if "widths" in repr(make(1.0)) else 9
    matrix = make(0.3).matrix(scores, min(k, 7), mask=mask)
    torch.testing.assert_close(matrix[0, :6].sum(-1), torch.ones(6, dtype=torch.float64))
    assert (matrix[0, 6:] == 0).all()
    assert (matrix[1] == 0).all()
    assert (matrix[0][:, 1::2] == 0).all()


def test_neural_sort_is_unimodal() -> None:
    """Every row has its own arg max, at any temperature: that is what makes it fit for the top k."""
    scores, _ = random_lists(5, 30)
    for tau in (0.01, 1.0, 100.0):
        tops = NeuralSort(tau).matrix(scores).argmax(-1)
        assert (tops.sort(-1).values == torch.arange(30)).all()
        assert (tops == scores.argsort(-1, descending=True)).all()


@every_sort
def test_falls_to_the_hard_sort(make) -> None:
    scores, values = random_lists(4, 20, seed=2)
    order = scores.argsort(-1, descending=True)[:, :5]
    sort = make(1e-7)
    torch.testing.assert_close(sort.apply(scores, values, 5), values.gather(-1, order), rtol=1e-5, atol=1e-5)


@flat_sort
@pytest.mark.parametrize("tau", [1e-3, 1.0, 1e3])
def test_padding_anywhere_changes_nothing(make, tau: float) -> None:
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        scores, values = random_lists(23, dtype=dtype)
        alone = value_and_gradients(make(tau), scores, values, 7)
        for padding, seed in ((1, 0), (30, 1), (400, 2)):
            places = (
                torch.randperm(23 + padding, generator=torch.Generator().manual_seed(seed))[:23].sort().values
            )
            mask = torch.zeros(23 + padding, dtype=torch.bool)
            mask[places] = True
            wide_scores = torch.full((23 + padding,), float("nan"), dtype=dtype)
            wide_values = torch.full((23 + padding,), float("nan"), dtype=dtype)
            wide_scores[places], wide_values[places] = scores, values
            padded = value_and_gradients(make(tau), wide_scores, wide_values, 7, mask)
            assert (padded[1][~mask] == 0).all()
            assert (padded[2][~mask] == 0).all()
            for found, expected in zip((padded[0], padded[1][places], padded[2][places]), alone, strict=True):
                assert (found - expected).abs().max() <= tolerance * expected.abs().max() + 1e-30


@flat_sort
def test_permuting_the_items_permutes_the_gradient(make) -> None:
    scores, values = random_lists(2, 40)
    scores = (scores * 4).round() / 4 if "Sinkhorn" not in repr(make(1.0)) else scores
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    first = value_and_gradients(make(0.5), scores, values, 10)
    second = value_and_gradients(make(0.5), scores[:, order], values[:, order], 10)
    if "Soft" not in repr(make(1.0)):
        torch.testing.assert_close(second[0], first[0], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(second[1], first[1][:, order], rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(second[2], first[2][:, order], rtol=1e-8, atol=1e-8)


@flat_sort
def test_adding_a_constant_changes_nothing(make) -> None:
    scores, values = random_lists(2, 40)
    first = value_and_gradients(make(0.5), scores, values, 10)
    second = value_and_gradients(make(0.5), scores + 1000, values, 10)
    for found, expected in zip(second, first, strict=True):
        assert (found - expected).abs().max() < 1e-9 * expected.abs().max()


@every_sort
def test_gradcheck(make) -> None:
    scores, values = random_lists(2, 11, seed=4)
    mask = torch.ones(2, 11, dtype=torch.bool)
    mask[0, 3:7] = False
    sort = NeuralSort(0.7) if "relative" in repr(make(1.0)) else make(0.7)
    scores.requires_grad_()
    values.requires_grad_()
    assert torch.autograd.gradcheck(lambda s, v: sort.apply(s, v, 4, mask=mask), (scores, values))


def test_relative_temperature_follows_scale_and_length() -> None:
    scores, values = random_lists(50)
    small = NeuralSort(0.05, relative=True).apply(scores, values, 10)
    large = NeuralSort(0.05, relative=True).apply(scores * 1e3, values, 10)
    torch.testing.assert_close(small, large)
    tau = float(0.05 * 50 * scores.std(correction=0))
    torch.testing.assert_close(small, NeuralSort(tau).apply(scores, values, 10))


@pytest.mark.parametrize("value", [0.0, 0.1, -1e20])
def test_relative_temperature_of_equal_scores_counts_a_spread_of_one(value: float) -> None:
    scores = torch.full((30,), value)
    values = torch.rand(30, generator=torch.Generator().manual_seed(0))
    for sort in (NeuralSort, SoftSort):
        found = value_and_gradients(sort(0.1, relative=True), scores, values, 5)
        expected = value_and_gradients(sort(3.0), scores, values, 5)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)


@every_sort
def test_extreme_scores_give_no_nan(make) -> None:
    for scale, tau in itertools.product((1e30, 1e37, 1e-30), (1e-6, 1.0, 1e6)):
        scores = torch.tensor([1.0, -1.0, 1.0, 0.5, 0.0, -0.5, 2.0], dtype=torch.float32) * scale
        values = torch.arange(7.0)
        for result in value_and_gradients(make(tau), scores, values, 3):
            assert result.isfinite().all()


@every_sort
def test_any_batch_shape_half_precision_and_empty(make) -> None:
    scores, values = random_lists(2, 3, 9, dtype=torch.float32)
    ranked = make(0.5).apply(scores, values, 4)
    assert ranked.shape == (2, 3, 4)
    torch.testing.assert_close(ranked[1, 2], make(0.5).apply(scores[1, 2], values[1, 2], 4))
    assert make(0.5).apply(scores.bfloat16(), values, 4).dtype == torch.float32
    assert make(0.5).apply(scores[:0], values[:0], 4).shape == (0, 3, 4)
    assert make(0.5).apply(scores[..., :0], values[..., :0], 4).shape == (2, 3, 4)
    assert make(0.5).matrix(scores[..., :1]).shape == (2, 3, 1, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(make(0.5).apply(scores, values, 4), ranked)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NeuralSort(0.0), "temperature must be a finite number above 0, got 0"),
        (lambda: NeuralSort(float("nan")), "temperature must be"),
        (lambda: SoftSort(-1.0), "temperature must be"),
        (
            lambda: NeuralSort().apply(torch.ones(3), torch.ones(2)),
            r"values must have the shape of scores.*\[2\].*\[3\]",
        ),
        (
            lambda: NeuralSort().apply(torch.tensor([1.0, float("nan")]), torch.ones(2)),
            "scores must be finite: 1 of 2",
        ),
        (lambda: NeuralSort().matrix(torch.tensor([1.0, float("inf")])), "scores must be finite"),
        (lambda: NeuralSort().matrix(torch.ones(3), -1), "k must be at least 1"),
        (
            lambda: NeuralSort().matrix(torch.ones(3), mask=torch.ones(2, dtype=torch.bool)),
            "mask must have the shape",
        ),
        (lambda: naive_neural_sort(torch.ones(3), 0.0), "temperature must be"),
        (lambda: sorts.get("neurl"), "did you mean 'neural'"),
    ],
)
def test_errors_name_the_argument(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_infinite_scores_of_absent_items_are_fine() -> None:
    scores = torch.tensor([1.0, float("-inf"), 2.0])
    mask = torch.tensor([True, False, True])
    torch.testing.assert_close(
        NeuralSort(1.0).apply(scores, torch.ones(3), 2, mask=mask), torch.ones(2), rtol=0, atol=1e-6
    )
