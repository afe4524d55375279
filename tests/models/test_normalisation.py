"""Batch normalisation over the rows that are there: PyTorch's on those rows, whatever the padding holds.

The kernels are compared with the plain path in float64; on a GPU the same tests run them compiled.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pirank.models import MLP, BatchNorm, ListAttention
from pirank.models.alone import why_not_alone
from pirank.models.normalisation import real_rows

WIDTH, ROWS, PADDING = 5, 9, 4


def pair(**options):
    generator = torch.Generator().manual_seed(0)
    ours, theirs = BatchNorm(WIDTH, **options), nn.BatchNorm1d(WIDTH, **options)
    if options.get("affine", True):
        with torch.no_grad():
            ours.weight.uniform_(0.5, 2.0, generator=generator)
            ours.bias.normal_(generator=generator)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize(
    "options", [{}, {"momentum": None}, {"momentum": 0.3, "eps": 0.1}, {"affine": False}]
)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_it_is_pytorchs_on_the_real_rows(options, offset):
    ours, theirs = pair(**options)
    generator = torch.Generator().manual_seed(1)
    real = torch.ones(ROWS + PADDING, 1)
    real[[0, 3, 4, 12]] = 0
    there = real[:, 0] > 0
    for _ in range(3):
        rows = torch.randn(ROWS + PADDING, WIDTH, generator=generator) + offset
        upstream = torch.randn(ROWS + PADDING, WIDTH, generator=generator)
        rows[~there] *= 100
        upstream[~there] = 0
        a, b = rows.clone().requires_grad_(), rows[there].clone().requires_grad_()
        with real_rows(ours, real):
            out = ours(a)
        expected = theirs(b)
        torch.testing.assert_close(out[there], expected, atol=2e-4 if offset else 1e-5, rtol=1e-4)
        ours.zero_grad()
        theirs.zero_grad()
        out.backward(upstream)
        expected.backward(upstream[there])
        tolerance = {"atol": 1e-3 if offset else 1e-5, "rtol": 1e-3 if offset else 1e-4}
        torch.testing.assert_close(a.grad[there], b.grad, **tolerance)
        assert not a.grad[~there].any()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, other.grad, **tolerance)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, atol=1e-5, rtol=1e-4)


def test_it_is_pytorchs_exactly_outside_and_in_evaluation():
    ours, theirs = pair()
    rows = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2))
    assert torch.equal(ours(rows), theirs(rows))
    ours.eval()
    theirs.eval()
    with real_rows(ours, torch.ones(ROWS, 1)):
        assert torch.equal(ours(rows), theirs(rows))
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_half_precision_takes_statistics_in_float32():
    ours, _ = pair()
    rows = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(3)) * 3 + 7
    with real_rows(ours, torch.ones(ROWS, 1)):
        whole, half = ours(rows.bfloat16().float()), ours(rows.bfloat16())
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, whole.bfloat16())


def test_networks_that_look_across_documents_are_known():
    assert why_not_alone(MLP(3, normalisation="batch", residual=True)) is None
    assert why_not_alone(MLP(3, normalisation="layer", activation="silu")) is None
    assert "ListAttention may look across" in why_not_alone(ListAttention(3))
    assert "use pirank.models.BatchNorm" in why_not_alone(nn.Sequential(nn.BatchNorm1d(3)))

    class Changed(MLP):
        def forward(self, features, offsets=None):
            return super().forward(features) - features.mean()

    assert "Changed may look" in why_not_alone(Changed(3))


def normalised(inputs, path, dtype=torch.float32, steps=1, **options):
    """Some steps by one path: what comes out of the last, what is left behind, and the gradients."""
    rows, real, upstream = inputs
    norm = BatchNorm(rows.shape[1], **options)
    if norm.affine:
        generator = torch.Generator().manual_seed(4)
        with torch.no_grad():
            norm.weight.uniform_(0.5, 2.0, generator=generator)
            norm.bias.normal_(generator=generator)
    wide = torch.promote_types(dtype, torch.float32)
    norm.to(rows.device, wide)
    for step in range(steps):
        norm.zero_grad()
        moved = (rows + step).to(dtype).requires_grad_()
        with real_rows(norm, real.to(wide), path=path):
            out = norm(moved)
        assert ("ByKernels" in out.grad_fn.name()) == (path == "kernels")
        out.backward(upstream.to(dtype))
    gradients = {"rows": moved.grad, **{name: value.grad for name, value in norm.named_parameters()}}
    return SimpleNamespace(out=out.detach(), state=norm.state_dict(), gradients=gradients)


def inputs(rows, columns, kind, device, offset=3.0):
    """Rows, which of them are real, and what is pulled; padding holds large numbers and is not pulled."""
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    values = 3 * torch.randn(rows, columns, generator=generator) + offset
    upstream = torch.randn(rows, columns, generator=generator) / rows
    real = torch.zeros(rows, 1)
    if kind == "scattered":
        real[torch.rand(rows, generator=generator) < 0.7] = 1
    elif kind == "all":
        real[:] = 1
    elif kind == "one":
        real[rows // 2] = 1
    padding = real[:, 0] == 0
    values[padding] *= 100
    upstream[padding] = 0
    return values.to(device), real.to(device), upstream.to(device)


def assert_near(found, exact, size=None, relative=2e-6):
    error = (found.double() - exact.double()).abs()
    assert (error <= relative * (exact.abs().amax() if size is None else size)).all()


def assert_same(found, exact, given):
    rows, real, upstream = given
    there = real[:, 0] > 0
    assert found.out.isfinite().all()
    if there.any():
        assert_near(found.out[there], exact.out[there])
    assert list(found.state) == list(exact.state)
    for name, value in exact.state.items():
        assert_near(found.state[name], value)
    # What the gradient's terms are like, of which little may be left; a rounded mean counts where the rows are nearly
    # the same.
    centred = rows[there].double() - rows[there].double().mean(0)
    scale = (centred.square().sum(0) / max(len(centred), 1) + 1e-5).rsqrt()
    rounded = 1 + rows[there].abs().sum(0) / max(len(centred), 1) * scale
    by_rows, pulled = found.gradients["rows"], upstream.abs()
    assert_near(by_rows, exact.gradients["rows"], pulled.amax(0) * scale * rounded)
    assert not by_rows[~there].any()
    for name in set(exact.gradients) - {"rows"}:
        assert_near(found.gradients[name], exact.gradients[name], pulled.sum(0) * rounded)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["all", "scattered", "one", "none"])
@pytest.mark.parametrize("columns", [1, 5, 16, 100])
@pytest.mark.parametrize("rows", [1, 3, 64, 65, 1000, 2048, 2500, 4097])
def test_kernels_equal_float64(rows, columns, kind, kernel_device):
    given = inputs(rows, columns, kind, kernel_device)
    assert_same(normalised(given, "kernels"), normalised(given, "plain", torch.float64), given)


@pytest.mark.kernels
@pytest.mark.parametrize(
    "options",
    [{"momentum": None}, {"momentum": 0.3, "eps": 0.1}, {"affine": False}, {"track_running_stats": False}],
)
def test_kernels_keep_every_option(options, kernel_device):
    given = inputs(65, 20, "scattered", kernel_device)
    found = normalised(given, "kernels", steps=3, **options)
    assert_same(found, normalised(given, "plain", torch.float64, steps=3, **options), given)
    assert int(found.state.get("num_batches_tracked", 3)) == 3


@pytest.mark.kernels
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_kernels_are_as_accurate_as_the_plain_path(offset, kernel_device):
    given = inputs(2500, 16, "scattered", kernel_device, offset=offset)
    there = given[1][:, 0] > 0
    kernels, plain, exact = (
        normalised(given, path, dtype)
        for path, dtype in (("kernels", torch.float32), ("plain", torch.float32), ("plain", torch.float64))
    )
    for part in (lambda one: one.out[there].double(), lambda one: one.gradients["rows"].double()):
        error, plain_error = ((part(one) - part(exact)).norm() for one in (kernels, plain))
        assert error <= 1.5 * plain_error


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_kernels_take_half_precision_as_it_comes(dtype, kernel_device):
    rows, real, upstream = inputs(300, 16, "scattered", kernel_device)
    given = rows.to(dtype).float(), real, upstream.to(dtype).float()
    found, plain = (normalised(given, path, dtype) for path in ("kernels", "plain"))
    exact = normalised(given, "plain", torch.float64)
    assert found.out.dtype == found.gradients["rows"].dtype == dtype
    there, digit = real[:, 0] > 0, torch.finfo(dtype).eps
    torch.testing.assert_close(found.out[there], plain.out[there], atol=1e-5, rtol=digit)
    torch.testing.assert_close(found.gradients["rows"], plain.gradients["rows"], atol=1e-5, rtol=digit)
    for name in ("weight", "bias"):
        assert_near(found.gradients[name], exact.gradients[name])
    for name in ("running_mean", "running_var"):
        assert_near(found.state[name], exact.state[name])


@pytest.mark.kernels
@pytest.mark.parametrize("held", [float("nan"), float("inf")])
def test_kernels_do_not_look_at_padding(held, kernel_device):
    rows, real, upstream = inputs(65, 20, "scattered", kernel_device)
    padding = real[:, 0] == 0
    expected = normalised((rows, real, upstream), "kernels")
    rows[padding] = upstream[padding] = held
    found = normalised((rows, real, upstream), "kernels")
    torch.testing.assert_close(vars(found), vars(expected), atol=0, rtol=0)


@pytest.mark.kernels
def test_a_number_that_is_not_one_stays_in_its_column(kernel_device):
    given = inputs(65, 20, "all", kernel_device)
    given[0][7, 3] = float("nan")
    found = normalised(given, "kernels")
    broken = torch.arange(20, device=kernel_device) == 3
    for value in (
        found.out,
        found.gradients["rows"],
        found.state["running_mean"],
        found.state["running_var"],
    ):
        assert torch.equal(value.isnan().reshape(-1, 20).all(0), broken)
        assert torch.equal(value.isnan().reshape(-1, 20).any(0), broken)


@pytest.mark.kernels
def test_kernels_give_the_same_bits_again(kernel_device):
    given = inputs(2500, 100, "scattered", kernel_device)
    first, second = (vars(normalised(given, "kernels", steps=2)) for _ in range(2))
    torch.testing.assert_close(first, second, atol=0, rtol=0)


@pytest.mark.kernels
def test_kernels_take_rows_and_gradients_of_any_layout(kernel_device):
    rows, real, _ = inputs(65, 20, "scattered", kernel_device)
    found = []
    for given in (rows, rows.T.contiguous().T):
        norm, values = BatchNorm(20).to(kernel_device), given.detach().requires_grad_()
        with real_rows(norm, real, path="kernels"):
            out = norm(values)
        (out * real).sum(0).sum().backward()
        found.append((out.detach(), values.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.kernels
def test_which_path_is_taken(kernel_device):
    norm, real = BatchNorm(3).to(kernel_device), torch.ones(4, 1, device=kernel_device)
    served = kernel_device.type == "cuda" and torch.cuda.get_device_capability() >= (8, 0)
    for path, expected in (("auto", served), ("kernels", True), ("plain", False)):
        with real_rows(norm, real, path=path):
            assert norm.real.by_kernels == expected
    with pytest.raises(ValueError, match="path must be one of"), real_rows(norm, real, path="fast"):
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for machines without a GPU")
def test_kernels_on_the_cpu_need_the_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with (
        pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"),
        real_rows(BatchNorm(3), torch.ones(4, 1), path="kernels"),
    ):
        pass


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a CUDA device")
@pytest.mark.parametrize("momentum", [0.1, None])
def test_kernels_are_replayed_as_a_graph(momentum):
    device = torch.device("cuda")
    norm, again = (BatchNorm(100, momentum=momentum).to(device) for _ in range(2))
    values, real, upstream = inputs(1000, 100, "scattered", device)
    values.requires_grad_()

    def step(norm):
        norm.zero_grad()
        values.grad = None
        with real_rows(norm, real):
            out = norm(values)
        out.backward(upstream)
        return out.detach(), values.grad, norm.weight.grad, norm.bias.grad

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(norm)
        try:
            torch.cuda.set_sync_debug_mode("error")
            step(norm)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    torch.cuda.current_stream().wait_stream(stream)
    norm.load_state_dict(again.state_dict())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(norm)
    for kind in ("one", "scattered", "all"):
        fresh = inputs(1000, 100, kind, device)
        with torch.no_grad():
            for static, value in zip((values, real, upstream), fresh, strict=True):
                static.copy_(value)
        graph.replay()
        kept = [value.clone() for value in found]
        torch.testing.assert_close(kept, list(step(again)), atol=0, rtol=0)
    torch.testing.assert_close(norm.state_dict(), again.state_dict(), atol=0, rtol=0)


def layer(width, dropout, device, seed=0):
    torch.manual_seed(seed)
    return MLP(4, hidden=(width,), normalisation="batch", dropout=dropout).to(device)


@pytest.mark.kernels
@pytest.mark.parametrize("rows", [3, 64, 1100, 4100])
@pytest.mark.parametrize("width", [1, 5, 16])
def test_a_rectifier_takes_part(rows, width, kernel_device):
    """The same as one after the other, in value and in every gradient."""
    values, real, upstream = inputs(rows, width, "scattered" if rows > 3 else "all", kernel_device)
    found = []
    for path in ("kernels", "plain"):
        given, norm = values.clone().requires_grad_(), BatchNorm(width).to(kernel_device)
        with torch.no_grad():
            norm.bias.add_(0.3)
        with real_rows(norm, real, path=path):
            out = norm.rectified(given)
        assert ("ByKernels" in out.grad_fn.name()) == (path == "kernels")
        out.backward(upstream)
        there = real[:, 0] > 0
        found.append([out.detach()[there], given.grad, norm.weight.grad, norm.bias.grad, norm.running_var])
    assert (found[1][0] == 0).any() or width == 1
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-4)


@pytest.mark.kernels
@pytest.mark.parametrize(("dropout", "rows"), [(0.3, 3000), (0.3, 5000), (0.9, 3000)])
def test_dropout_takes_part(dropout, rows, kernel_device):
    """What comes through is what a rectifier gives, stretched; the others are 0 and pull at nothing."""
    values, real, upstream = inputs(rows, 20, "all", kernel_device)
    norm = BatchNorm(20, track_running_stats=False).to(kernel_device)
    whole = torch.relu(norm(values))

    def dropped(seed, layers=1):
        torch.manual_seed(seed)
        given = values.clone().requires_grad_()
        with real_rows(norm, real, path="kernels"):
            for _ in range(layers):
                out = norm.rectified(given, dropout)
        return given, out

    given, out = dropped(0)
    through = (out > 0) & (whole > 1e-4)
    torch.testing.assert_close(out[through], whole[through] / (1 - dropout), atol=1e-5, rtol=1e-4)
    positive = whole > 1e-4
    share = through.sum() / positive.sum()
    assert float(share) == pytest.approx(1 - dropout, abs=4 * (0.25 / int(positive.sum())) ** 0.5)
    # As often in every column, and independent of the neighbour's.
    columns = (through.sum(0) / positive.sum(0)).cpu()
    assert (columns - (1 - dropout)).abs().max() < 0.06
    both = (through[:, 1:] & through[:, :-1]).sum() / (positive[:, 1:] & positive[:, :-1]).sum()
    assert float(both) == pytest.approx((1 - dropout) ** 2, abs=0.015)
    # The gradient is that of the same rectifier and the same draw.
    out.backward(upstream)
    again = values.clone().requires_grad_()
    normal = norm(again)
    (normal * (out > 0) / (1 - dropout)).backward(upstream)
    torch.testing.assert_close(given.grad, again.grad, atol=1e-4 * float(again.grad.abs().max()), rtol=1e-3)

    assert torch.equal(out, dropped(0)[1])
    assert not torch.equal(out, dropped(1)[1])
    assert not torch.equal(out, dropped(0, layers=2)[1])


@pytest.mark.kernels
def test_a_network_normalises_rectifies_and_drops_at_once(kernel_device):
    network, rows = layer(16, 0.5, kernel_device), torch.randn(200, 4, device=kernel_device)
    real = torch.ones(200, 1, device=kernel_device)
    with real_rows(network, real, path="kernels"):
        network.layers[0][1].real.next_layer()
        hidden = network.hidden(rows)
        assert "ByKernels" in hidden.grad_fn.name()
        assert network.layers[0][1].real.layers == 2
    network.eval()
    with real_rows(network, real, path="kernels"):
        assert torch.equal(network.hidden(rows), network.layers[0](rows))
    assert network.layers[0][0].bias is None
