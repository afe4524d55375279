"""Exported programs: the scores of the model, from raw features, for any number of documents."""

import numpy as np
import onnxruntime
import pytest
import torch

from pirank.models import Ranker
from pirank.training import TrainingError
from pirank.training.export import export_onnx, export_torch

pytestmark = pytest.mark.filterwarnings("ignore")  # the exporters' own


def ranker(model="mlp", transform="none", **options):
    torch.manual_seed(0)
    made = Ranker(4, model=model, transform=transform, members=2, options=options)
    made.transform.fit(torch.randn(300, 4).exp())
    return made.eval()


def queries():
    generator = torch.Generator().manual_seed(3)
    for size in (1, 2, 30):
        rows = torch.randn(size, 4, generator=generator).exp()
        rows[:, 1] = rows[:, 1].round()
        yield rows


@pytest.mark.parametrize(
    ("model", "transform"), [("mlp", "quantile+query-rank"), ("attention", "log1p+standard+query-zscore")]
)
def test_onnx_gives_the_models_scores(tmp_path, model, transform):
    made = ranker(model, transform)
    assert export_onnx(made, tmp_path / "model.onnx") < 1e-3
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    for rows in queries():
        found = session.run(None, {"features": rows.numpy()})[0]
        np.testing.assert_allclose(found, made(rows).detach().numpy(), atol=1e-3)
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_torch_export_gives_the_models_scores(tmp_path):
    made = ranker("mlp", "standard+query-rank")
    assert export_torch(made, tmp_path / "model.pt2") < 1e-3
    program = torch.export.load(tmp_path / "model.pt2").module()
    for rows in queries():
        torch.testing.assert_close(program(rows), made(rows), atol=1e-4, rtol=1e-4)


def test_a_program_that_differs_is_not_written(tmp_path, monkeypatch):
    made = ranker("linear")
    monkeypatch.setattr("pirank.training.export._TOLERANCE", -1.0)
    with pytest.raises(TrainingError, match="not written"):
        export_torch(made, tmp_path / "model.pt2")
    assert list(tmp_path.iterdir()) == []
