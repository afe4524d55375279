"""NeuralSort equals the pairwise definition, in value and gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pirank.sorts import NeuralSort, naive_neural_sort
from pirank.sorts import neural as neural_module
from sorts.pairwise import ranked_values_and_gradients

LIMITS = {torch.float32: (1e-5, 5e-5), torch.float64: (1e-10, 1e-10)}
TEMPERATURES = (1e-3, 1e-1, 1.0, 30.0, 1e3, 1e6)


def list_of(kind: str, length: int, scale: float, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed + length)
    scores = torch.randn(length, generator=random, dtype=dtype)
    if kind == "tied":
        scores = (scores * 2).round() / 2
    elif kind == "equal":
        scores = torch.full_like(scores, 0.7)
    elif kind == "repeated":
        scores = scores[torch.randint(0, length, (length,), generator=random)]
    elif kind == "heavy tail":
        scores = scores.exp().square()
    return scores * scale


def gains_and_discounts(length: int, k: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(length)
    gains = torch.exp2(torch.randint(0, 5, (length,), generator=random).to(dtype)) - 1
    return gains, 1 / torch.log2(torch.arange(2, k + 2, dtype=dtype))


def assert_near(found: torch.Tensor, expected: np.ndarray, relative: float, bound: float = 0.0) -> None:
    """The error is below ``relative`` in the maximum norm, beyond the reference's own rounding and underflow."""
    error = np.abs(found.detach().numpy().astype(np.longdouble) - expected).max()
    assert error <= relative * np.abs(expected).max() + bound + 1e-30


def check(scores: torch.Tensor, k: int, temperature: float) -> None:
    rows = min(k, len(scores))
    values, discounts = gains_and_discounts(len(scores), rows, scores.dtype)
    scores = scores.clone().requires_grad_()
    values.requires_grad_()
    ranked = NeuralSort(temperature).apply(scores, values, k)
    assert ranked.shape == (k,)
    assert (ranked[rows:] == 0).all()
    (ranked[:rows] @ discounts).backward()
    expected, by_score, by_value, bound = ranked_values_and_gradients(
        scores.detach().numpy(), values.detach().numpy(), discounts.numpy(), temperature
    )
    in_value, in_gradient = LIMITS[scores.dtype]
    assert_near(ranked[:rows], expected, in_value)
    assert_near(values.grad, by_value, in_gradient)
    assert_near(scores.grad, by_score, in_gradient, bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", ["random", "tied", "equal", "repeated", "heavy tail"])
@pytest.mark.parametrize("length", [1, 2, 3, 10, 63, 64, 65, 200])
def test_equals_the_definition(length: int, kind: str, dtype: torch.dtype) -> None:
    if kind == "heavy tail":
        # Its gradient is a difference of numbers a thousand times its size: more digits than float32 has.
        dtype = torch.float64
    for scale in (1e-3, 1.0, 1e3):
        scores = list_of(kind, length, scale, dtype)
        for temperature in TEMPERATURES:
            for k in {1, 10, length}:
                check(scores, k, temperature)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_equals_the_definition_on_long_lists(temperature: float, dtype: torch.dtype) -> None:
    check(list_of("random", 2000, 1.0, dtype), 10, temperature)
    check(list_of("repeated", 2000, 1.0, dtype), 150, temperature)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_streaming_equals_the_definition(
    temperature: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large batches go over the list in chunks: the same on lists small enough for the definition."""
    monkeypatch.setattr(neural_module, "_DENSE", 0)
    for kind in ("random", "tied", "equal"):
        for length, k in ((1, 1), (2, 2), (65, 65), (200, 10), (200, 130), (1500, 64)):
            check(list_of(kind, length, 1.0, dtype), k, temperature)


def test_matrix_equals_the_definition() -> None:
    for temperature in TEMPERATURES:
        scores = list_of("repeated", 90, 1.0, torch.float64)[None].repeat(2, 1).requires_grad_()
        naive = naive_neural_sort(scores, temperature, 20)
        exact = NeuralSort(temperature).matrix(scores, 20)
        torch.testing.assert_close(exact, naive, rtol=1e-9, atol=1e-11)
        pull = torch.randn(exact.shape, dtype=exact.dtype, generator=torch.Generator().manual_seed(1))
        (expected,) = torch.autograd.grad((naive * pull).sum(), scores)
        (found,) = torch.autograd.grad((exact * pull).sum(), scores)
        assert (found - expected).abs().max() < 1e-8 * expected.abs().max()


def test_pruned_and_sorted_lists_agree() -> None:
    """The top of a list stands for all of it only where the rest weighs less than the smallest normal number."""
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 20_000, generator=random, dtype=torch.float64)
    values = torch.rand(3, 20_000, generator=random, dtype=torch.float64)
    for temperature in (1e-3, 1e-1, 1.0, 10.0, 100.0, 1e5):
        narrow = scores.clone().requires_grad_()
        wide = scores.clone().requires_grad_()
        pruned = NeuralSort(temperature).apply(narrow, values, 10)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pirank.sorts.order._PRUNE_FROM", 10**9)
            whole = NeuralSort(temperature).apply(wide, values, 10)
        torch.testing.assert_close(pruned, whole, rtol=1e-12, atol=0)
        pruned.square().sum().backward()
        whole.square().sum().backward()
        torch.testing.assert_close(
            narrow.grad, wide.grad, rtol=1e-9, atol=1e-12 * float(wide.grad.abs().max())
        )


def test_order_of_tied_items_does_not_matter() -> None:
    scores = torch.tensor([1.0, 1.0, 0.5, 1.0, 0.5, 0.0], dtype=torch.float64)
    values = torch.tensor([3.0, 0.0, 7.0, 1.0, 0.0, 15.0], dtype=torch.float64)
    discounts = torch.tensor([1.0, 0.6, 0.5], dtype=torch.float64)

    def gradient(order: list[int]) -> torch.Tensor:
        s = scores[order].requires_grad_()
        (NeuralSort(0.7).apply(s, values[order], 3) @ discounts).backward()
        back = torch.empty(6, dtype=torch.float64)
        back[order] = s.grad
        return back

    first = gradient([0, 1, 2, 3, 4, 5])
    for order in ([5, 4, 3, 2, 1, 0], [1, 0, 4, 3, 2, 5], [3, 1, 0, 2, 5, 4]):
        torch.testing.assert_close(gradient(order), first, rtol=1e-12, atol=1e-12)


def test_gradcheck() -> None:
    random = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 9, generator=random, dtype=torch.float64, requires_grad=True)
    values = torch.rand(2, 9, generator=random, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(2, 9, generator=random) > 0.3
    for k in (1, 4, 9, 12):
        assert torch.autograd.gradcheck(
            lambda s, v, k=k: NeuralSort(0.8).apply(s, v, k, mask=mask), (scores, values)
        )
        assert torch.autograd.gradcheck(lambda s, k=k: NeuralSort(0.8).matrix(s, k, mask=mask), (scores,))


@pytest.mark.slow
def test_a_million_items_against_float64() -> None:
    """Where the definition does not fit into memory, float64 is the reference of float32."""
    scores = list_of("random", 1_000_000, 1.0, torch.float32)[None]
    for temperature in (1.0, 1e3, 1e6):
        values, discounts = gains_and_discounts(1_000_000, 10, torch.float32)
        results = []
        for dtype in (torch.float32, torch.float64):
            s = scores.detach().clone().to(dtype).requires_grad_()
            ranked = NeuralSort(temperature).apply(s, values.to(dtype)[None], 10)
            (ranked @ discounts.to(dtype)).sum().backward()
            results.append((ranked.detach().double(), s.grad.double()))
        (value, gradient), (true_value, true_gradient) = results
        assert (value - true_value).abs().max() < 1e-5 * true_value.abs().max()
        assert (gradient - true_gradient).abs().max() < 5e-5 * true_gradient.abs().max()
