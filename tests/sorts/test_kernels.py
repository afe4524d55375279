"""The kernels equal the definitions in float64, in value and gradient; on a GPU the same tests run compiled."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pirank.sorts import NeuralSort, SoftSort, Tree, paths_taken, use_path
from pirank.sorts.operators import ranked_values_by_kernels
from sorts.pairwise import ranked_values_and_gradients

pytestmark = pytest.mark.kernels

VALUE, GRADIENT = 1e-6, 1e-5
LONG_DEFINITION = 2_100  # longest list whose definition, pair by pair, is worked out here


def list_of(kind: str, length: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed + length)
    scores = torch.randn(length, generator=random)
    if kind == "tied":
        return (scores * 4).round() / 4
    if kind == "equal":
        return torch.full_like(scores, 0.7)
    return scores


def values_and_weights(length: int, k: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed + length)
    values = torch.exp2(torch.randint(0, 5, (length,), generator=random).float()) - 1
    return values, 1 / torch.log2(torch.arange(2, k + 2).float())


def soft_definition(scores: np.ndarray, values: np.ndarray, weights: np.ndarray, tau: float):
    """SoftSort from its definition, with the gradient of ``weights @ ranked``; tied rows share theirs."""
    s, g, w = (torch.tensor(np.asarray(x), dtype=torch.float64) for x in (scores, values, weights))
    ranks = len(w)
    own = s.sort(descending=True).values[:ranks]
    logits = -(own[:, None] - s).abs() / tau
    p = logits.softmax(-1)
    ranked = p @ g
    u = w[:, None] * p * (g - ranked[:, None]) * (own[:, None] - s).sign() / tau
    gradient = u.sum(0)
    for score in own.unique():
        rows, items = own == score, s == score
        gradient[items] -= u[rows].sum() / items.sum()
    return ranked.numpy(), gradient.numpy(), (w @ p).numpy(), 0.0


def expected(
    sort: type, scores: torch.Tensor, values: torch.Tensor, weights: torch.Tensor, tau: float
) -> tuple[np.ndarray, ...]:
    """Ranked values and the gradients of their weighted sum, and a bound on the reference's own rounding."""
    if len(scores) <= LONG_DEFINITION:
        definition = ranked_values_and_gradients if sort is NeuralSort else soft_definition
        return definition(scores.numpy(), values.numpy(), weights.numpy(), tau)
    # The exact form in float64, which other tests compare with the definition.
    s, v = scores.double().requires_grad_(), values.double().requires_grad_()
    with use_path("plain"):
        ranked = sort(tau).apply(s, v, len(weights))
    (ranked @ weights.double()).backward()
    return ranked.detach().numpy(), s.grad.numpy(), v.grad.numpy(), 0.0


def assert_near(found: torch.Tensor, reference: np.ndarray, relative: float, bound: float = 0.0) -> None:
    error = np.abs(found.detach().cpu().numpy().astype(np.float64) - reference).max(initial=0)
    assert error <= relative * np.abs(reference).max(initial=0) + bound + 1e-30


def check(sort: type, scores: torch.Tensor, k: int, tau: float, device: torch.device, path: str) -> None:
    rows = min(k, len(scores))
    values, weights = values_and_weights(len(scores), rows)
    s = scores.to(device, copy=True).requires_grad_()
    v = values.to(device, copy=True).requires_grad_()
    with paths_taken() as paths:
        ranked = sort(tau).apply(s, v, k)
    assert paths == [path]
    (ranked[:rows] @ weights.to(device)).backward()
    in_rank, by_score, by_value, bound = expected(sort, scores, values, weights, tau)
    assert_near(ranked[:rows], in_rank, VALUE)
    assert (ranked[rows:] == 0).all()
    assert_near(s.grad, by_score, GRADIENT, float(bound))
    assert_near(v.grad, by_value, GRADIENT)


@pytest.mark.parametrize("sort", [NeuralSort, SoftSort])
@pytest.mark.parametrize("kind", ["random", "tied", "equal"])
@pytest.mark.parametrize("length", [1, 2, 3, 63, 64, 65, 200])
def test_short_lists_equal_the_definition(length, kind, sort, by_kernels) -> None:
    temperatures = (0.1, 5.0, 1e3) if sort is NeuralSort else (0.05, 1.0)
    for k in {10, length}:
        for tau in temperatures if k == 10 else temperatures[1:2]:
            check(sort, list_of(kind, length), k, tau, by_kernels, "short kernels")


@pytest.mark.parametrize(
    ("length", "path"), [(1_000, "short"), (2_047, "short"), (2_048, "short"), (2_049, "long")]
)
def test_the_longest_short_lists_and_the_shortest_long_ones(length, path, by_kernels) -> None:
    for kind, tau in (("random", 1.0), ("tied", 300.0)):
        check(NeuralSort, list_of(kind, length), 10, tau, by_kernels, f"{path} kernels")
    check(SoftSort, list_of("tied", length), 10, 0.3, by_kernels, f"{path} kernels")


@pytest.mark.parametrize("kind", ["random", "tied", "equal"])
def test_long_lists_equal_the_exact_form_in_float64(kind, by_kernels) -> None:
    for sort, tau, k in (
        (NeuralSort, 1e4, 10),
        (NeuralSort, 0.01, 64),
        (NeuralSort, 1e3, 33),
        (SoftSort, 0.3, 10),
    ):
        if kind != "random" and k > 10:
            continue
        check(sort, list_of(kind, 10_000), k, tau, by_kernels, "long kernels")


@pytest.mark.parametrize("sort", [NeuralSort, SoftSort])
def test_tie_groups_that_end_anywhere(sort, by_kernels, monkeypatch) -> None:
    """Within a tile of the gradient, at its ends, and tiles, parts and chunks further on."""
    from pirank.sorts.kernels import launch_long

    monkeypatch.setattr(launch_long, "_MOST_PART", 256)
    monkeypatch.setattr(launch_long, "_WIDE_PART", 64)
    groups = torch.tensor(
        [1, 7, 2, 52, 2, 1, 64, 63, 1, 1, 65, 2, 1, 127, 190, 128, 129, 3, 600, 2, 1_100, 1, 5]
    )
    levels = torch.linspace(1, -1, len(groups))
    random = torch.Generator().manual_seed(0)
    for first in (0, 3, 9):
        scores = levels.repeat_interleave(groups.roll(first))
        scores = scores[torch.randperm(len(scores), generator=random)]
        for tau in (0.3, 50.0, 1e4) if sort is NeuralSort else (0.05, 1.0):
            check(sort, scores, 10, tau, by_kernels, "long kernels")


def test_blocks_of_rows(by_kernels) -> None:
    """With more rows than an anchor serves, items are reached from the left as well."""
    for kind in ("random", "tied"):
        for tau in (0.5, 100.0):
            check(NeuralSort, list_of(kind, 200), 150, tau, by_kernels, "short kernels")
    check(SoftSort, list_of("tied", 200), 150, 0.3, by_kernels, "short kernels")


def both_ways(call, *tensors: torch.Tensor, device: torch.device) -> list[list[torch.Tensor]]:
    """The results of ``call`` and its gradients, by kernels in float32 and in plain float64."""
    found = []
    for path, dtype in (("kernels", torch.float32), ("plain", torch.float64)):
        on = "cpu" if path == "plain" else device
        given = [t.to(device=on, dtype=dtype, copy=True).requires_grad_() for t in tensors]
        with use_path("plain" if path == "plain" else "auto" if device.type == "cuda" else "kernels"):
            result = call(*given)
        pull = torch.linspace(0.5, 1.5, result.numel(), dtype=dtype, device=on).reshape(result.shape)
        (result * pull).sum().backward()
        found.append([result.detach().cpu().double(), *(t.grad.cpu().double() for t in given)])
    return found


def assert_both_ways(call, *tensors: torch.Tensor, device: torch.device) -> None:
    by_kernel, plain = both_ways(call, *tensors, device=device)
    for i, (found, reference) in enumerate(zip(by_kernel, plain, strict=True)):
        error = (found - reference).abs().max()
        assert error <= (VALUE if i == 0 else GRADIENT) * reference.abs().max() + 1e-12


@pytest.mark.parametrize("sort", [NeuralSort(0.05, relative=True), SoftSort(0.4)], ids=["neural", "soft"])
@pytest.mark.parametrize("length", [70, 2_500])
def test_masked_lists(sort, length, by_kernels) -> None:
    random = torch.Generator().manual_seed(3)
    scores, values = torch.randn(3, length, generator=random), torch.rand(3, length, generator=random)
    mask = torch.rand(3, length, generator=random) > 0.4
    mask[1] = False
    mask[2, 2:] = False

    def call(s, v):
        return sort.apply(s, v, 10, mask=mask.to(s.device))

    assert_both_ways(call, scores, values, device=by_kernels)


@pytest.mark.parametrize("sort", [NeuralSort(2.0), NeuralSort(0.1, relative=True), SoftSort(0.4)], ids=str)
def test_several_values_an_item_as_trees_have(sort, by_kernels) -> None:
    random = torch.Generator().manual_seed(4)
    scores, values = torch.randn(2, 30, generator=random), torch.rand(2, 30, generator=random)
    assert_both_ways(lambda s, v: Tree(sort, depth=2).apply(s, v, 7), scores, values, device=by_kernels)


@pytest.mark.parametrize("sort", [NeuralSort(300.0), SoftSort(0.4)], ids=["neural", "soft"])
@pytest.mark.parametrize("k", [3, 20])
def test_several_values_an_item_of_long_lists(k, sort, by_kernels, monkeypatch) -> None:
    """Whatever was in the memory that is written to: a GPU's is seldom 0."""
    monkeypatch.setattr(torch, "empty_like", lambda like, **rest: torch.full_like(like, 7, **rest))
    random = torch.Generator().manual_seed(5)
    scores, values = torch.randn(2, 2_500, generator=random), torch.rand(2, 2, 2_500, generator=random)

    def call(s, v):
        if s.dtype == torch.float64:
            return torch.stack([sort.apply(s, v[:, channel], k) for channel in range(2)], 1)
        return ranked_values_by_kernels(s, v, None, k, sort.temperature, soft=isinstance(sort, SoftSort))

    assert_both_ways(call, scores, values, device=by_kernels)


def test_half_precision_is_read_as_it_is(by_kernels) -> None:
    scores, values = list_of("random", 50).bfloat16(), values_and_weights(50, 5)[0]
    ranked = NeuralSort(1.0).apply(scores.to(by_kernels), values.to(by_kernels), 5)
    assert ranked.dtype == torch.float32
    with use_path("plain"):
        reference = NeuralSort(1.0).apply(scores.double(), values.double(), 5)
    assert_near(ranked, reference.numpy(), VALUE)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of the interpreter's overflows
def test_extreme_scores_give_no_nan(by_kernels) -> None:
    for scale in (1e37, 1e-30):
        scores = torch.tensor([1.0, -1.0, 1.0, 0.5, 0.0, -0.5, 2.0]) * scale
        for tau in (1e-6, 1.0, 1e6):
            s = scores.to(by_kernels, copy=True).requires_grad_()
            ranked = NeuralSort(tau).apply(s, torch.arange(7.0, device=by_kernels), 3)
            ranked.sum().backward()
            assert ranked.isfinite().all()
            assert s.grad.isfinite().all()


def test_zero_and_negative_zero_are_a_tie(by_kernels) -> None:
    scores = torch.tensor([0.0, -0.0, 0.0, 1.0], device=by_kernels, requires_grad=True)
    values = torch.tensor([1.0, 5.0, 2.0, 0.0], device=by_kernels)
    NeuralSort(0.5).apply(scores, values, 2).sum().backward()
    again = torch.tensor([0.0, 0.0, 0.0, 1.0], device=by_kernels, requires_grad=True)
    NeuralSort(0.5).apply(again, values, 2).sum().backward()
    assert torch.equal(scores.grad, again.grad)


def test_the_same_bits_every_time(by_kernels) -> None:
    for length in (150, 2_500):
        scores, values = (
            list_of("tied", length).to(by_kernels),
            values_and_weights(length, 5)[0].to(by_kernels),
        )
        found = []
        for _ in range(2):
            s = scores.clone().requires_grad_()
            ranked = NeuralSort(3.0).apply(s, values, 5)
            ranked.square().sum().backward()
            found.append((ranked.detach(), s.grad))
        assert torch.equal(found[0][0], found[1][0])
        assert torch.equal(found[0][1], found[1][1])


def test_what_kernels_do_not_serve_goes_the_plain_way(by_kernels) -> None:
    """float64, no items, and more rows of a long list than share an anchor."""
    cases = (
        (torch.randn(2, 9, dtype=torch.float64), 3, "plain"),
        (torch.randn(2, 9), 3, "short kernels"),
        (torch.randn(1, 2_100), 65, "plain"),
    )
    for scores, k, path in cases:
        with paths_taken() as paths:
            NeuralSort(1.0).apply(scores.to(by_kernels), scores.to(by_kernels), k)
        assert paths == [path]
    with paths_taken() as paths:
        NeuralSort(1.0).apply(torch.zeros(0, 5, device=by_kernels), torch.zeros(0, 5, device=by_kernels), 2)
    assert paths == ["plain"]


def test_the_plain_way_is_the_default_without_a_gpu() -> None:
    with paths_taken() as paths:
        NeuralSort(1.0).apply(torch.randn(5), torch.randn(5), 2)
    assert paths == ["plain"]


def test_operators_hold_what_pytorch_asks_of_them(by_kernels) -> None:
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 12, generator=random).to(by_kernels).requires_grad_()
    values = torch.rand(2, 1, 12, generator=random).to(by_kernels).requires_grad_()
    mask = (torch.rand(2, 12, generator=random) > 0.3).to(by_kernels)
    torch.library.opcheck(
        torch.ops.pirank.ranked_values.default,
        (scores, values, mask, None, None, 1.0, 3, 12, True, False),
    )
    weights = torch.ones(3, device=by_kernels)
    rule, bounds = ("exp2", 0.0), ("ideal", 1.0, 1.0, -1.0)
    options = (None, None, None, 1.0, 12, False, False, *rule, *bounds, False, False, True)
    torch.library.opcheck(
        torch.ops.pirank.linear_losses.default, (scores, values.detach()[:, 0], weights, *options)
    )


def test_operators_of_long_lists_hold_it_too(by_kernels) -> None:
    """All but the comparison of all outputs: what is kept of items that no row reaches is not written."""
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(30, generator=random).to(by_kernels).requires_grad_()
    values = torch.rand(1, 30, generator=random).to(by_kernels).requires_grad_()
    offsets = torch.tensor([0, 12, 30], device=by_kernels)
    given, weights = torch.tensor([0.5, 2.0], device=by_kernels), torch.ones(3, device=by_kernels)
    for soft in (False, True):
        sort = (1.0, 20_000, False, soft)  # the length that is known of the lists
        loss = ("exp2", 0.0, "ideal", 1.0, 1.0, -1.0, False, False)
        for name, inputs in (
            ("ranked_values", (scores, values, None, offsets, given, 1.0, 3, *sort[1:])),
            (
                "linear_losses_of_long",
                (scores, values.detach()[0], weights, None, offsets, given, *sort, *loss),
            ),
        ):
            torch.library.opcheck(
                getattr(torch.ops.pirank, name).default,
                inputs,
                test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
            )


def test_compiled_whole(by_kernels) -> None:
    scores = torch.randn(2, 20, device=by_kernels)
    values = torch.rand(2, 1, 20, device=by_kernels)

    def ranked(s):
        return ranked_values_by_kernels(s, values, None, 4, 1.0, soft=False)

    backend = "inductor" if by_kernels.type == "cuda" else "aot_eager"
    results = []
    for call in (ranked, torch.compile(ranked, backend=backend, fullgraph=True)):
        s = scores.clone().requires_grad_()
        out = call(s)
        out.square().sum().backward()
        results.append((out.detach(), s.grad))
    torch.testing.assert_close(results[0], results[1])
