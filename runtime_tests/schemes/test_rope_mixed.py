"""RoPE-Mixed: timm's numbers, float64 at any size, weights of all layers and of one, files, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import posenc
from helpers.combinations import run
from helpers.grids import BAKED, CLOSE, DYNAMIC, SPECS, near
from helpers.shared import DATA, Cli
from posenc.ports import Array
from posenc.spec import Spec, UnsupportedSpec
from posenc_export.common.errors import BadInput

TIMM = np.load(DATA / "timm_rope_mixed_4x7.npz")
"""RotaryEmbeddingMixed(24, depth=2, num_heads=3, grid_indexing="xy") of timm 1.0.31: its frequencies, sines and cosines
of a grid of 4 x 7, and what its apply_rot_embed_cat makes of q in the second layer."""
FREQUENCIES: Array = TIMM["freqs"]


def saved(folder: Path, array: Array = FREQUENCIES) -> str:
    np.save(folder / "frequencies.npy", array)
    return str(folder / "frequencies.npy")


def angles_at(row: Array, column: Array, frequencies: Array = FREQUENCIES[:, 1]) -> Array:
    """Return float64 angles of a layer at places: (n,) and (n,) -> (heads, n, pairs)."""
    across, down = frequencies.astype(np.float64)[:, :, None]
    angles: Array = column[:, None] * across + row[:, None] * down
    return angles


def turned(x: Array, angles: Array) -> Array:
    """Return (batch, heads, n, dim) with each two neighbours turned."""
    a, b = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


@SPECS
def test_rotation_of_timm(spec: Spec, tmp_path: Path) -> None:
    q = torch.from_numpy(TIMM["q"]).view(1, 3, 4, 7, 8)
    ours = posenc.build("rope_mixed", spec, weights=saved(tmp_path), layer=1).module(q, q)
    for actual in ours:
        near(actual.flatten(2, 3), TIMM["rotated"], 1e-5 if spec.method == "trig" else 2e-6)


@SPECS
@pytest.mark.parametrize("layer", [0, 1])
def test_cosines_and_sines_of_timm(spec: Spec, layer: int, tmp_path: Path) -> None:
    # A pair (1, 0) turns into its cosine and its sine.
    q = torch.tensor([1.0, 0.0] * 4).expand(1, 3, 4, 7, 8)
    encoding = posenc.build("rope_mixed", spec, weights=saved(tmp_path), layer=layer)
    turned_ones = encoding.module(q, q)[0].flatten(2, 3)[0]
    sin, cos = np.split(TIMM["embed"][layer], 2, -1)
    near(turned_ones[..., 0::2], cos[..., 0::2], 2e-6)  # timm's own angles are of float32
    near(turned_ones[..., 1::2], sin[..., 1::2], 2e-6)
    expected = encoding.reference({"q": q.numpy(), "k": q.numpy()}, None)["q_rotated"]
    near(torch.from_numpy(expected[0, ..., 0::2]), cos[..., 0::2].reshape(3, 4, 7, 4), 2e-6)


@SPECS
@pytest.mark.parametrize("sizes", [(5, 83), (64, 2), (1, 1), (90, 90)])
def test_cosines_and_sines_of_float64(spec: Spec, sizes: tuple[int, int], tmp_path: Path) -> None:
    q = torch.tensor([1.0, 0.0] * 4).expand(1, 3, *sizes, 8)
    module = posenc.build("rope_mixed", spec, weights=saved(tmp_path), layer=1).module
    ones = module(q, q)[1].flatten(2, 3)[0]
    row, column = np.indices(sizes).reshape(2, -1)
    close = 3 * CLOSE[spec.method] if spec.method == "trig" else CLOSE[spec.method]  # angles up to 120
    near(ones[..., 0::2], np.cos(angles_at(row, column)), close)
    near(ones[..., 1::2], np.sin(angles_at(row, column)), close)


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
@pytest.mark.parametrize("positions", ["implicit", "explicit"])
@pytest.mark.parametrize("tensor_layout", ["bhsd", "bshd"])
def test_heads_turn_as_in_float64(mode: Any, positions: Any, tensor_layout: str, tmp_path: Path) -> None:
    spec = Spec(mode, "exact", positions, 90)
    encoding = posenc.build("rope_mixed", spec, weights=saved(tmp_path), layer=1, tensor_layout=tensor_layout)
    sizes: tuple[int, ...] = (6, 9)
    ports, places = [], np.indices(sizes).reshape(2, -1)
    if positions == "explicit":
        at = torch.randint(0, 90, (2, 1, 11))
        sizes, ports, places = (11,), [at], at[:, 0].numpy()
    q, k = torch.randn(2, 3, *sizes, 8), torch.randn(2, 3, *sizes, 8)
    heads = [x if tensor_layout == "bhsd" else x.movedim(1, -2) for x in (q, k)]
    feeds = {port.name: x.numpy() for port, x in zip(encoding.inputs, (*heads, *ports), strict=True)}
    if positions == "explicit":  # one row of positions stands for both sequences in a module, not in a call of a file
        feeds["positions"] = np.repeat(feeds["positions"], 2, 1)
    ours = encoding.module(*heads, *ports)
    for actual, of_float64, x in zip(ours, encoding.reference(feeds, None).values(), (q, k), strict=True):
        expected = turned(x.flatten(2, -2).numpy(), angles_at(*places))
        for result, atol in ((actual, 3e-6), (torch.from_numpy(of_float64), 1e-12)):
            back = result if tensor_layout == "bhsd" else result.movedim(-2, 1)
            near(back.flatten(2, -2), expected, atol)


def test_given_places_have_the_bits_of_counted_ones(tmp_path: Path) -> None:
    params: dict[str, Any] = {"weights": saved(tmp_path), "layer": 0}
    q = torch.randn(2, 3, 70, 5, 8)
    counted = posenc.build("rope_mixed", DYNAMIC, **params).module(q, q)[0].flatten(2, 3)
    places = torch.from_numpy(np.indices((70, 5)).reshape(2, 1, -1)).expand(-1, 2, -1)
    tokens = q.flatten(2, 3)
    at_places = posenc.build("rope_mixed", Spec("dynamic", positions="explicit"), **params).module
    assert torch.equal(at_places(tokens, tokens, places)[0], counted)


@pytest.mark.parametrize("end", [2**11, 2**15, pytest.param(2**24, marks=pytest.mark.exhaustive)])
def test_far_places_are_within_what_is_claimed(end: int, tmp_path: Path) -> None:
    encoding = posenc.build("rope_mixed", Spec("dynamic", positions="explicit"), weights=saved(tmp_path), layer=1)
    places = torch.randint(0, end, (2, 1, 4000), generator=torch.Generator().manual_seed(0))
    q = torch.tensor([1.0, 0.0] * 4).expand(1, 3, 4000, 8)
    ones = encoding.module(q, q, places)[0][0].numpy()
    angles = angles_at(*places[:, 0].numpy())
    error = max(np.abs(ones[..., 0::2] - np.cos(angles)).max(), np.abs(ones[..., 1::2] - np.sin(angles)).max())
    assert error < (3e-7 if end <= 2**15 else 4e-7)


def test_a_layer_alone_and_half_precision_are_read(tmp_path: Path) -> None:
    q = torch.randn(1, 3, 2, 3, 8)
    expected = posenc.build("rope_mixed", DYNAMIC, weights=saved(tmp_path), layer=1).module(q, q)[0]
    tensors: dict[str, Tensor] = {"rope.freqs": torch.from_numpy(FREQUENCIES), "patch.weight": torch.randn(3, 3, 4, 4)}
    save_file(tensors, tmp_path / "model.safetensors")
    whole = {"weights": str(tmp_path / "model.safetensors"), "key": "rope.freqs", "layer": 1}
    assert torch.equal(posenc.build("rope_mixed", DYNAMIC, **whole).module(q, q)[0], expected)
    alone = posenc.build("rope_mixed", DYNAMIC, weights=saved(tmp_path, FREQUENCIES[:, 1]), heads=3, head_dim=8)
    assert torch.equal(alone.module(q, q)[0], expected)
    torch.save({"freqs": torch.from_numpy(FREQUENCIES).bfloat16()}, tmp_path / "freqs.pt")
    rounded = posenc.build("rope_mixed", DYNAMIC, weights=str(tmp_path / "freqs.pt"), layer=1).module(q, q)[0]
    near(rounded, expected, 0.1)


def test_drawn_frequencies_are_those_before_training() -> None:
    torch.manual_seed(0)
    (drawn,) = posenc.build("rope_mixed", DYNAMIC, heads=5, head_dim=16, rope_theta=10.0).learned
    assert drawn.shape == (2, 5, 8)
    across, down = drawn.double().numpy()
    lengths = np.hypot(across, down)
    # as timm has it: 10^(-4 i / head_dim), along a direction and then across it
    np.testing.assert_allclose(lengths, np.tile(10.0 ** (-np.arange(4) / 4), (5, 2)), rtol=1e-6)
    np.testing.assert_allclose((across[:, :4] * across[:, 4:] + down[:, :4] * down[:, 4:]), 0, atol=1e-6)
    assert len(np.unique(np.arctan2(down, across)[:, 0].round(4))) == 5


@pytest.mark.exhaustive
def test_a_file_has_the_bits_of_eager_at_any_size(tmp_path: Path) -> None:
    params: dict[str, Any] = {"weights": saved(tmp_path), "layer": 1}
    folder = run("rope_mixed", DYNAMIC, params, tmp_path, formats=("onnx",), validate=False).folder
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    module = posenc.build("rope_mixed", DYNAMIC, **params).module
    for batch, height, width in ((1, 1, 1), (2, 3, 130), (1, 65, 2), (1, 64, 64), (2, 0, 3)):
        q, k = torch.randn(2, batch, 3, height, width, 8)
        for actual, expected in zip(session.run(None, {"q": q.numpy(), "k": k.numpy()}), module(q, k), strict=True):
            np.testing.assert_array_equal(actual, expected.numpy())
    with pytest.raises(Exception, match="Got: 1 Expected: 3"):
        session.run(None, {"q": np.zeros((1, 3, 2, 2, 8), np.float32), "k": np.zeros((1, 1, 2, 2, 8), np.float32)})


# The quick run has one of these in test_parity.py.
@pytest.mark.exhaustive
@pytest.mark.parametrize("positions", ["implicit", "explicit"])
@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_files_agree_at_every_size(tmp_path: Path, mode: Any, positions: Any) -> None:
    params: dict[str, Any] = {"weights": saved(tmp_path), "layer": 1}
    spec = Spec(mode, "exact", positions, 40)
    result = run("rope_mixed", spec, params, tmp_path / "b", formats=("onnx", "torchscript"))
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    cases = [case for case in result.manifest.cases if not case.refused]
    assert all(case.eager_tolerance.bits for case in cases)
    if positions == "implicit":
        assert {case.sizes["height"] > case.sizes["width"] for case in cases} == {True, False}


def test_of_no_places_nothing_is_rotated() -> None:
    for spec in (DYNAMIC, BAKED):
        module = posenc.build("rope_mixed", spec, heads=3, head_dim=8).module
        for height, width in ((0, 3), (3, 0), (0, 0)):
            x = torch.zeros(2, 3, height, width, 8)
            assert {tuple(y.shape) for y in (*module(x, x), *torch.jit.script(module)(x, x))} == {tuple(x.shape)}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"heads": 0}, "heads must be at least 1, got 0"),
        ({"head_dim": 6}, "head_dim must be a multiple of 4 where frequencies are drawn, got 6"),
        ({"head_dim": 0}, "head_dim must be a multiple of 4 where frequencies are drawn, got 0"),
        ({"rope_theta": 1.0}, "rope_theta must be a finite number above 1, got 1.0"),
        ({"layer": 1}, "layer is of a file: give weights=FILE beside layer=1"),
        ({"key": "rope.freqs"}, "key is of a file: give weights=FILE beside key=rope.freqs"),
    ],
)
def test_what_is_refused_of_drawn_frequencies(params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as refusal:
        posenc.build("rope_mixed", DYNAMIC, **params)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("array", "params", "text"),
    [
        (FREQUENCIES, {}, r"weights \(2, 2, 3, 4\) hold all layers: give layer=N, from 0 to 1"),
        (FREQUENCIES, {"layer": 2}, "layer must be 0 to 1, the layers of .*frequencies.npy, got 2"),
        (FREQUENCIES, {"layer": -1}, "layer must be 0 to 1, the layers of .*frequencies.npy, got -1"),
        (FREQUENCIES[:, 0], {"layer": 0}, r"must be floats of shape \(2, layers, heads, pairs\), got .*2, 3, 4"),
        (FREQUENCIES[:, 0, 0], {}, r"weights must be floats of shape \(2, heads, pairs\), got .* \(2, 4\)"),
        (np.ones((3, 3, 4), np.float32), {}, r"weights must be \(2, heads, pairs\), got \(3, 3, 4\) in"),
        (FREQUENCIES, {"layer": 0, "heads": 4}, "heads must be 3 as in .*, or left out, got 4"),
        (FREQUENCIES, {"layer": 0, "head_dim": 16}, "head_dim must be 8 as in .*, or left out, got 16"),
        (np.full((2, 3, 4), np.nan, np.float32), {}, "holds numbers that are not finite"),
    ],
)
def test_what_is_refused_of_weights(array: Array, params: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=text) as refusal:
        posenc.build("rope_mixed", DYNAMIC, weights=saved(tmp_path, array), **params)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("format_", ["header", "header-c99", "cache", "cache-npz"])
def test_formats_of_a_table_for_all_heads_refuse_it(cli: Cli, format_: str) -> None:
    done = cli("export", "rope_mixed", "-p", "heads=2", "-p", "head_dim=8", "-f", format_, "-o", "b")
    assert done.exit_code == 2
    assert "each head has cosines and sines of its own, and a row here is one for all heads" in done.output


def test_an_operator_that_turns_all_heads_alike_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--rotary-op onnx turns all heads by the same angles, and each by its own here"):
        run("rope_mixed", DYNAMIC, {"heads": 2, "head_dim": 8}, tmp_path, formats=("onnx",), rotary_op="onnx")


def test_heads_and_positions_that_it_does_not_take() -> None:
    module = posenc.build("rope_mixed", DYNAMIC, heads=3, head_dim=8).module
    q = torch.zeros(1, 3, 2, 2, 8)
    # a single head would be spread over all of them
    with pytest.raises(ValueError, match="there are 1 heads, this encoding has 3"):
        module(q, q[:, :1])
    for positions in ("offset", "mask"):
        with pytest.raises(UnsupportedSpec, match=f"rope_mixed has no {positions} form: .*--positions explicit"):
            posenc.build("rope_mixed", Spec("dynamic", positions=positions))
    x = torch.zeros(1, 6, 91, 1, 64)
    with pytest.raises(ValueError, match="length 91 is beyond the 90 positions"):
        posenc.build("rope_mixed", BAKED).module(x, x)
