"""The interpolated scheme: what torch, transformers and timm make of a learned grid at sizes of no training."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

import posenc
from helpers.filters import DYNAMIC, FILTERS, built, saved
from helpers.shared import ROOT
from posenc.formulas.parts.resampling import Resampling, resampled
from posenc.sources.interpolated.modules import Resample1d, Resample2d
from posenc.sources.interpolated.weights import Filter
from posenc.spec import Spec
from posenc_export import export

GRIDS, SIZES = ((14, 14), (3, 5), (1, 2)), ((14, 14), (7, 5), (20, 11), (2, 14), (1, 3), (37, 40))
MORE = tuple(product((1, 2, 3, 4, 5, 13, 14, 15, 16, 28, 37, 64), (2, 3, 5, 14, 48)))


def of_torch(weight: Tensor, of: Filter, size: tuple[int, ...]) -> Tensor:
    """A grid (height, width, features), resampled by torch."""
    # antialias of torch 2.13 is wrong where channels come last and one column is wanted
    image = weight.permute(2, 0, 1)[None].contiguous()
    mode, grid = "bicubic" if of.cubic else "bilinear", weight.shape[:2]
    flags: dict[str, Any] = {"mode": mode, "align_corners": of.align_corners, "antialias": of.antialias}
    if of.offset and grid != size:
        scale = tuple((n + of.offset) / rows for n, rows in zip(size, grid, strict=True))
        resized = interpolate(image, scale_factor=scale, **flags)
    else:
        resized = interpolate(image, size=size, **flags)
    assert resized.shape[2:] == size
    return resized[0].permute(1, 2, 0)


def assert_as_torch(of: Filter, sizes: tuple[tuple[int, ...], ...]) -> None:
    torch.manual_seed(0)
    for grid in GRIDS:
        weight = torch.randn(*grid, 4)
        plane = Resample2d(weight, of).requires_grad_(False)
        for size in sizes:
            kind = Resampling(of.cubic, of.antialias, of.align_corners, of.offset)
            rows, exact = plane.rows(*size), resampled(weight.double().numpy(), kind, size)
            assert float((of_torch(weight.double(), of, size) - torch.from_numpy(exact)).abs().max()) < 1e-12
            assert float((rows - torch.from_numpy(exact)).abs().max()) < 3e-6
            assert float((rows - of_torch(weight, of, size)).abs().max()) < 1e-5
            assert size != grid or torch.equal(rows, weight), "at its own size it is what it is"


@pytest.mark.parametrize("of", FILTERS, ids=str)
def test_a_grid_is_resampled_as_torch_does(of: Filter) -> None:
    assert_as_torch(of, SIZES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("of", FILTERS, ids=str)
def test_so_it_is_at_many_sizes(of: Filter) -> None:
    assert_as_torch(of, MORE)


@pytest.mark.parametrize("align_corners", [False, True])
def test_a_line_is_resampled_as_torch_does(align_corners: bool) -> None:
    weight = torch.randn(9, 4)
    line = Resample1d(weight, Filter(cubic=False, align_corners=align_corners)).requires_grad_(False)
    for length in (1, 2, 4, 8, 9, 10, 31):
        expected = interpolate(weight.T[None], size=length, mode="linear", align_corners=align_corners)[0].T
        assert float((line.rows(length) - expected).abs().max()) < 1e-5


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["vit", "dinov2"])
def test_rows_are_those_of_transformers(tmp_path: Path, model: str) -> None:
    from transformers import Dinov2Config, ViTConfig
    from transformers.models.dinov2.modeling_dinov2 import Dinov2Embeddings
    from transformers.models.vit.modeling_vit import ViTEmbeddings

    size: dict[str, Any] = {"hidden_size": 8, "image_size": 56, "patch_size": 8, "num_attention_heads": 2}
    theirs: Any = ViTEmbeddings(ViTConfig(**size)) if model == "vit" else Dinov2Embeddings(Dinov2Config(**size))
    torch.nn.init.normal_(theirs.position_embeddings)
    encoding = built(saved(tmp_path, theirs.position_embeddings), output="rows")
    for height, width in ((7, 7), (5, 9), (12, 3), (20, 20)):
        expected = theirs.interpolate_pos_encoding(torch.zeros(1, height * width + 1, 8), height * 8, width * 8)
        rows = encoding.module(torch.zeros(1, height, width, 8)).detach()
        assert rows.shape == expected.shape
        assert float((rows - expected).abs().max()) < 1e-5
        baked = built(tmp_path / "table.npy", Spec(), output="rows", size=(height, width)).module()
        assert float((baked - expected).abs().max()) < 1e-5


@pytest.mark.exhaustive
def test_rows_of_one_image_are_those_of_siglip2(tmp_path: Path) -> None:
    from transformers.models.siglip2.modeling_siglip2 import Siglip2VisionEmbeddings

    table = torch.randn(16, 8)
    flags: dict[str, Any] = {"prefix": 0, "mode": "bilinear", "antialias": True, "output": "rows"}
    encoding = built(saved(tmp_path, table), **flags)
    for height, width in ((4, 4), (2, 9), (3, 3), (8, 2)):
        shapes = torch.tensor([[height, width]])
        resize: Any = Siglip2VisionEmbeddings.resize_positional_embeddings
        expected = resize(table.reshape(4, 4, 8), shapes, height * width)
        rows = encoding.module(torch.zeros(1, height, width, 8))
        assert float((rows - expected).abs().max()) < 1e-5


def test_rows_are_those_of_timm(tmp_path: Path) -> None:
    """Values of timm 1.0.31, `resample_abs_pos_embed` of one class token and 14 x 14 places."""
    values = np.load(ROOT / "runtime_tests" / "data" / "timm_resample.npz")
    file = saved(tmp_path, torch.from_numpy(values["posemb"]))
    for name in (name for name in values.files if name != "posemb"):
        size, mode, antialias = name.split("_")
        height, width = map(int, size.split("x"))
        encoding = built(file, mode=mode, antialias=antialias == "1", output="rows")
        rows = encoding.module(torch.zeros(1, height, width, values["posemb"].shape[2])).detach().numpy()
        assert np.abs(rows - values[name]).max() < 1e-5, name
        assert (rows[:, 0] == values["posemb"][:, 0]).all(), "the class token's row is kept"


def test_a_table_may_be_a_grid_itself(tmp_path: Path) -> None:
    table = torch.randn(1, 3, 5, 8)  # as SAM has it
    encoding = built(saved(tmp_path, table), prefix=0)
    x = torch.randn(2, 3, 5, 8)
    assert torch.equal(encoding.module(x), x + table)


@pytest.mark.exhaustive
def test_the_file_has_no_resize_and_is_right_at_sizes_never_traced(tmp_path: Path) -> None:
    table = torch.randn(1 + 49, 8)
    parameters = {"weights": str(saved(tmp_path, table)), "output": "rows", "prefix": 1}
    result = export(
        "interpolated", parameters=parameters, spec=DYNAMIC, to=tmp_path / "out", formats=("onnx",), validate=False
    )
    path = result.folder / "model.onnx"
    assert "Resize" not in {node.op_type for node in onnx.load(path).graph.node}
    session = onnxruntime.InferenceSession(path)
    for height, width in ((1, 1), (7, 7), (3, 31), (29, 6), (64, 48)):
        (rows,) = session.run(None, {"x": np.zeros((1, height, width, 8), np.float32)})
        expected = of_torch(table[1:].reshape(7, 7, 8), Filter(), (height, width)).reshape(-1, 8)
        assert np.abs(rows[0, 1:] - expected.numpy()).max() < 1e-5
        assert (rows[0, :1] == table[:1].numpy()).all()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"grid": (0, 4)}, "grid must be one or two numbers of at least 1, got 0,4"),
    "three": ({"grid": (2, 3, 4)}, "grid must be one or two numbers of at least 1, got 2,3,4"),
    "prefix": ({"prefix": -1}, "prefix must be at least 0, got -1"),
    "width": ({"d_model": 0}, "d_model must be at least 1, got 0"),
    "std": ({"std": 0.0}, "std must be a finite number above 0, got 0.0"),
    "offset": ({"offset": 0.1, "align_corners": True}, "offset must be at least 0, below 1, and without align_corners"),
    "size": ({"size": (4, 4)}, "size is that of a baked grid, a dynamic one takes any: leave it out, or use --baked"),
    "key": ({"key": "a"}, "key names a tensor in a file: give weights=FILE beside key=a"),
}
OF_FILES: dict[str, tuple[tuple[int, ...], dict[str, Any], str]] = {
    "no square": ((51, 8), {}, "has 51 rows, 1 of them prefix: the others are no square, give grid=HEIGHT,WIDTH"),
    "nothing but a prefix": ((1, 8), {}, "has 1 rows, 1 of them prefix: the others are no square"),
    "another grid": ((50, 8), {"grid": (7, 8)}, "has 50 rows: prefix 1 and a grid of 7 x 8 take 57"),
    "a grid with a prefix": ((4, 5, 8), {}, "holds a grid of 4 x 5 and no prefix: give prefix=0, got prefix 1"),
    "a grid of others": ((4, 5, 8), {"grid": (5, 4), "prefix": 0}, "holds a grid of 4 x 5 and no prefix"),
    "features": ((50, 8), {"d_model": 16}, "weights must be (rows, d_model) = (50, 16), got (50, 8) in"),
    "axes": ((2, 2, 4, 5, 8), {}, "weights must be floats of shape (rows, d_model), got"),
}


@pytest.mark.parametrize(("parameters", "text"), BAD.values(), ids=BAD)
def test_bad_parameters_are_one_line(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"\A.*\Z") as caught:
        posenc.build("interpolated", DYNAMIC, **parameters)
    assert text in str(caught.value)


@pytest.mark.parametrize(("shape", "parameters", "text"), OF_FILES.values(), ids=OF_FILES)
def test_weights_that_do_not_fit_are_one_line(
    tmp_path: Path, shape: tuple[int, ...], parameters: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=r"\A.*\Z") as caught:
        built(saved(tmp_path, torch.zeros(shape)), **parameters)
    assert text in str(caught.value)


def test_a_baked_size_has_as_many_numbers_as_the_grid() -> None:
    with pytest.raises(ValueError, match="size must be as many numbers as grid 4,3, at least 1, got 5"):
        posenc.build("interpolated", Spec(), grid=(4, 3), size=(5,))


def test_x_of_another_size_is_refused_by_a_baked_grid() -> None:
    module = posenc.build("interpolated", Spec(), d_model=4, grid=(4, 3), size=(2, 5)).module
    assert module(torch.zeros(3, 2, 5, 4)).shape == (3, 2, 5, 4)
    with pytest.raises(ValueError, match="x is of"):
        module(torch.zeros(3, 1, 5, 4))
