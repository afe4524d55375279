"""What a comparison is made of: cuts, blank rules, data sets by name and folder, and the authors' two departures."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.fake_sets import write_letor, write_mslr, write_yahoo
from pirank.data import synthetic
from pirank.experiments.authors_code import AuthorsNDCGLoss
from pirank.experiments.methods import loss_method, settings_of
from pirank.experiments.protocol import averaged_as_tf_ranking, cut, measured, with_blank_rule
from pirank.experiments.sources import source_of
from pirank.losses import PiRankNDCGLoss
from pirank.sorts.naive import naive_neural_sort
from pirank.training import preset


def test_a_cut_keeps_documents_of_their_own_query_at_random():
    data = synthetic(queries=30, list_size=(1, 20), seed=1)
    shorter = cut(data, 7)
    assert shorter.lengths.tolist() == data.lengths.clamp(max=7).tolist()
    for whole, part in zip(data, shorter, strict=True):
        rows = {tuple(row) for row in whole.features.tolist()}
        kept = [tuple(row) for row in part.features.tolist()]
        assert len(set(kept)) == len(kept)
        assert set(kept) <= rows
    first = [
        part.features[0].tolist() == whole.features[0].tolist()
        for whole, part in zip(data, shorter, strict=True)
    ]
    assert not all(first)  # shuffled
    assert torch.equal(cut(data, 7).features, shorter.features)
    assert not torch.equal(cut(data, 7, seed=1).features, shorter.features)


def test_blank_rules_are_those_of_the_conventions():
    data = synthetic(queries=4, list_size=3, seed=0)
    data.labels = torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 1, 1])
    values = measured(torch.arange(12.0), data, ("ndcg@1", "arp", "opa"))
    assert np.isnan(values["ndcg@1"]).tolist() == [False, True, False, False]
    assert with_blank_rule("ndcg@1", values["ndcg@1"], "one").tolist() == [0, 1, 1, 1]
    assert with_blank_rule("ndcg@1", values["ndcg@1"], "zero").tolist() == [0, 0, 1, 1]
    for name in ("arp", "opa"):
        assert np.isnan(with_blank_rule(name, values[name], "one"))[1]
    # ARP over labels: ranks 3 (label 1), 2 and 1 (labels 1 and 2), 3, 2 and 1 (label 1 each): (3 + 4 + 6) / 7.
    assert averaged_as_tf_ranking(torch.arange(12.0), data)["arp"] == pytest.approx(13 / 7)


def test_five_parts_make_the_official_folds(tmp_path):
    for part in range(1, 6):
        write_letor(tmp_path / "set" / f"S{part}.txt", 4, features=3, seed=part, first=100 * part)
    source = source_of(str(tmp_path / "set"))
    assert source.name == "set"
    assert source.folds == (1, 2, 3, 4, 5)
    splits = source.splits(4)
    assert {int(q) // 100 for q in splits.train.query_ids} == {4, 5, 1}
    assert {int(q) // 100 for q in splits.vali.query_ids} == {2}
    assert {int(q) // 100 for q in splits.test.query_ids} == {3}


def test_named_sets_come_from_the_folders_they_unpack_to(tmp_path):
    with pytest.warns(UserWarning, match="were published"):
        mslr = source_of(f"mslr-web30k={write_mslr(tmp_path / 'MSLR-WEB30K')}", (1,)).splits(1)
    assert mslr.train.features.shape[1] == 136
    source = source_of(f"yahoo-c14={write_yahoo(tmp_path / 'yahoo')}")
    assert source.folds == (1,)
    with pytest.warns(UserWarning, match="were published"):
        assert source.splits(1).test.features.shape[1] == 700


def test_synthetic_tasks_have_names_of_their_own():
    sources = [
        source_of(text) for text in ("synthetic", "long=synthetic:queries=9:list_size=7", "short=synthetic")
    ]
    assert [source.name for source in sources] == ["synthetic", "long", "short"]
    assert (sources[1].options["queries"], sources[1].options["list_size"]) == (9, 7)
    assert sources[1].splits(1).train.lengths.tolist() == [7] * 9


def test_a_single_file_is_split_by_query(tmp_path):
    write_letor(tmp_path / "rows.txt", 20, features=3, seed=0)
    splits = source_of(f"mine={tmp_path / 'rows.txt'}").splits(1)
    ids = [set(part.query_ids.tolist()) for part in splits]
    assert [len(each) for each in ids] == [12, 4, 4]
    assert len(set.union(*ids)) == 20


def test_a_folder_without_splits_is_refused(tmp_path):
    Path(tmp_path / "notes.md").write_text("nothing")
    with pytest.raises(ValueError, match="holds no splits that are known"):
        source_of(str(tmp_path))


def test_losses_get_the_options_that_the_paper_gives_them():
    base = preset("paper-benchmark")
    assert settings_of(loss_method("pirank-ndcg"), base, 0, 0).loss_options["temperature"] == 1000
    assert settings_of(loss_method("neuralsort"), base, 0, 0).loss_options == {"temperature": 1000}
    assert settings_of(loss_method("lambdarank"), base, 0, 0).loss_options == {"k": 10}
    assert settings_of(loss_method("softmax"), base, 0, 0).loss_options == {}


@pytest.fixture
def batch():
    """Three lists, the last blank, of 4, 2 and 3 items."""
    torch.manual_seed(0)
    scores = torch.randn(9, dtype=torch.float64, requires_grad=True)
    return scores, torch.tensor([0.0, 2, 1, 0, 1, 0, 0, 0, 0]), torch.tensor([0, 4, 6, 9])


@pytest.mark.parametrize("straight_through", [False, True])
def test_without_departures_it_is_the_papers_loss(batch, straight_through):
    scores, labels, offsets = batch
    options = {"k": 3, "temperature": 2.0, "straight_through": straight_through}
    found, expected = (
        loss(scores, labels, offsets=offsets)
        for loss in (AuthorsNDCGLoss(**options), PiRankNDCGLoss(**options))
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    gradients = [torch.autograd.grad(value, scores)[0] for value in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_the_batch_ratio_weighs_lists_by_their_ideal_dcg():
    # Near the hard limit: the first list is in reverse order, DCG 3/log2(3) of 3; the second right, DCG 1 of 1.
    scores, labels = torch.tensor([1.0, 2.0, 2.0, 1.0]), torch.tensor([2.0, 0.0, 1.0, 0.0])
    loss = AuthorsNDCGLoss(k=2, temperature=0.01, batch_ratio=True)
    expected = 1 - (3 / math.log2(3) + 1) / (3 + 1)
    assert loss(scores, labels, offsets=torch.tensor([0, 2, 4])).item() == pytest.approx(expected, abs=1e-5)


def test_counted_padding_is_an_item_just_below_the_lowest_score(batch):
    scores, labels, offsets = batch
    k, tau, size = 3, 50.0, 6
    loss = AuthorsNDCGLoss(k=k, temperature=tau, padded_to=size)(scores, labels, offsets=offsets)
    discounts = 1 / torch.log2(torch.arange(2, 2 + k, dtype=torch.float64))
    losses = []
    for start, stop in ((0, 4), (4, 6)):  # the blank list does not count
        own, grades = scores[start:stop], labels[start:stop].double()
        missing = size - len(own)
        filled = torch.cat([own, (own.min() - 1e-6).expand(missing)])
        gains = torch.cat([2**grades - 1, torch.zeros(missing, dtype=torch.float64)])
        ranked = naive_neural_sort(filled, tau, k) @ gains
        ideal = (gains.sort(descending=True).values[:k] * discounts).sum()
        losses.append(1 - (ranked * discounts).sum() / ideal)
    assert loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-6)
    unpadded = PiRankNDCGLoss(k=k, temperature=tau)(scores, labels, offsets=offsets)
    assert loss.item() > unpadded.item() + 0.05
