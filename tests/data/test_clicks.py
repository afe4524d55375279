"""Simulated clicks: as often as the model says, where the model says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pirank.data import DataError, RankingData, simulate_clicks

SESSIONS = 20_000
# Five standard errors of a rate estimated from as many sessions.
CLOSE = 5 * 0.5 / SESSIONS**0.5


def two_lists() -> RankingData:
    return RankingData(torch.zeros(7, 1), [2, 0, 1, 2, 1, 0, 2], [0, 4, 7])


def test_position_model_by_hand() -> None:
    data = two_lists()
    scores = torch.tensor([1.0, 4, 3, 2, 9, 10, 8])
    clicks = simulate_clicks(data, scores, sessions=SESSIONS, eta=2.0, noise=0.1)
    assert clicks.positions.tolist() == [4, 1, 2, 3, 2, 1, 3]
    assert clicks.propensities.tolist() == pytest.approx([1 / 16, 1, 1 / 4, 1 / 9, 1 / 4, 1, 1 / 9])
    attraction = torch.tensor([1.0, 0.1, 0.4, 1, 0.4, 0.1, 1])
    rates = clicks.clicks.float().mean(0)
    assert torch.allclose(rates, attraction * clicks.propensities, atol=CLOSE)


def test_cascade_model_by_hand() -> None:
    data = RankingData(torch.zeros(3, 1), [1, 0, 2], [0, 3])
    clicks = simulate_clicks(
        data,
        torch.tensor([3.0, 2, 1]),
        model="cascade",
        sessions=SESSIONS,
        noise=0.1,
        satisfied=0.5,
        patience=0.8,
    )
    # a = 0.4, 0.1, 1. Going on after a document: a (1 - a/2) + (1 - a) 0.8.
    first = 0.4 * 0.8 + 0.6 * 0.8
    second = 0.1 * 0.95 + 0.9 * 0.8
    assert clicks.propensities.tolist() == pytest.approx([1, first, first * second])
    rates = clicks.clicks.float().mean(0)
    expected = torch.tensor([0.4, 0.1 * first, first * second])
    assert torch.allclose(rates, expected, atol=CLOSE)


def test_nobody_looks_past_a_satisfying_click() -> None:
    data = two_lists()
    clicks = simulate_clicks(data, model="cascade", sessions=500, noise=0.0, satisfied=1.0, patience=1.0)
    # Label 2 is clicked for certain and ends the session.
    assert clicks.clicks[:, 0].all()
    assert not clicks.clicks[:, 1:4].any()
    assert (
        clicks.clicks[:, 6].sum()
        == (~clicks.clicks[:, 4]).sum() + (clicks.clicks[:, 4] & clicks.clicks[:, 6]).sum()
    )


def test_unbiased_labels_recover_the_attraction() -> None:
    data = two_lists()
    for model in ("position", "cascade"):
        clicks = simulate_clicks(data, model=model, sessions=SESSIONS, noise=0.1, satisfied=0.6)
        labels = clicks.to_data(unbiased=True).labels
        assert labels is not None
        attraction = torch.tensor([1.0, 0.1, 0.4, 1, 0.4, 0.1, 1])
        error = (labels - attraction).abs() * clicks.propensities
        assert (error < CLOSE).all()
        biased = clicks.to_data().labels
        assert biased is not None
        assert torch.equal(biased, clicks.clicks.float().mean(0))


def test_cutoff_seed_and_what_is_not_shown() -> None:
    data = two_lists()
    clicks = simulate_clicks(data, sessions=50, cutoff=2, eta=0.0, noise=1.0)
    assert clicks.positions.tolist() == [1, 2, 0, 0, 1, 2, 0]
    assert clicks.propensities.tolist() == [1, 1, 0, 0, 1, 1, 0]
    assert clicks.clicks.float().mean(0).tolist() == [1, 1, 0, 0, 1, 1, 0]
    first, again, other = (simulate_clicks(data, sessions=9, seed=seed).clicks for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    empty = RankingData(torch.zeros(1, 1), [0], [0, 0, 1])
    assert simulate_clicks(empty, model="cascade", noise=1.0).clicks.tolist() == [[True]]


def test_impossible_options() -> None:
    data = two_lists()
    with pytest.raises(DataError, match="the data has none"):
        simulate_clicks(RankingData(torch.zeros(1, 1), None, [0, 1]))
    with pytest.raises(ValueError, match="model must be one of 'position', 'cascade', got 'pbm'"):
        simulate_clicks(data, model="pbm")
    with pytest.raises(ValueError, match=r"noise must be a probability, got 1\.5"):
        simulate_clicks(data, noise=1.5)
    with pytest.raises(ValueError, match=r"scores must be one number a document, \[7\]: got \[3\]"):
        simulate_clicks(data, torch.zeros(3))
    with pytest.raises(ValueError, match="max_label must be at least the largest label, 2, got 1"):
        simulate_clicks(data, max_label=1)
    with pytest.raises(ValueError, match="sessions must be at least 1, got 0"):
        simulate_clicks(data, sessions=0)
    with pytest.raises(ValueError, match="cutoff must be at least 1, got 0"):
        simulate_clicks(data, cutoff=0)
    with pytest.raises(ValueError, match="eta must be at least 0, got nan"):
        simulate_clicks(data, eta=float("nan"))
    with pytest.raises(ValueError, match="scores must be numbers: got NaN"):
        simulate_clicks(data, torch.full((7,), float("nan")))
    with pytest.raises(ValueError, match=r"labels are grades, of gain 2\^label: got a label of 2000"):
        simulate_clicks(RankingData(torch.zeros(1, 1), [2000], [0, 1]))


def test_scores_may_be_a_tensor_or_an_array() -> None:
    data = two_lists()
    scores = np.arange(7) * 1e-9 + 1  # equal in float32
    for given in (torch.from_numpy(scores), scores, scores.tolist()):
        assert simulate_clicks(data, given).positions.tolist() == [4, 3, 2, 1, 3, 2, 1]
