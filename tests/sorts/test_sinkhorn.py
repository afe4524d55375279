"""Sinkhorn: doubly stochastic everywhere, equal to many plain sweeps in value and gradient, never NaN."""

import math

import pytest
import torch

from pirank.sorts import Sinkhorn, naive_neural_sort
from pirank.sorts.balanced import solve_scaled

TAUS = [1e-3, 0.1, 1.0, 30.0, 1e3, 1e6]


def generator(seed):
    return torch.Generator().manual_seed(seed)


def lists_of(kind, lists, items, dtype=torch.float64, seed=0):
    scores = torch.randn(lists, items, generator=generator(seed), dtype=torch.float64)
    if kind == "tied":
        scores = (2 * scores).round()
    elif kind == "equal":
        scores = torch.full_like(scores, 0.7)
    elif kind == "outlier":
        scores[:, items // 2] = 1e3
    elif kind != "random":
        scores = scores * float(kind)
    return scores.to(dtype)


def swept(scores, tau, sweeps=10_000):
    """The definition: NeuralSort's matrix, its columns and rows normalised in turn."""
    matrix = naive_neural_sort(scores, tau)
    for _ in range(sweeps):
        matrix = matrix / matrix.sum(-2, keepdim=True)
        matrix = matrix / matrix.sum(-1, keepdim=True)
    return matrix


def value_and_gradient(sort, scores, weight, mask=None):
    scores = scores.clone().requires_grad_()
    matrix = sort.matrix(scores, weight.shape[-2], mask=mask)
    (gradient,) = torch.autograd.grad((matrix * weight).sum(), scores)
    return matrix.detach(), gradient


def assert_near(actual, expected, relative):
    error = (actual - expected).abs().max().item()
    assert error <= relative * expected.abs().max().item(), f"off by {error}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["random", "tied", "equal", "outlier", "1e-3", "1e3"])
@pytest.mark.parametrize("items", [1, 2, 3, 20, 100, 200])
def test_rows_and_columns_sum_to_one(items, kind, dtype):
    scores = lists_of(kind, 2, items, dtype)
    for tau in TAUS:
        matrix = Sinkhorn(tau).matrix(scores)
        assert matrix.dtype == dtype
        assert matrix.min() >= 0
        for side in (-1, -2):
            assert (matrix.sum(side) - 1).abs().max() <= 1e-5, (tau, side)


def test_long_lists_are_doubly_stochastic():
    matrix = Sinkhorn(1.0).matrix(lists_of("random", 1, 700, torch.float32))
    assert (matrix.sum(-2) - 1).abs().max() <= 1e-5


@pytest.mark.parametrize("tau", [0.5, 3.0, 100.0])
@pytest.mark.parametrize("kind", ["random", "tied", "equal"])
def test_equals_many_plain_sweeps_in_value_and_gradient(kind, tau):
    scores = lists_of(kind, 2, 7).requires_grad_()
    weight = torch.randn(2, 7, 7, generator=generator(1), dtype=torch.float64)
    by_sweeps = swept(scores, tau, sweeps=1500)
    (expected,) = torch.autograd.grad((by_sweeps * weight).sum(), scores)
    matrix, gradient = value_and_gradient(Sinkhorn(tau), scores.detach(), weight)
    assert_near(matrix, by_sweeps.detach(), 1e-9)
    assert_near(gradient, expected, 1e-9)


def test_equals_many_plain_sweeps_on_a_list_of_sixty():
    scores = lists_of("random", 1, 60)
    assert_near(Sinkhorn(1.0).matrix(scores), swept(scores, 1.0), 1e-9)


def test_two_items_share_as_the_logistic_function_says():
    p = torch.sigmoid(torch.tensor(3.0, dtype=torch.float64)).item()
    matrix = Sinkhorn(0.5).matrix(torch.tensor([1.0, 2.5], dtype=torch.float64))
    torch.testing.assert_close(matrix, torch.tensor([[1 - p, p], [p, 1 - p]], dtype=torch.float64))


@pytest.mark.parametrize("gap", [0.0, 0.1, 5.0, 30.0, 80.0])
def test_the_gradient_of_two_items_is_exact_however_small(gap):
    scores = torch.tensor([[gap, 0.0]], dtype=torch.float64)
    weight = torch.tensor([[[1.0, 0.5], [0.2, 3.0]]], dtype=torch.float64)
    _, gradient = value_and_gradient(Sinkhorn(1.0), scores, weight)
    p = math.exp(-gap) / (1 + math.exp(-gap))
    expected = p * (1 - p) * (1.0 - 0.5 - 0.2 + 3.0)
    torch.testing.assert_close(gradient, expected * torch.tensor([[1.0, -1.0]]).double(), rtol=1e-12, atol=0)


def test_is_the_optimal_transport_between_ranks_and_scores():
    """Cross ratios fix a matrix up to the scaling of rows and columns: that of exp(-2·rank·score/τ)."""
    scores, tau = lists_of("random", 1, 12)[0], 4.0
    log_matrix = Sinkhorn(tau).matrix(scores).log()
    ratios = log_matrix - log_matrix[:1]
    ratios = ratios - ratios[:, :1]
    rank = torch.arange(12, dtype=torch.float64)
    torch.testing.assert_close(ratios, -2 * rank[:, None] * (scores - scores[0]) / tau, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["random", "tied"])
def test_padding_anywhere_changes_nothing(kind, dtype, tau):
    scores = lists_of(kind, 1, 20, dtype)
    weight = torch.rand(1, 20, 20, generator=generator(2), dtype=dtype)
    matrix, gradient = value_and_gradient(Sinkhorn(tau), scores, weight)
    place = torch.randperm(50, generator=generator(3))[:20].sort().values
    mask = torch.zeros(2, 50, dtype=torch.bool)
    mask[0, place] = True
    mask[1, :45] = True
    wide = torch.full((2, 50), 1e4, dtype=dtype)
    wide[0, place] = scores[0]
    wide[1, :45] = lists_of("random", 1, 45, dtype)[0]
    wide_weight = torch.full((2, 50, 50), 3.0, dtype=dtype)
    wide_weight[0, :20, place] = weight[0]
    wide_matrix, wide_gradient = value_and_gradient(Sinkhorn(tau), wide, wide_weight, mask)
    assert_near(wide_matrix[0, :20, place], matrix[0], 1e-6)
    assert_near(wide_gradient[0, place], gradient[0], 1e-6)
    absent = ~mask[0]
    assert (wide_matrix[0, :, absent] == 0).all()
    assert (wide_matrix[0, 20:] == 0).all()
    assert (wide_matrix[1, 45:] == 0).all()
    assert (wide_gradient[0, absent] == 0).all()


@pytest.mark.parametrize("tau", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", ["random", "tied"])
def test_permuting_items_permutes_columns_and_gradient(kind, tau):
    scores = lists_of(kind, 1, 30)
    weight = torch.rand(1, 30, 30, generator=generator(4), dtype=torch.float64)
    permutation = torch.randperm(30, generator=generator(5))
    matrix, gradient = value_and_gradient(Sinkhorn(tau), scores, weight)
    moved, moved_gradient = value_and_gradient(
        Sinkhorn(tau), scores[:, permutation], weight[..., permutation]
    )
    assert_near(moved, matrix[..., permutation], 1e-9)
    assert_near(moved_gradient, gradient[:, permutation], 1e-9)


def test_tied_items_have_equal_columns():
    matrix = Sinkhorn(0.3).matrix(torch.tensor([0.5, 2.0, 0.5, 1.0, 0.5], dtype=torch.float64))
    torch.testing.assert_close(matrix[:, 0], matrix[:, 2])
    torch.testing.assert_close(matrix[:, 0], matrix[:, 4])


@pytest.mark.parametrize("tau", TAUS)
def test_equal_scores_give_the_uniform_matrix(tau):
    torch.testing.assert_close(Sinkhorn(tau).matrix(torch.full((6,), -1e30)), torch.full((6, 6), 1 / 6))


def test_adding_a_constant_changes_nothing():
    scores = lists_of("random", 2, 25)
    weight = torch.rand(2, 25, 25, dtype=torch.float64, generator=generator(6))
    moved = value_and_gradient(Sinkhorn(0.5), scores + 64, weight)
    for actual, expected in zip(moved, value_and_gradient(Sinkhorn(0.5), scores, weight), strict=True):
        assert_near(actual, expected, 1e-9)


@pytest.mark.parametrize("items", [1, 2, 9, 60])
def test_low_temperature_gives_the_hard_sort(items):
    scores = torch.randperm(items, generator=generator(7)).double()
    hard = torch.nn.functional.one_hot(scores.argsort(descending=True), items).double()
    assert torch.equal(Sinkhorn(1e-3).matrix(scores), hard)


@pytest.mark.parametrize("tau", [0.05, 0.7, 20.0])
@pytest.mark.parametrize("kind", ["random", "tied"])
def test_gradcheck(kind, tau):
    scores = lists_of(kind, 2, 6).requires_grad_()
    values = (3 * scores.detach()).cos()
    mask = torch.tensor([[True] * 6, [True, False, True, True, True, False]])
    sort = Sinkhorn(tau, tolerance=1e-12)
    assert torch.autograd.gradcheck(lambda s: sort.matrix(s, 4, mask=mask), (scores,), atol=1e-6)
    assert torch.autograd.gradcheck(lambda s: sort.apply(s, values, mask=mask), (scores,), atol=1e-6)


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_scores_never_give_nan(dtype, tau):
    random = generator(8)
    signs = torch.randint(-1, 2, (4, 40), generator=random).to(dtype)
    mixed = torch.randn(4, 40, generator=random, dtype=dtype)
    mixed = mixed * 10.0 ** torch.randint(-30, 30, (4, 40), generator=random).to(dtype)
    weight = torch.randn(4, 40, 40, generator=random, dtype=dtype)
    for scores in (1e30 * signs, torch.finfo(dtype).max * signs, mixed):
        matrix, gradient = value_and_gradient(Sinkhorn(tau), scores, weight)
        assert (matrix.sum(-2) - 1).abs().max() <= 1e-5
        assert gradient.isfinite().all()


def test_geometric_gaps_leave_exchanges_of_every_size():
    """Neighbours exchange between half a rank and 1e-50 of one; the weak exchanges too must balance."""
    gaps = torch.logspace(-2, 2.1, 60, dtype=torch.float64)
    scores = -torch.cat([gaps.new_zeros(1), gaps.cumsum(0)])
    matrix = Sinkhorn(1.0, max_iterations=20).matrix(scores)
    down = torch.stack([matrix[: r + 1, r + 1 :].sum() for r in range(60)])
    up = torch.stack([matrix[r + 1 :, : r + 1].sum() for r in range(60)])
    assert down.min() < 1e-30
    seen = down > 1e-36
    torch.testing.assert_close(down[seen], up[seen], rtol=1e-6, atol=0)


def test_where_values_are_not_checked_nan_stays_in_its_own_list():
    scores = lists_of("random", 3, 12)
    scores[1, 4] = torch.nan
    clean = scores[[0, 2]].requires_grad_()
    scores.requires_grad_()
    matrix = Sinkhorn().relaxed_matrix(scores, None, 12, 1.0)
    (gradient,) = torch.autograd.grad(matrix.square().sum(), scores)
    alone = Sinkhorn().relaxed_matrix(clean, None, 12, 1.0)
    (expected,) = torch.autograd.grad(alone.square().sum(), clean)
    assert matrix[1].isnan().all()
    assert gradient[1].isnan().all()
    torch.testing.assert_close(matrix[[0, 2]], alone)
    torch.testing.assert_close(gradient[[0, 2]], expected, rtol=1e-12, atol=1e-14)


def test_k_cuts_rows_and_pads_them():
    scores = lists_of("random", 3, 5)
    whole = Sinkhorn(0.5).matrix(scores)
    assert torch.equal(Sinkhorn(0.5).matrix(scores, 2), whole[:, :2])
    longer = Sinkhorn(0.5).matrix(scores, 8)
    assert longer.shape == (3, 8, 5)
    assert torch.equal(longer[:, :5], whole)
    assert (longer[:, 5:] == 0).all()


def test_apply_is_the_matrix_times_the_values():
    scores = lists_of("random", 6, 9).reshape(2, 3, 9)
    values = lists_of("tied", 6, 9, seed=9).reshape(2, 3, 9)
    sort = Sinkhorn(0.4)
    expected = (sort.matrix(scores, 4) @ values[..., None])[..., 0]
    torch.testing.assert_close(sort.apply(scores, values, 4), expected)
    torch.testing.assert_close(sort.apply(scores, values).sum(-1), values.sum(-1))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 0, 4), (0,)])
def test_empty_batches(shape):
    scores = torch.zeros(shape, requires_grad=True)
    matrix = Sinkhorn().matrix(scores, 3)
    assert matrix.shape == (*shape[:-1], 3, shape[-1])
    matrix.sum().backward()
    assert scores.grad.shape == shape


def test_a_list_without_items_beside_others():
    scores = lists_of("random", 2, 4).requires_grad_()
    mask = torch.tensor([[True] * 4, [False] * 4])
    for present in (mask, torch.zeros_like(mask)):
        matrix = Sinkhorn().matrix(scores, mask=present)
        assert (matrix[1] == 0).all()
        (gradient,) = torch.autograd.grad(matrix.square().sum(), scores)
        assert gradient.isfinite().all()
        assert (gradient[1] == 0).all()


@pytest.mark.parametrize("kind", ["random", "tied", "outlier", "1e3"])
def test_few_newton_steps_are_enough(kind):
    scores = lists_of(kind, 2, 100)
    for tau in TAUS:
        matrix = Sinkhorn(tau, max_iterations=6).matrix(scores)
        assert (matrix.sum(-2) - 1).abs().max() <= 1e-9
        rough = Sinkhorn(tau, max_iterations=0).matrix(scores)
        assert (rough.sum(-1) - 1).abs().max() <= 1e-12


def test_a_relative_temperature_forgets_the_scale_of_the_scores():
    scores = lists_of("random", 3, 20)
    sort = Sinkhorn(0.1, relative=True)
    torch.testing.assert_close(sort.matrix(scores * 1e3), sort.matrix(scores))
    torch.testing.assert_close(sort.matrix(torch.ones(4)), torch.full((4, 4), 0.25))


def test_half_precision_and_autocast_run_in_full():
    scores = lists_of("random", 2, 8, torch.float32).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        matrix = Sinkhorn(0.5).matrix(scores)
    assert matrix.dtype == torch.float32
    assert torch.equal(matrix, Sinkhorn(0.5).matrix(scores))
    half = Sinkhorn(0.5).matrix(scores.detach().half())
    assert half.dtype == torch.float32
    assert (half.sum(-2) - 1).abs().max() <= 1e-5


def test_compiles_into_one_graph():
    scores = lists_of("random", 2, 8).requires_grad_()
    values = lists_of("tied", 2, 8)
    mask = torch.tensor([[True] * 8, [True] * 5 + [False] * 3])
    sort = Sinkhorn(0.5)

    def loss(scores):
        return (sort.apply(scores + 1, values, 3, mask=mask) * torch.tensor([1.0, 2.0, 4.0])).sum()

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(scores), loss(scores))
    expected = torch.autograd.grad(loss(scores), scores)
    torch.testing.assert_close(torch.autograd.grad(compiled(scores), scores), expected)


def test_the_operator_keeps_what_compilers_rely_on():
    scores = lists_of("random", 3, 6).sort(descending=True).values.requires_grad_()
    lengths, tau = torch.tensor([6, 4, 0]), torch.ones(3, 1, dtype=torch.float64)
    torch.library.opcheck(torch.ops.pirank.balanced_rows, (scores, lengths, tau, 4, 1e-9, 50))


def test_a_second_derivative_is_refused():
    scores = lists_of("random", 1, 4).requires_grad_()
    loss = Sinkhorn().matrix(scores).square().sum()
    (gradient,) = torch.autograd.grad(loss, scores, create_graph=True)
    with pytest.raises(RuntimeError):
        gradient.sum().backward()


def test_the_scaled_solve_is_exact_across_scales_and_finite_where_singular():
    coupling = torch.tensor([[2.0, 1e-20, 0.0], [1e-20, 3e-40, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    truth = torch.tensor([3.0, -2e20, 0.0], dtype=torch.float64)
    torch.testing.assert_close(solve_scaled(coupling[None], (coupling @ truth)[None])[0], truth)
    both = torch.stack([torch.ones(3, 3, dtype=torch.float64), coupling])
    right = torch.stack([torch.ones(3, dtype=torch.float64), coupling @ truth])
    solution = solve_scaled(both, right)
    torch.testing.assert_close(solution[0].sum(), torch.ones((), dtype=torch.float64))
    torch.testing.assert_close(solution[1], truth)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be between 0 and 1.*0.0"),
        ({"tolerance": float("nan")}, "tolerance must be between"),
        ({"max_iterations": -1}, "max_iterations must be a whole number.*-1"),
        ({"max_iterations": 2.5}, "max_iterations must be a whole number.*2.5"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Sinkhorn(**options)
