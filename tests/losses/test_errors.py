"""Mistakes are refused where they are made, with what was expected."""

import copy
import inspect
import pickle

import numpy as np
import pytest
import torch

import pirank
from pirank import losses
from pirank.metrics import ERR


def test_unknown_names_and_options_name_the_nearest():
    with pytest.raises(ValueError, match="no loss 'lamdarank'; did you mean 'lambdarank'"):
        losses.get("lamdarank")
    with pytest.raises(ValueError, match="has no option 'metrics'; did you mean 'metric'"):
        losses.get("lambdarank", metrics="ndcg")
    with pytest.raises(ValueError, match="LambdaRankLoss has no option 'metrics'; did you mean 'metric'"):
        losses.LambdaRankLoss(metrics="ndcg")
    with pytest.raises(ValueError, match=r"known: .*mse, "):
        losses.get("?")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lambdarank", {"k": 0}, "k must be at least 1"),
        ("lambdarank", {"metric": "err"}, "metric must be one of 'ndcg'"),
        ("lambdarank", {"metric": ERR()}, "or such a metric: got ERR"),
        ("lambdarank", {"metric": "arp"}, "k must be None with metric='arp'"),
        ("lambdarank", {"metric": "precision", "k": None}, "k must be given with metric='precision'"),
        ("lambdaloss", {"scheme": "ndcg3"}, "scheme must be one of"),
        ("lambdaloss", {"mu": -1.0}, "mu must be a finite number"),
        ("approx-ndcg", {"temperature": 0.0}, "temperature must be a finite number above 0"),
        ("approx-ndcg", {"gumbel_samples": -1}, "gumbel_samples must be"),
        ("approx-mrr", {"gumbel_scale": -1.0}, "gumbel_scale must be"),
        ("listmle", {"ties": "none"}, "ties must be one of"),
        ("listnet", {"targets": "max"}, "targets must be one of"),
        ("neuralsort", {"temperature": -1.0}, "temperature must be a finite number above 0"),
        ("neuralsort", {"label_temperature": 0.0}, "temperature must be a finite number above 0"),
        ("neural-ndcg", {"max_iterations": -1}, "max_iterations must be a whole number"),
        ("neural-ndcg", {"tolerance": 1.0}, "tolerance must be from 0 to 1"),
        ("neural-ndcg", {"k": 0}, "k must be at least 1"),
        ("ordinal", {"levels": 0}, "levels must be a whole number"),
        ("mse", {"reduction": "avg"}, "reduction must be one of 'mean', 'sum', 'none'"),
        ("mse", {"empty": "one"}, "empty must be one of"),
    ],
)
def test_options_are_checked_when_a_loss_is_made(name, options, message):
    with pytest.raises(ValueError, match=message):
        losses.get(name, **options)


@pytest.mark.parametrize("name", losses.names())
def test_inputs_are_checked(name):
    loss = losses.get(name)
    scores, labels = torch.randn(2, 3), torch.ones(2, 3)
    with pytest.raises(ValueError, match="labels must have the shape of scores"):
        loss(scores, labels[:1])
    with pytest.raises(ValueError, match="scores must be finite"):
        loss(scores / 0, labels)
    with pytest.raises(ValueError, match="weights must be one number a list"):
        loss(scores, labels, weights=torch.ones(3))
    with pytest.raises(ValueError, match="weights must not be negative"):
        loss(scores, labels, weights=torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="weights must be finite"):
        loss(scores, labels, weights=torch.tensor([1.0, float("nan")]))
    with pytest.raises(TypeError, match="scores must be floating point"):
        loss(labels.long(), labels)
    with pytest.raises(ValueError, match="mask and offsets exclude each other"):
        loss(scores[0], labels[0], mask=labels[0] > 0, offsets=torch.tensor([0, 3]))


@pytest.mark.parametrize("name", ["softmax", "listnet", "pirank-ndcg", "approx-ndcg"])
def test_negative_labels_are_refused_where_they_have_no_meaning(name):
    with pytest.raises(ValueError, match="labels must not be negative with"):
        losses.get(name)(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, -1.0]]))
    absent = torch.tensor([[True, True, False]])
    assert losses.get(name)(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, -1.0]]), mask=absent).isfinite()


@pytest.mark.parametrize("name", losses.names())
def test_offsets_may_be_a_list_or_an_array(name):
    loss = losses.get(name)
    scores, labels = torch.tensor([0.3, -0.2, 0.9, 0.1]), torch.tensor([0.0, 2.0, 1.0, 0.0])
    expected = loss(scores, labels, offsets=torch.tensor([0, 3, 4]))
    assert loss(scores, labels, offsets=[0, 3, 4]) == expected
    assert loss(scores, labels, offsets=np.array([0, 3, 4])) == expected


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 0, 0]])
@pytest.mark.parametrize("name", losses.names())
def test_a_process_without_items_goes_backward_like_the_others(name, offsets):
    scores = torch.zeros(0, requires_grad=True)
    loss = losses.get(name)(scores, torch.zeros(0), offsets=torch.tensor(offsets))
    loss.backward()
    assert loss == 0
    assert scores.grad.shape == (0,)


@pytest.mark.parametrize("name", [name for name in losses.names() if not name.startswith("pirank-")])
def test_a_module_shows_its_options_and_knows_its_signature(name):
    loss = losses.get(name, reduction="sum")
    assert isinstance(loss, losses.ListLoss)
    assert repr(loss) == f"{type(loss).__name__}(reduction='sum')"
    assert list(inspect.signature(type(loss)).parameters) == list(loss.option_names())
    assert type(loss).__doc__ is not None
    assert type(loss).__name__ in pirank.losses.__all__
    assert type(loss).function.__name__ in pirank.losses.__all__


@pytest.mark.parametrize("name", losses.names())
def test_a_module_can_be_copied_and_pickled(name):
    loss = losses.get(name, reduction="sum")
    scores, labels = torch.tensor([0.3, -0.2, 0.9]), torch.tensor([0.0, 2.0, 1.0])
    for again in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert repr(again) == repr(loss)
        assert again(scores, labels) == loss(scores, labels)
