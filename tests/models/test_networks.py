"""Networks: what each may look at, and that a model file gives back the same ranker, or one clear error."""

import pytest
import torch
from safetensors.torch import save_file

from pirank.models import MLP, ListAttention, Ranker, get, names


@pytest.mark.parametrize("name", names())
def test_every_named_network_scores_flat_rows(name):
    network = get(name, 5).eval()
    assert network(torch.rand(7, 5), torch.tensor([0, 3, 7])).shape == (7,)
    assert network(torch.rand(0, 5), torch.tensor([0, 0])).shape == (0,)


def test_paper_scorers_have_the_layers_of_the_paper():
    widths = [layer[0].out_features for layer in get("paper-benchmark", 136).layers]
    assert widths == [1024, 512, 256]
    assert all(isinstance(layer[1], torch.nn.BatchNorm1d) for layer in get("paper-benchmark", 136).layers)
    assert [layer[3].p for layer in get("paper-benchmark", 136).layers] == [0.3, 0.3, 0.3]
    ablation = get("paper-ablation", 136)
    assert [layer[0].out_features for layer in ablation.layers] == [256, 256, 128, 128, 64, 64]


def test_attention_sees_its_own_list_only():
    torch.manual_seed(0)
    network = ListAttention(5).eval()
    features, offsets = torch.rand(10, 5), torch.tensor([0, 3, 3, 10])
    scores = network(features, offsets)
    torch.testing.assert_close(scores[3:], network(features[3:]))
    torch.testing.assert_close(scores[:3], network(features[:3], torch.tensor([0, 3])))
    changed = features.clone()
    changed[3:] += 1
    torch.testing.assert_close(scores[:3], network(changed, offsets)[:3])
    assert (scores[3:] - network(changed, offsets)[3:]).abs().max() > 1e-6


def test_attention_has_no_positions():
    torch.manual_seed(0)
    network = ListAttention(5).eval()
    features = torch.rand(10, 5)
    order = torch.randperm(10)
    torch.testing.assert_close(network(features)[order], network(features[order]))


def test_attention_gradients_are_finite_with_an_empty_list():
    network = ListAttention(5, dropout=0.0)
    network(torch.rand(4, 5), torch.tensor([0, 0, 4])).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())


def test_residual_adds_where_widths_agree():
    network = MLP(4, hidden=(4,), residual=True)
    features = torch.rand(3, 4)
    torch.testing.assert_close(network.hidden(features), features + network.layers[0](features))


@pytest.mark.parametrize("model", ["mlp", "attention"])
def test_a_saved_ranker_is_the_same_ranker(tmp_path, model):
    features, offsets = torch.randn(50, 3), torch.tensor([0, 20, 50])
    ranker = Ranker(3, model=model, transform="quantile+query-rank", members=2, feature_names=["a", "b", "c"])
    ranker.transform.fit(features)
    ranker.eval().weigh_equally(ranker.transform(features, offsets), offsets)
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert torch.equal(loaded(features, offsets), ranker(features, offsets))
    assert loaded.description == ranker.description
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_members_weigh_equally_whatever_their_scale():
    features = torch.randn(50, 3)
    ranker = Ranker(3, model="linear", members=2).eval()
    with torch.no_grad():
        ranker.members[0].score.weight.mul_(1000)
    ranker.weigh_equally(features, torch.tensor([0, 50]))
    standardised = [m(features) for m in ranker.members]
    standardised = [(s - s.mean()) / s.std(unbiased=False) for s in standardised]
    torch.testing.assert_close(
        ranker(features), (standardised[0] + standardised[1]) / 2, atol=1e-5, rtol=1e-5
    )


def test_a_bad_model_file_is_one_clear_error(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(FileNotFoundError, match="no model at"):
        Ranker.load(path)
    path.write_bytes(b"not a model")
    with pytest.raises(ValueError, match="damaged or not a model"):
        Ranker.load(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="no pirank model"):
        Ranker.load(path)
    Ranker(3).save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        Ranker.load(path)


def test_wrong_names_are_told_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'attention'"):
        get("atention", 3)
    with pytest.raises(ValueError, match="did you mean 'dropout'"):
        get("mlp", 3, droput=0.1)
    with pytest.raises(ValueError, match="did you mean 'relu'"):
        get("mlp", 3, activation="relù")
