"""Evaluations: the three rules for blank queries follow from one another, and labels decide what can be said."""

import pytest
import torch

from pirank.data import RankingData
from pirank.training import evaluate


def data(labels):
    return RankingData(torch.zeros(6, 1), torch.tensor(labels), torch.tensor([0, 2, 4, 6]))


def test_the_three_rules_by_hand_and_by_their_conversion():
    result = evaluate(torch.tensor([2.0, 1.0, 1.0, 2.0, 0.0, 0.0]), data([1.0, 0, 1, 0, 0, 0]), ("mrr",))
    assert (result.queries, result.blank) == (3, 1)
    assert result.means["mrr"] == pytest.approx({"skip": 0.75, "zero": 0.5, "one": 0.5 + 1 / 3})
    assert result.per_query["mrr"].tolist()[:2] == [1.0, 0.5]
    assert result.per_query["mrr"].isnan().tolist() == [False, False, True]


def test_metrics_that_the_labels_do_not_have_are_left_out_unless_asked_for():
    graded = evaluate(torch.zeros(6), data([1.0, 0, 4, 0, 0, 0]))
    assert "err@10" in graded.means
    real = data([1.5, 0, 40, 0, 0, 0])
    assert "err@10" not in evaluate(torch.zeros(6), real).means
    with pytest.raises(ValueError, match="label"):
        evaluate(torch.zeros(6), real, ("err@10",))


def test_what_cannot_be_evaluated_is_told():
    with pytest.raises(ValueError, match=r"one number a document, \[6\]"):
        evaluate(torch.zeros(5), data([1.0, 0, 1, 0, 0, 0]))
    with pytest.raises(ValueError, match="no labels"):
        evaluate(torch.zeros(2), RankingData(torch.zeros(2, 1), None, torch.tensor([0, 2])))


def test_metrics_that_the_labels_do_not_have_are_named():
    data = RankingData(torch.zeros(3, 1), torch.tensor([5.0, 1.0, 0.0]), torch.tensor([0, 3]))
    result = evaluate(torch.tensor([0.1, 0.2, 0.3]), data)
    assert "err@10" not in result.means
    assert list(result.left_out) == ["err@10"]
    assert "at most max_label=4" in result.left_out["err@10"]
    assert result.as_dict()["left_out"] == result.left_out


def test_scores_that_are_no_numbers_are_refused():
    data = RankingData(torch.zeros(3, 1), torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 3]))
    with pytest.raises(ValueError, match="scores must be finite"):
        evaluate(torch.tensor([0.1, float("nan"), 0.3]), data)
