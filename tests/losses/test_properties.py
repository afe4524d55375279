"""What holds for every loss, whatever it computes."""

import pytest
import torch

import pirank
from pirank import losses
from pirank.metrics import NDCG

pytestmark = pytest.mark.parametrize("name", losses.names())

# A list's score for the loss to be least, from its labels; where not given, any wide enough margin will do.
OPTIMUM = {
    "mse": lambda y: y,
    "sigmoid-ce": lambda y: torch.where(y > 0, 30.0, -30.0),
    "ordinal": lambda y: y,
    "softmax": lambda y: y.log().clamp(min=-30),
    "listnet": lambda y: y.log().clamp(min=-30),
}
# Losses that fall to 0 as the margins of a perfectly ordered list of distinct labels grow.
TO_ZERO = {"ranknet", "pairwise-hinge", "lambdarank", "lambdaloss", "listmle", "p-listmle"}
TO_ZERO |= {"approx-ndcg", "approx-mrr", "neuralsort", "neural-ndcg"}


def batch(*shape, seed=0, dtype=torch.float64):
    """Scores without ties and labels from 0 to 4, some of each in every list."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*shape, generator=generator, dtype=dtype)
    labels = torch.randint(0, 5, shape, generator=generator).to(dtype)
    labels[..., 0], labels[..., 1] = 0, 3
    return scores, labels


def value_and_gradient(loss, scores, labels, **layout):
    scores = scores.detach().clone().requires_grad_()
    value = loss(scores, labels, **layout)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), gradient


def test_any_batch_shape(name):
    loss = losses.get(name, reduction="none")
    scores, labels = batch(2, 3, 6)
    value, gradient = value_and_gradient(loss, scores, labels)
    assert value.shape == (2, 3)
    assert gradient.shape == scores.shape
    for i in range(2):
        for j in range(3):
            one, its_gradient = value_and_gradient(loss, scores[i, j], labels[i, j])
            assert one.shape == ()
            torch.testing.assert_close(one, value[i, j])
            torch.testing.assert_close(its_gradient, gradient[i, j])


def test_mask_offsets_and_list_by_list_agree(name):
    loss = losses.get(name, reduction="none")
    lengths = [5, 1, 0, 7, 3]
    scores, labels = batch(sum(lengths))
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    flat, flat_gradient = value_and_gradient(loss, scores, labels, offsets=offsets)
    padded_scores, mask = pirank.lists.padded(scores, offsets, fill=float("nan"))
    padded_labels, _ = pirank.lists.padded(labels, offsets, fill=float("nan"))
    padded, padded_gradient = value_and_gradient(loss, padded_scores, padded_labels, mask=mask)
    singly = [
        value_and_gradient(loss, s, y)
        for s, y in zip(scores.split(lengths), labels.split(lengths), strict=True)
    ]
    torch.testing.assert_close(padded, flat)
    torch.testing.assert_close(padded_gradient[mask], flat_gradient)
    assert (padded_gradient[~mask] == 0).all()
    torch.testing.assert_close(torch.stack([value for value, _ in singly]), flat)
    torch.testing.assert_close(torch.cat([gradient for _, gradient in singly]), flat_gradient)


def test_padding_changes_nothing(name):
    loss = losses.get(name)
    scores, labels = batch(4, 6)
    value, gradient = value_and_gradient(loss, scores, labels)
    wide = torch.full((4, 5), 7.0, dtype=scores.dtype)
    mask = torch.arange(11) < torch.tensor([6] * 4)[:, None]
    padded, padded_gradient = value_and_gradient(
        loss, torch.cat([scores, wide], -1), torch.cat([labels, wide], -1), mask=mask
    )
    torch.testing.assert_close(padded, value)
    torch.testing.assert_close(padded_gradient[:, :6], gradient)


def test_absent_items_may_be_anywhere(name):
    loss = losses.get(name)
    scores, labels = batch(4, 9)
    mask = torch.ones(4, 9, dtype=torch.bool)
    mask[:, [2, 5, 6]] = False
    value, gradient = value_and_gradient(loss, scores, labels, mask=mask)
    kept, kept_gradient = value_and_gradient(loss, scores[:, mask[0]], labels[:, mask[0]])
    torch.testing.assert_close(value, kept)
    torch.testing.assert_close(gradient[:, mask[0]], kept_gradient)


def test_permutation_of_the_items_permutes_the_gradient(name):
    loss = losses.get(name)
    scores, _ = batch(3, 8)
    # Distinct labels: what losses do with ties may depend on the order, and is tested where they are.
    labels = torch.rand(3, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 4
    value, gradient = value_and_gradient(loss, scores, labels)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    permuted, permuted_gradient = value_and_gradient(loss, scores[:, order], labels[:, order])
    torch.testing.assert_close(permuted, value)
    torch.testing.assert_close(permuted_gradient, gradient[:, order])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lists_without_a_relevant_item_give_zero(name, dtype):
    scores, labels = batch(4, 6, dtype=dtype)
    labels[1] = 0
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[2] = False
    scores[2] = float("nan")
    for reduction in ("none", "sum", "mean"):
        loss = losses.get(name, reduction=reduction)
        value, gradient = value_and_gradient(loss, scores, labels, mask=mask)
        assert value.isfinite().all()
        assert (gradient[1:3] == 0).all()
        assert (gradient[0] != 0).any()
        if reduction == "none":
            assert (value[1:3] == 0).all()
    of_all = losses.get(name)(torch.zeros(3, 5), torch.zeros(3, 5))
    assert of_all == 0
    assert losses.get(name)(torch.zeros(3, 0), torch.zeros(3, 0)) == 0
    assert losses.get(name)(torch.zeros(0, 5), torch.zeros(0, 5)) == 0


def test_the_mean_is_over_lists_with_a_relevant_item(name):
    scores, labels = batch(4, 6)
    labels[1] = 0
    weights = torch.tensor([1.0, 5.0, 2.0, 0.5])
    each = losses.get(name, reduction="none")(scores, labels)
    counted = torch.tensor([0, 2, 3])
    torch.testing.assert_close(losses.get(name)(scores, labels), each[counted].mean())
    torch.testing.assert_close(losses.get(name, empty="zero")(scores, labels), each.mean())
    torch.testing.assert_close(losses.get(name, reduction="sum")(scores, labels), each.sum())
    torch.testing.assert_close(
        losses.get(name)(scores, labels, weights=weights),
        (each * weights).sum() / weights[counted].sum().double(),
    )
    torch.testing.assert_close(
        losses.get(name, empty="zero")(scores, labels, weights=weights),
        (each * weights).sum() / weights.sum().double(),
    )


def test_extreme_scores_give_no_nan(name):
    scores = torch.tensor([[1e30, -1e30, 0.0, 1.0], [-1e30, 1e30, 1e30, -1e30], [1e30, 1e30, 1e30, 1e30]])
    labels = torch.tensor([[0.0, 2.0, 1.0, 0.0]] * 3)
    mask = torch.tensor([[True, True, True, False]] * 3)
    for layout in ({}, {"mask": mask}):
        value, gradient = value_and_gradient(losses.get(name), scores, labels, **layout)
        assert not value.isnan()
        assert not gradient.isnan().any()


def test_gradient_is_the_derivative(name):
    scores, labels = batch(3, 6)
    mask = torch.rand(3, 6, generator=torch.Generator().manual_seed(3)) < 0.8
    weights = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)

    def loss(scores):
        return losses.get(name)(scores, labels, mask=mask, weights=weights)

    assert torch.autograd.gradcheck(loss, scores.requires_grad_())


def test_nothing_beats_the_perfect_order(name):
    labels = torch.tensor([0.0, 3.0, 1.0, 4.0, 2.0], dtype=torch.float64)
    at = OPTIMUM.get(name, lambda y: 100 * y)
    loss = losses.get(name)
    best = loss(at(labels), labels)
    others = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(i)) for i in range(40)])
    assert (
        losses.get(name, reduction="none")(at(labels)[others], labels.expand(40, 5)) >= best - 1e-12
    ).all()
    scores = at(labels).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(scores, labels), scores)
    if name != "ordinal":  # its least loss is at s = y for the middle label only, and beyond for the others
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-3, rtol=0)
    if name in TO_ZERO:
        margins = [float(loss(margin * labels, labels)) for margin in (0.0, 1.0, 3.0, 10.0, 100.0)]
        assert margins == sorted(margins, reverse=True)
        assert margins[-1] < 1e-12


def test_training_raises_ndcg(name):
    generator = torch.Generator().manual_seed(4)
    features = torch.randn(32, 20, 8, generator=generator)
    truth = torch.randn(8, generator=generator)
    noisy = features @ truth + 0.5 * torch.randn(32, 20, generator=generator)
    labels = (noisy.argsort(-1).argsort(-1) // 4 - 2).clamp(min=0).float()
    weight = torch.zeros(8, requires_grad=True)
    with torch.no_grad():
        weight += 0.1 * torch.randn(8, generator=generator)
    optimizer = torch.optim.Adam([weight], lr=0.03)
    loss, ndcg = losses.get(name), NDCG(k=10)
    start = ndcg(features @ weight.detach(), labels)
    for _ in range(200):
        optimizer.zero_grad()
        loss(features @ weight, labels).backward()
        optimizer.step()
    end = ndcg(features @ weight.detach(), labels)
    assert end > start + 0.2
    assert end > 0.75


def test_half_precision_and_autocast_compute_in_float32(name):
    scores, labels = batch(3, 6, dtype=torch.float32)
    scores = scores.bfloat16().float()
    value, gradient = value_and_gradient(losses.get(name), scores, labels)
    half, half_gradient = value_and_gradient(losses.get(name), scores.bfloat16(), labels)
    assert half.dtype == torch.float32
    assert half_gradient.dtype == torch.bfloat16
    torch.testing.assert_close(half, value)
    torch.testing.assert_close(half_gradient, gradient.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under, under_gradient = value_and_gradient(losses.get(name), scores, labels)
    assert under.dtype == torch.float32
    torch.testing.assert_close(under, value)
    torch.testing.assert_close(under_gradient, gradient)


def test_without_a_gradient_the_value_is_the_same(name):
    scores, labels = batch(3, 6)
    loss = losses.get(name)
    value, _ = value_and_gradient(loss, scores, labels)
    with torch.no_grad():
        torch.testing.assert_close(loss(scores, labels), value)


# PyTorch warns of something that its own compiler does.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiles_to_one_graph(name):
    torch._dynamo.reset()
    scores, labels = batch(3, 6)
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[0, 4:] = False
    # Fifty unrolled iterations take the compiler long.
    loss = losses.get(name, max_iterations=2) if name == "neural-ndcg" else losses.get(name)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    value, gradient = value_and_gradient(loss, scores, labels, mask=mask)
    of_graph, its_gradient = value_and_gradient(compiled, scores, labels, mask=mask)
    torch.testing.assert_close(of_graph, value)
    torch.testing.assert_close(its_gradient, gradient)


def test_function_transforms(name):
    if name.startswith("pirank-"):
        pytest.skip("the sorts' own functions take no function transforms")
    scores, labels = batch(3, 6)
    loss = losses.get(name)
    _, gradient = value_and_gradient(loss, scores, labels)
    torch.testing.assert_close(torch.func.grad(lambda scores: loss(scores, labels))(scores), gradient)
