"""Batches: nothing lost, nothing repeated, the same order again, and the same place again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pirank.data import Batch, FixedSizeBatches, RaggedBatches, RankingData, synthetic


def ragged(queries: int = 50, seed: int = 0, labelled: bool = True) -> RankingData:
    """Lists of 0 to 30 documents; the only feature of a document is its number, its label too."""
    lengths = np.random.default_rng(seed).integers(0, 31, queries)
    lengths[0] = 90
    numbers = np.arange(lengths.sum(), dtype=np.float32)
    return RankingData(
        numbers[:, None], numbers if labelled else None, np.concatenate([[0], lengths.cumsum()])
    )


def flat_contents(batch: Batch) -> list[tuple[int, list[float]]]:
    """(query, documents) of every query of a flat batch."""
    assert batch.offsets is not None
    bounds = batch.offsets.tolist()
    return [
        (int(query), batch.features[start:stop, 0].tolist())
        for query, start, stop in zip(batch.queries, bounds[:-1], bounds[1:], strict=True)
    ]


def make(kind: str, data: RankingData, **options: Any) -> RaggedBatches | FixedSizeBatches:
    if kind == "fixed":
        return FixedSizeBatches(data, 10, 4, **options)
    given: dict[str, Any] = {
        "documents": {"documents": 64},
        "queries": {"batch_size": 6},
        "blocks": {"documents": 64, "batch_size": 8, "shuffle": "blocks"},
    }[kind]
    return RaggedBatches(data, **given | options)


COPIED = ["documents", "queries", "fixed"]
KINDS = [*COPIED, "blocks"]


@pytest.mark.parametrize(
    "options", [{"documents": 64}, {"batch_size": 7}, {"documents": 64, "batch_size": 3}, {}]
)
@pytest.mark.parametrize("how", [{"bucketed": True}, {"bucketed": False}, {"shuffle": "blocks"}])
@pytest.mark.parametrize("window", [1, 1 << 20])
def test_an_epoch_holds_every_query_once_within_the_budgets(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, int], how: dict[str, Any], window: int
) -> None:
    monkeypatch.setattr("pirank.data.schedule.WINDOW_DOCUMENTS", window)
    data = ragged()
    batches = RaggedBatches(data, seed=2, **how, **options)
    seen = []
    steps = 0
    for batch in batches:
        steps += 1
        assert len(batch) <= options.get("batch_size", 16 if not options else 1000)
        assert batch.documents <= options.get("documents", 10**9) or len(batch) == 1
        assert batch.labels is not None
        assert torch.equal(batch.labels, batch.features[:, 0])
        seen += flat_contents(batch)
    assert sorted(seen) == [(q, data[q].features[:, 0].tolist()) for q in range(len(data))]
    batches.set_epoch(0)
    assert steps == len(batches)


@pytest.mark.parametrize("kind", KINDS)
def test_order_follows_seed_and_epoch(kind: str) -> None:
    data = ragged()

    def order(batches: RaggedBatches | FixedSizeBatches) -> list[int]:
        return [int(query) for batch in batches for query in batch.queries]

    first, second = make(kind, data, seed=1), make(kind, data, seed=1)
    epoch_0, epoch_1 = order(first), order(first)
    assert epoch_0 != epoch_1
    assert sorted(epoch_0) == sorted(epoch_1) == list(range(len(data)))
    second.set_epoch(1)
    assert order(second) == epoch_1
    assert order(make(kind, data, seed=2)) != epoch_0
    in_order = make(kind, data, shuffle=False)
    assert order(in_order) == order(in_order) == list(range(len(data)))


def test_bucketed_batches_hold_queries_of_similar_length() -> None:
    data = ragged(400)
    spread = []
    for bucketed in (True, False):
        batches = RaggedBatches(data, documents=200, bucketed=bucketed)
        lengths = [batch.offsets.diff() for batch in batches if batch.offsets is not None]
        spread.append(sum(int((each.max() - each.min()).item()) for each in lengths) / len(lengths))
    assert spread[0] < spread[1] / 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_processes_make_equal_steps_and_share_every_query(kind: str, world_size: int) -> None:
    data = ragged()
    ranks = [make(kind, data, seed=5, rank=rank, world_size=world_size) for rank in range(world_size)]
    epochs = [list(batches) for batches in ranks]
    assert len({len(epoch) for epoch in epochs}) == 1
    for batches in ranks:
        batches.set_epoch(0)
        assert len(batches) == len(epochs[0])
    seen = [int(query) for epoch in epochs for batch in epoch for query in batch.queries]
    assert sorted(seen) == list(range(len(data)))
    for step in zip(*epochs, strict=True):
        # weight × mean over the batch, averaged over processes, is the mean over the step's queries.
        values = [batch.queries.double().mean().item() if len(batch) else 0.0 for batch in step]
        averaged = sum(batch.weight * value for batch, value in zip(step, values, strict=True)) / world_size
        assert averaged == pytest.approx(torch.cat([batch.queries for batch in step]).double().mean().item())
    assert all(batch.features.shape[-1] == 1 for epoch in epochs for batch in epoch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_size", [1, 2])
def test_going_on_from_any_step(kind: str, world_size: int) -> None:
    data = ragged(20)
    options = {"seed": 3, "rank": world_size - 1, "world_size": world_size}
    batches = make(kind, data, **options)
    whole, states = [], [batches.state_dict()]
    for _ in range(2):
        for batch in batches:
            whole.append(batch)
            states.append(batches.state_dict())
    for place, state in enumerate(states):
        again = make(kind, data, **options)
        again.load_state_dict(state)
        again.set_epoch(state["epoch"])
        rest = [*again, *(again if again.epoch < 2 else ())]
        for batch, expected in zip(rest, whole[place:], strict=False):
            assert batch.queries.tolist() == expected.queries.tolist()
            assert torch.equal(batch.features, expected.features)
        assert len(rest) >= len(whole) - place


def test_an_iteration_left_early_starts_over() -> None:
    batches = RaggedBatches(ragged(), batch_size=5)
    peeked = next(iter(batches)).queries.tolist()
    assert next(iter(batches)).queries.tolist() == peeked


def test_a_state_of_other_data_or_options_is_refused() -> None:
    data = ragged()
    state = RaggedBatches(data, documents=64).state_dict()
    for other in (
        RaggedBatches(data, documents=65),
        RaggedBatches(data, documents=64, seed=1),
        RaggedBatches(data[:-1], documents=64),
        FixedSizeBatches(data),
    ):
        with pytest.raises(ValueError, match="the state was taken with"):
            other.load_state_dict(state)
    with pytest.raises(ValueError, match=r"the state was taken with other data: .* not in this order"):
        RaggedBatches(data.shuffled(), documents=64).load_state_dict(state)
    one = RaggedBatches(data, documents=64)
    for batch in one:
        state = one.state_dict()
        if len(batch) and state["step"] == 3:
            break
    two = RaggedBatches(data, documents=64, world_size=2)
    with pytest.raises(ValueError, match="no whole number of steps"):
        two.load_state_dict(state)


def test_fixed_size_lists_are_a_seeded_cut_of_each_query() -> None:
    data = ragged()
    seen = {}
    for batch in FixedSizeBatches(data, 10, 4, seed=9):
        assert batch.features.shape == (len(batch), 10, 1)
        assert batch.mask is not None
        assert batch.labels is not None
        assert torch.equal(batch.labels, batch.features[..., 0])
        assert (batch.features[~batch.mask] == 0).all()
        for query, row, mask in zip(batch.queries.tolist(), batch.features[..., 0], batch.mask, strict=True):
            documents = row[mask].tolist()
            own = data[query].features[:, 0].tolist()
            assert len(documents) == len(set(documents)) == min(10, len(own))
            assert set(documents) <= set(own)
            seen[query] = documents
    assert len(seen) == len(data)
    # The cut does not depend on the batch, and it is not the first ten.
    other = FixedSizeBatches(data, 10, 50, seed=9, shuffle=False)
    for batch in other:
        assert batch.mask is not None
        for query, row, mask in zip(batch.queries.tolist(), batch.features[..., 0], batch.mask, strict=True):
            assert row[mask].tolist() == seen[query]
    assert seen[0] != data[0].features[:10, 0].tolist()
    first = next(iter(FixedSizeBatches(data, 10, 4, shuffle=False, cut="first")))
    assert first.features[0, :, 0].tolist() == data[0].features[:10, 0].tolist()


def test_each_document_is_equally_likely_to_remain() -> None:
    data = RankingData(torch.arange(8.0)[:, None], None, [0, 8])
    batches = FixedSizeBatches(data, 4, 1)
    counts = torch.zeros(8)
    for _ in range(2000):
        for batch in batches:
            counts[batch.features[0, :, 0].long()] += 1
    # 2,000 draws of probability 1/2: a deviation of five standard errors is 112.
    assert (counts - 1000).abs().max() < 112


# --- against the definition, query by query -----------------------------------------------------------------------


def lists_of_lengths(lengths: Any, width: int = 3, labelled: bool = True) -> RankingData:
    """Random features and labels, some of them negative."""
    rng = np.random.default_rng(0)
    count = int(np.sum(lengths))
    labels = rng.integers(-1, 4, count) if labelled else None
    return RankingData(
        rng.standard_normal((count, width)).astype(np.float32),
        labels,
        np.concatenate([[0], np.cumsum(lengths)]),
    )


# Short lists and long ones are copied in different ways; so are both in one batch, and batches without documents.
LENGTHS = {
    "short": [3, 1, 8, 5, 2, 7, 4, 6, 1],
    "long": [40, 33, 90, 32, 57, 31, 120],
    "mixed": [0, 200, 1, 0, 35, 2, 64, 0],
    "empty": [0, 0, 0],
}


def same(batch: Batch, features: Any, labels: Any, **others: Any) -> None:
    expected = Batch(features, labels, others.get("offsets"), others.get("mask"), batch.queries)
    for name in ("features", "labels", "offsets", "mask"):
        given, wanted = getattr(batch, name), getattr(expected, name)
        assert (given is None) == (wanted is None), name
        if given is not None:
            assert given.dtype == wanted.dtype, name
            assert torch.equal(given, wanted), name


@pytest.fixture(params=["in memory", "on a device"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches as they are made of data in memory, and as they are made of data on a device."""
    if request.param == "on a device":
        monkeypatch.setattr("pirank.data.batches._in_memory", lambda data: False)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("labelled", [True, False])
def test_ragged_batches_are_their_queries_one_after_another(
    lengths: list[int], width: int, labelled: bool
) -> None:
    data = lists_of_lengths(lengths, width, labelled)
    choices: list[dict[str, Any]] = [{"batch_size": 2}, {"batch_size": 100}, {"documents": 64}]
    choices += [{"rank": 1, "world_size": 2}, {"shuffle": False, "batch_size": 3}]
    choices += [{"shuffle": "blocks", "batch_size": 2}, {"shuffle": "blocks", "rank": 2, "world_size": 3}]
    for options in choices:
        for batch in RaggedBatches(data, seed=4, **options):
            parts = [data[query] for query in batch.queries.tolist()]
            labels = torch.cat([data.labels[:0], *(part.labels for part in parts)]) if labelled else None
            features = torch.cat([data.features[:0], *(part.features for part in parts)])
            ends = np.cumsum([0, *(part.documents for part in parts)])
            same(batch, features, labels, offsets=torch.from_numpy(ends))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("list_size", [4, 33, 300])
@pytest.mark.parametrize("cut", ["shuffle", "first"])
def test_fixed_size_lists_are_in_the_order_of_the_draws(
    lengths: list[int], width: int, labelled: bool, list_size: int, cut: str
) -> None:
    data = lists_of_lengths(lengths, width, labelled)
    for epoch in range(2):
        draws = np.random.default_rng([7, epoch, 1]).random(data.documents, np.float32)
        for options in ({"batch_size": 3}, {"batch_size": 2, "rank": 1, "world_size": 3}):
            batches = FixedSizeBatches(data, list_size, cut=cut, seed=7, **options)  # type: ignore[arg-type]
            batches.set_epoch(epoch)
            for batch in batches:
                features = torch.zeros(len(batch), list_size, width)
                labels = torch.zeros(len(batch), list_size) if labelled else None
                mask = torch.zeros(len(batch), list_size, dtype=torch.bool)
                for i, query in enumerate(batch.queries.tolist()):
                    rows = range(int(data.offsets[query]), int(data.offsets[query + 1]))
                    kept = sorted(rows, key=draws.__getitem__) if cut == "shuffle" else rows
                    for j, row in enumerate(kept[:list_size]):
                        features[i, j] = data.features[row]
                        mask[i, j] = True
                        if labels is not None:
                            labels[i, j] = data.labels[row]
                same(batch, features, labels, mask=mask)


@pytest.mark.parametrize("kind", COPIED)
def test_batches_that_are_held_stay_as_they_are(kind: str) -> None:
    data = lists_of_lengths([40, 3, 90, 12, 57, 0, 33] * 5)
    held, copies, memory = [], [], set()
    for batch in make(kind, data):
        held.append(batch)
        copies.append([each.clone() for each in (batch.features, batch.labels, batch.queries)])
        memory.add(batch.features.data_ptr())
    assert len(memory) == len(held)
    for batch, copy in zip(held, copies, strict=True):
        assert all(map(torch.equal, (batch.features, batch.labels, batch.queries), copy))
        # Nor does writing to one change the data or a later epoch.
        for each in (batch.features, batch.labels, batch.queries):
            each.zero_()
    again = make(kind, data)
    for batch, copy in zip(again, copies, strict=True):
        assert all(map(torch.equal, (batch.features, batch.labels, batch.queries), copy))


def test_batches_of_neighbours_copy_nothing() -> None:
    data = ragged(300)
    assert data.labels is not None
    first_queries = []
    for epoch in range(3):
        batches = RaggedBatches(data, batch_size=7, shuffle="blocks", seed=1)
        batches.set_epoch(epoch)
        for batch in batches:
            start = int(data.offsets[batch.queries[0]])
            assert batch.queries.tolist() == list(range(int(batch.queries[0]), int(batch.queries[-1]) + 1))
            assert batch.labels is not None
            for part, whole in ((batch.features, data.features), (batch.labels, data.labels)):
                assert part.data_ptr() == whole.data_ptr() + start * whole.stride(0) * whole.element_size()
        first_queries.append(sorted(int(batch.queries[0]) for batch in batches))
    assert first_queries[0] != first_queries[1] != first_queries[2]  # cut elsewhere in every epoch


@pytest.mark.parametrize(
    "budget", [{"documents": 2048}, {"documents": 2048, "batch_size": 30}, {"batch_size": 16}]
)
@pytest.mark.parametrize("bucketed", [False, True])
def test_neighbours_meet_in_other_batches_in_every_epoch(budget: dict[str, int], bucketed: bool) -> None:
    """Cuttings that fall on the same place once must part again."""
    lengths = np.random.default_rng(0).lognormal(4.45, 0.5, 5000).round().astype(int) + 1
    data = RankingData(torch.empty(lengths.sum(), 0), None, np.concatenate([[0], lengths.cumsum()]))
    batches = RaggedBatches(data.shuffled(bucketed=bucketed), shuffle="blocks", **budget)
    groups = [{tuple(batch.queries.tolist()) for batch in batches} for _ in range(6)]
    together = [len(groups[0] & other) / len(groups[0]) for other in groups[1:]]
    assert np.mean(together) < 0.2
    documents = [int(batches._lengths[list(group)].sum()) for group in groups[0]]
    assert np.mean(documents) > 0.85 * (2048 if "documents" in budget else 16 * lengths.mean())


@pytest.mark.parametrize("kind", KINDS)
def test_unlabelled_and_empty_data(kind: str) -> None:
    for batch in make(kind, ragged(labelled=False)):
        assert batch.labels is None
    assert list(make(kind, ragged()[:0])) == []
    nothing = ragged()[[1, 1]]
    nothing = RankingData(nothing.features[:0], None, [0, 0, 0])
    assert sum(len(batch) for batch in make(kind, nothing)) == 2


def test_moving_a_batch() -> None:
    batch = next(iter(RaggedBatches(synthetic(5, 4), device="meta")))
    assert batch.features.is_meta
    assert batch.offsets is not None
    assert batch.offsets.is_meta


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda data: RaggedBatches(data, documents=0), "documents must be at least 1, got 0"),
        (lambda data: RaggedBatches(data, batch_size=0), "batch_size must be at least 1"),
        (lambda data: RaggedBatches(data, rank=2, world_size=2), "rank must be from 0 to world_size - 1"),
        (lambda data: RaggedBatches(data, shuffle="runs"), "shuffle must be True, False or 'blocks'"),
        (
            lambda data: RaggedBatches(data, shuffle="blocks", bucketed=True),
            r"data.shuffled\(bucketed=True\)",
        ),
        (lambda data: FixedSizeBatches(data, 0), "list_size and batch_size must be at least 1"),
        (lambda data: FixedSizeBatches(data, cut="top"), "cut must be 'shuffle' or 'first', got 'top'"),
    ],
)
def test_impossible_options(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(ragged())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [1, 100, 1 << 20])
def test_windows_name_the_documents_that_iterating_gives_also_from_the_middle(
    monkeypatch: pytest.MonkeyPatch, kind: str, window: int
) -> None:
    monkeypatch.setattr("pirank.data.schedule.WINDOW_DOCUMENTS", window)
    data = ragged()

    def lists(batch: Batch) -> list[list[float]]:
        if batch.mask is None:
            return [documents for _, documents in flat_contents(batch)]
        return [row[there, 0].tolist() for row, there in zip(batch.features, batch.mask, strict=True)]

    expected = [(batch.queries.tolist(), lists(batch)) for batch in make(kind, data, seed=3)]
    batches = make(kind, data, seed=3)
    most, most_lists = batches.largest()
    batches.took(3)
    found: list[tuple[list[int], list[list[float]]]] = []
    for each in batches.windows():
        rows = iter(each.rows.tolist())
        for queries, lengths in zip(each.queries, each.lengths, strict=True):
            assert lengths.sum() <= most
            assert len(queries) <= most_lists
            found.append((queries.tolist(), [[float(next(rows)) for _ in range(n)] for n in lengths]))
        assert next(rows, None) is None
    assert found == expected[3:]
    batches.took(len(found))
    assert (batches.epoch, batches.state_dict()["step"]) == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_taken_from_windows_is_where_iterating_goes_on(kind: str) -> None:
    data = ragged()
    expected = [batch.queries.tolist() for batch in make(kind, data, seed=3)]
    first, second = make(kind, data, seed=3), make(kind, data, seed=3)
    next(first.windows())
    first.took(2)
    second.load_state_dict(first.state_dict())
    assert [batch.queries.tolist() for batch in second] == expected[2:]
    assert [batch.queries.tolist() for batch in first] == expected[2:]


def test_equal_draws_keep_the_order_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    data = RankingData(torch.arange(40.0)[:, None], None, [0, 40])
    batches = FixedSizeBatches(data, 40, 1)
    monkeypatch.setattr(batches, "_keys_of", lambda epoch: torch.zeros(40))
    assert next(iter(batches)).features[0, :, 0].tolist() == list(range(40))


def test_what_is_no_bool_is_no_shuffle() -> None:
    data = synthetic(20, (2, 5), seed=0)
    plain, numpy = (list(RaggedBatches(data, batch_size=3, shuffle=each)) for each in (True, np.True_))
    assert all(torch.equal(a.features, b.features) for a, b in zip(plain, numpy, strict=True))
    with pytest.raises(ValueError, match="shuffle must be True, False or 'blocks', got 1"):
        RaggedBatches(data, shuffle=1)  # type: ignore[arg-type]
