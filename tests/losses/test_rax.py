"""The losses that Rax has too give Rax's numbers, list by list, with and without padding."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch

from pirank import losses

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    rax = pytest.importorskip("rax", reason="needs rax: pip install rax")
    jax = pytest.importorskip("jax", reason="needs jax: pip install jax")
    jnp = pytest.importorskip("jax.numpy")

LENGTH = 7


def lambda_weight(k):
    """Rax multiplies its weights by the list's (padded) length; the paper does not."""

    def weight(scores, labels, **kwargs):
        return rax.dcg_lambdaweight(scores, labels, topn=k, normalize=True, **kwargs) / LENGTH

    return weight


def lambdaloss_weight(k):
    def weight(scores, labels, **kwargs):
        return rax.dcg2_lambdaweight(scores, labels, topn=k, normalize=True, **kwargs) / LENGTH

    return weight


def logistic(**options):
    return lambda s, y, m: rax.pairwise_logistic_loss(s, y, where=m, reduce_fn=jnp.sum, **options)


def approx(metric, temperature):
    """What rax.approx_t12n makes, which does not run with every version of jax."""
    ranks = partial(rax.utils.approx_ranks, step_fn=lambda x: jax.nn.sigmoid(x / temperature))
    return lambda s, y, m: 1 - metric(s, y, where=m, rank_fn=ranks)


CASES = {
    "mse": (losses.mse_loss, {}, lambda s, y, m: rax.pointwise_mse_loss(s, y, where=m)),
    "sigmoid-ce": (
        losses.sigmoid_cross_entropy_loss,
        {},
        lambda s, y, m: rax.pointwise_sigmoid_loss(s, y, where=m),
    ),
    "ranknet": (losses.ranknet_loss, {}, logistic()),
    "ranknet-average": (
        losses.ranknet_loss,
        {"average_pairs": True},
        lambda s, y, m: rax.pairwise_logistic_loss(s, y, where=m),
    ),
    "hinge": (
        losses.pairwise_hinge_loss,
        {},
        lambda s, y, m: rax.pairwise_hinge_loss(s, y, where=m, reduce_fn=jnp.sum),
    ),
    "lambdarank": (losses.lambdarank_loss, {"k": None}, logistic(lambdaweight_fn=lambda_weight(None))),
    "lambdarank-3": (losses.lambdarank_loss, {"k": 3}, logistic(lambdaweight_fn=lambda_weight(3))),
    "lambdaloss": (losses.lambdaloss, {"scheme": "ndcg2"}, logistic(lambdaweight_fn=lambdaloss_weight(None))),
    "lambdaloss-3": (
        losses.lambdaloss,
        {"scheme": "ndcg2", "k": 3},
        logistic(lambdaweight_fn=lambdaloss_weight(3)),
    ),
    "softmax": (losses.softmax_loss, {}, lambda s, y, m: rax.softmax_loss(s, y, where=m)),
    "listnet": (
        losses.listnet_loss,
        {},
        lambda s, y, m: rax.softmax_loss(s, y, where=m, label_fn=rax.utils.normalize_probabilities),
    ),
    "listmle": (losses.listmle_loss, {}, lambda s, y, m: rax.listmle_loss(s, y, where=m)),
    "approx-ndcg": (losses.approx_ndcg_loss, {}, approx(rax.ndcg_metric, 0.1)),
    "approx-ndcg-1": (losses.approx_ndcg_loss, {"temperature": 1.0}, approx(rax.ndcg_metric, 1.0)),
    "approx-mrr": (losses.approx_mrr_loss, {}, approx(rax.mrr_metric, 0.1)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("padded", [False, True])
def test_value_and_gradient(case, padded):
    loss, options, of_rax = CASES[case]
    generator = np.random.default_rng(0)
    for _ in range(3):
        scores = generator.normal(size=LENGTH).astype(np.float32)
        labels = generator.integers(0, 4, LENGTH).astype(np.float32)
        labels[0] = 2
        mask = generator.random(LENGTH) < 0.7 if padded else np.ones(LENGTH, bool)
        mask[0] = True
        # Rax counts the gains of absent items unless their labels are 0.
        labels = labels * mask
        ours = torch.from_numpy(scores).requires_grad_()
        value = loss(ours, torch.from_numpy(labels), mask=torch.from_numpy(mask), **options)
        (gradient,) = torch.autograd.grad(value, ours)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, expected_gradient = jax.value_and_grad(of_rax)(
                jnp.asarray(scores), jnp.asarray(labels), jnp.asarray(mask)
            )
        assert value.item() == pytest.approx(float(expected), rel=2e-5, abs=1e-6)
        np.testing.assert_allclose(gradient.numpy(), np.asarray(expected_gradient), rtol=2e-4, atol=2e-5)
