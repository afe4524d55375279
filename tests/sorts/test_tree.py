"""The divide and conquer equals a literal transcription of the paper's recursion."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from pirank.sorts import NeuralSort, SoftSort, Tree


def literal_tree(
    scores: torch.Tensor, branching: tuple[int, ...], widths: tuple[int, ...], temperatures: tuple[float, ...]
) -> torch.Tensor:
    """The k × L matrix of the paper's Q, Y and P recursions, index by index, for one list of b_1 ⋯ b_d scores."""
    d = len(branching)
    # Y^(0) of shape (1, b_1, …, b_d), i_1 fastest in the list: reversed axes of the row-major reshape.
    y = scores.reshape(*reversed(branching)).permute(*range(d - 1, -1, -1))[None]
    p = torch.ones(1, *branching, dtype=scores.dtype)
    below = 1
    for j in range(d):
        b, k = branching[j], widths[j]
        rest = branching[j + 1 :]
        q = torch.empty(k, below, b, *rest, dtype=scores.dtype)
        up = torch.empty(k, *rest, dtype=scores.dtype)
        for node in itertools.product(*map(range, rest)):
            at = (slice(None), slice(None), *node)
            child = y[at]  # [k_{j−1}, b_j]
            distance = (child[:, :, None, None] - child[None, None]).abs().sum((2, 3))
            for row in range(k):
                logits = ((below * b + 1 - 2 * (row + 1)) * child - distance) / temperatures[j]
                weights = logits.flatten().softmax(0).reshape(below, b)
                q[(row, *at)] = weights
                up[(row, *node)] = (weights * child).sum()
        grown = torch.zeros(k, *branching, dtype=scores.dtype)
        for index in itertools.product(*map(range, branching)):
            for row in range(k):
                grown[(row, *index)] = sum(q[(row, m, *index[j:])] * p[(m, *index)] for m in range(below))
        y, p, below = up, grown, k
    return p.permute(0, *range(d, 0, -1)).reshape(widths[-1], -1)


CASES = [
    ((12,), (5,), (0.7,)),
    ((3, 4), (3, 5), (0.2, 0.7)),
    ((4, 3), (4, 5), (0.5, 0.5)),
    ((2, 3, 2), (2, 4, 4), (0.1, 0.3, 1.0)),
    ((3, 2, 2), (1, 1, 1), (0.4, 0.4, 0.4)),
    ((2, 2, 3), (2, 4, 6), (0.3, 0.5, 2.0)),
]


@pytest.mark.parametrize(("branching", "widths", "temperatures"), CASES)
def test_equals_the_papers_recursion(branching, widths, temperatures) -> None:
    random = torch.Generator().manual_seed(7)
    scores = torch.randn(math.prod(branching), generator=random, dtype=torch.float64)
    values = torch.rand(math.prod(branching), generator=random, dtype=torch.float64)
    literal = literal_tree(scores, branching, widths, temperatures)
    tree = Tree(NeuralSort(), branching=branching, widths=widths, temperatures=temperatures)
    k = widths[-1]
    torch.testing.assert_close(tree.matrix(scores, k), literal, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(tree.apply(scores, values, k), literal @ values, rtol=1e-10, atol=1e-12)


def test_depth_one_is_the_sort_itself() -> None:
    scores = torch.randn(3, 14, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for sort in (NeuralSort(0.3), SoftSort(0.3)):
        torch.testing.assert_close(Tree(sort, depth=1).matrix(scores, 6), sort.matrix(scores, 6))


def test_the_papers_example() -> None:
    scores = torch.tensor([0.2, 0.5, 0.3, 0.4, 0.1, 0.7])
    for straight_through, tau in ((False, 1e-4), (True, 10.0)):
        tree = Tree(NeuralSort(tau), branching=(3, 2), straight_through=straight_through)
        torch.testing.assert_close(tree.apply(scores, scores, 2), torch.tensor([0.7, 0.5]))


def test_a_list_that_does_not_factor_equals_its_leaves_by_mask() -> None:
    random = torch.Generator().manual_seed(1)
    scores = torch.randn(2, 11, generator=random, dtype=torch.float64)
    values = torch.rand(2, 11, generator=random, dtype=torch.float64)
    tree = Tree(NeuralSort(0.4), branching=(4, 3))
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[:, 11] = False
    wide = torch.nn.functional.pad(scores, (0, 1)), torch.nn.functional.pad(values, (0, 1))
    torch.testing.assert_close(tree.apply(scores, values, 5), tree.apply(*wide, 5, mask=mask))


def test_straight_through_passes_on_hard_values_with_the_relaxed_gradient() -> None:
    random = torch.Generator().manual_seed(2)
    scores = torch.randn(12, generator=random, dtype=torch.float64, requires_grad=True)
    values = torch.rand(12, generator=random, dtype=torch.float64)
    tree = Tree(NeuralSort(0.5), branching=(4, 3), straight_through=True)
    ranked = tree.apply(scores, values, 4)
    torch.testing.assert_close(ranked, values[scores.argsort(descending=True)[:4]])
    (gradient,) = torch.autograd.grad(ranked.sum(), scores)
    assert gradient.abs().max() > 1e-3


def test_depth_chooses_a_balanced_branching() -> None:
    scores = torch.randn(1000)
    for depth in (1, 2, 3, 4):
        branching, _ = Tree(NeuralSort(), depth=depth)._levels(1000, 10)
        assert len(branching) == depth
        assert 1000 <= math.prod(branching) <= 1100
        assert max(branching) - min(branching) <= 2 + (depth == 1) * 1000
    assert Tree(NeuralSort(1e-6), depth=3).apply(scores, scores, 2)[0] == pytest.approx(
        float(scores.max()), abs=1e-5
    )


def test_setting_the_temperature_scales_every_level() -> None:
    scores = torch.randn(12, generator=torch.Generator().manual_seed(3))
    tree = Tree(NeuralSort(), branching=(4, 3), temperatures=(0.1, 0.4))
    assert tree.temperature == 0.4
    tree.temperature = 2.0
    same = Tree(NeuralSort(), branching=(4, 3), temperatures=(0.5, 2.0))
    torch.testing.assert_close(tree.matrix(scores, 3), same.matrix(scores, 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tree(NeuralSort()), "needs branching"),
        (
            lambda: Tree(NeuralSort(), branching=(3, 0)),
            r"branching\[1\] must be a whole number of at least 1, got 0",
        ),
        (lambda: Tree(NeuralSort(), branching=()), "at least one level"),
        (lambda: Tree(NeuralSort(), branching=(3, 2), depth=3), "disagree"),
        (lambda: Tree(NeuralSort(), depth=0), "depth must be a whole number of at least 1"),
        (
            lambda: Tree(NeuralSort(), branching=(3, 2)).apply(torch.ones(7), torch.ones(7), 2),
            "3 × 2 = 6 leaves for 7",
        ),
        (
            lambda: Tree(NeuralSort(), branching=(3, 2), widths=(1,)).apply(torch.ones(6), torch.ones(6), 2),
            r"widths\[0\] must be between min\(k, k_0 b_1\) = 2 and k_0 b_1 = 3, got 1",
        ),
        (
            lambda: Tree(NeuralSort(), branching=(3, 2), widths=(4,)).apply(torch.ones(6), torch.ones(6), 2),
            "= 3, got 4",
        ),
        (lambda: Tree(NeuralSort(), branching=(3, 2), widths=(1, 2, 3)), "widths must name 1 or 2 levels"),
        (
            lambda: Tree(NeuralSort(), branching=(3, 2), temperatures=(1.0,)),
            "one for each of the 2 levels, got 1",
        ),
        (
            lambda: Tree(NeuralSort(), branching=(3, 2), temperatures=(2.0, 1.0)),
            r"must not fall.*temperatures\[1\] = 1.0 is below temperatures\[0\] = 2.0",
        ),
    ],
)
def test_errors_say_which_rule_was_broken(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
