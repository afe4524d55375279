"""What the tests of captured training share, on a CPU and on a GPU."""

import torch

from pirank.data import RankingData
from pirank.models import MLP
from pirank.training import Settings

# Rates of a constant size: Adam makes steps of the rounding of a gradient that should be 0, such as that of the score's
# bias, or of a bias before a batch normalisation. SGD does not.
SETTINGS = Settings(
    epochs=3,
    batch_size=8,
    patience=None,
    optimizer="sgd",
    learning_rate=0.02,
    checkpoint_seconds=0.0,
    clip=None,
)


def ragged_data(queries=30, seed=0, features=4, blank=3):
    """Lists of 1 to 17 documents whose labels follow the first feature; some have no relevant one."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 18, (queries,), generator=generator)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    X = torch.randn(int(offsets[-1]), features, generator=generator)
    labels = (X[:, 0] * 1.5).round().clamp(0, 4)
    labels[: int(offsets[blank])] = 0
    return RankingData(X, labels, offsets)


def network(normalisation="none", seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return MLP(4, hidden=(16, 8), normalisation=normalisation, dropout=dropout)


def state(model):
    return torch.cat([value.detach().cpu().double().flatten() for value in model.state_dict().values()])


class Recorder(list):
    """A report that keeps every record."""

    def __call__(self, record):
        self.append(record)

    def of(self, event):
        return [record for record in self if record["event"] == event]
