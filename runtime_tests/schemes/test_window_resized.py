"""The table of a window's biases at other windows, beside transformers' BEiT and torch's interpolate."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

import posenc
from posenc.ports import Array
from posenc.sources.window.encode import indices
from posenc.spec import Spec
from posenc_export import export

Sides = tuple[int, int]
DYNAMIC = Spec("dynamic", max_len=40)
TRAINED: tuple[Sides, ...] = ((7, 7), (4, 6), (1, 3), (1, 1))
WINDOWS: tuple[Sides, ...] = ((1, 1), (1, 7), (3, 8), (9, 4), (2, 2), (12, 12), (16, 5))
EMPTY: tuple[Sides, ...] = ((0, 3), (3, 0), (0, 0))
WAYS = ("bilinear", "bicubic")


def table_of(trained: Sides, class_token: bool = False) -> Tensor:
    rows = (2 * trained[0] - 1) * (2 * trained[1] - 1)
    return torch.randn(rows + 3 * class_token, 2, generator=torch.Generator().manual_seed(0))


def built(folder: Path, trained: Sides, spec: Spec = DYNAMIC, **more: object) -> posenc.Encoding:
    """Return the encoding of a table that is drawn once for each trained window."""
    table = table_of(trained, bool(more.get("class_token")))
    np.save(folder / "table.npy", table.numpy())
    return posenc.build("swin_bias", spec, window=trained, weights=str(folder / "table.npy"), **more)


def called(encoding: posenc.Encoding, sides: Sides) -> tuple[Tensor, Array]:
    """Return what a module gives for a window, and the reference."""
    x = torch.zeros(2, *sides, 5)
    with torch.no_grad():
        bias: Tensor = encoding.module(x)
    return bias, encoding.reference({"x": x.numpy()}, None)["bias"]


def of_torch(table: Tensor, trained: Sides, sides: Sides, way: str) -> Tensor:
    """Return the bias by torch's interpolate of the table: (1, heads, tokens, tokens)."""
    image = table.reshape(1, 2 * trained[0] - 1, 2 * trained[1] - 1, -1).permute(0, 3, 1, 2)
    resized = interpolate(image, size=(2 * sides[0] - 1, 2 * sides[1] - 1), mode=way, align_corners=False)
    return resized.flatten(2)[:, :, torch.from_numpy(indices(sides))]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trained", TRAINED)
def test_the_table_is_resized_as_torch_does(tmp_path: Path, trained: Sides, way: str) -> None:
    ours, table = built(tmp_path, trained, interpolation=way), table_of(trained)
    for sides in WINDOWS:
        bias, reference = called(ours, sides)
        exact = of_torch(table.double(), trained, sides, way)
        assert float((exact - torch.from_numpy(reference)).abs().max()) < 1e-12
        assert float((bias - of_torch(table, trained, sides, way)).abs().max()) < 1e-5


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trained", TRAINED)
def test_in_the_trained_window_it_is_the_table_to_the_bit(
    tmp_path: Path, trained: Sides, way: str, class_token: bool
) -> None:
    flags: dict[str, Any] = {"interpolation": way, "class_token": class_token}
    ours = built(tmp_path, trained, **flags)
    bias, reference = called(ours, trained)
    assert torch.equal(torch.jit.script(ours.module)(torch.zeros(2, *trained, 5)), bias)
    baked = built(tmp_path, trained, Spec(), **flags)
    assert torch.equal(bias, baked.module())
    np.testing.assert_array_equal(reference, baked.reference({}, None)["bias"])


@pytest.mark.parametrize("trained", [2, 5])
def test_other_windows_of_beit(tmp_path: Path, trained: int) -> None:
    """Of a square window: of others transformers takes rows for columns where it reads its table."""
    beit = pytest.importorskip("transformers.models.beit.modeling_beit").BeitRelativePositionBias
    theirs = beit(SimpleNamespace(image_size=4 * trained, patch_size=4, num_attention_heads=2))
    ours = built(tmp_path, (trained, trained), class_token=True)
    theirs.relative_position_bias_table.data.copy_(table_of((trained, trained), class_token=True))
    for sides in WINDOWS:
        tokens = 1 + sides[0] * sides[1]
        expected = theirs(sides, interpolate_pos_encoding=True, dim_size=tokens).detach()
        bias, reference = called(ours, sides)
        assert bias.shape == expected.shape == (1, 2, tokens, tokens)
        assert float((bias - expected).abs().max()) < 1e-5
        assert float(np.abs(reference - expected.numpy()).max()) < 1e-5
        assert torch.equal(bias[:, :, 0], expected[:, :, 0]), "rows of the class token are kept"
        assert torch.equal(bias[:, :, :, 0], expected[:, :, :, 0])


@pytest.mark.parametrize("class_token", [False, True])
def test_of_no_places_there_is_no_bias_but_that_of_the_class_token(tmp_path: Path, class_token: bool) -> None:
    ours = built(tmp_path, (4, 6), class_token=class_token)
    script, alone = torch.jit.script(ours.module), table_of((4, 6), class_token)[-1].view(1, 2, 1, 1)
    for sides in EMPTY:
        for module in (ours.module, script):
            bias: Tensor = module(torch.zeros(2, *sides, 5))
            assert torch.equal(bias, alone[:, :, :class_token, :class_token])


@pytest.mark.exhaustive
def test_the_file_has_no_resize_and_is_right_at_windows_never_traced(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"class_token": True, "interpolation": "bicubic"}
    ours = built(tmp_path, (4, 6), **flags)
    flags |= {"weights": str(tmp_path / "table.npy"), "window": (4, 6)}
    made = export("swin_bias", parameters=flags, spec=DYNAMIC, to=tmp_path / "out", formats=("onnx",), validate=False)
    file = made.folder / "model.onnx"
    assert "Resize" not in {node.op_type for node in onnx.load(file).graph.node}
    session = onnxruntime.InferenceSession(file)
    for sides in (*WINDOWS, (4, 6), (37, 2)):
        (bias,) = session.run(None, {"x": np.zeros((2, *sides, 5), np.float32)})
        _, reference = called(ours, sides)
        assert float(np.abs(bias - reference).max()) < 1e-5
        assert sides != (4, 6) or np.array_equal(bias, reference)
    for sides in EMPTY:
        (bias,) = session.run(None, {"x": np.zeros((2, *sides, 5), np.float32)})
        assert bias.shape == (1, 2, 1, 1)
        np.testing.assert_array_equal(bias[0, :, 0, 0], table_of((4, 6), class_token=True)[-1])
