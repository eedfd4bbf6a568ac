"""Several sizes in one batch, as SigLIP2-NaFlex has them: each image's rows, padding, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import posenc
from helpers.filters import DYNAMIC, FILTERS, built, saved
from helpers.shared import Cli
from posenc.sources.interpolated.modules import Resample2d, ResampleEachImage
from posenc.sources.interpolated.weights import Filter
from posenc.spec import Spec, UnsupportedSpec
from posenc_export import export


@pytest.mark.exhaustive
def test_rows_of_several_images_are_those_of_siglip2(tmp_path: Path) -> None:
    from transformers.models.siglip2.modeling_siglip2 import Siglip2VisionEmbeddings

    table, shapes = torch.randn(16, 8), torch.tensor([[4, 4], [2, 9], [3, 3], [8, 2], [1, 1], [5, 7]])
    flags: dict[str, Any] = {"prefix": 0, "mode": "bilinear", "antialias": True, "sizes": "each"}
    resize: Any = Siglip2VisionEmbeddings.resize_positional_embeddings
    expected, x = resize(table.reshape(4, 4, 8), shapes, 40), torch.randn(6, 40, 8)
    for output, wanted in (("rows", expected), ("add", x + expected)):
        y = built(saved(tmp_path, table), output=output, **flags).module(x, shapes).detach()
        assert float((y - wanted).abs().max()) < 1e-5


@pytest.mark.parametrize("of", FILTERS, ids=str)
def test_each_image_has_the_rows_that_it_has_alone(of: Filter) -> None:
    weight, shapes = torch.randn(3, 5, 4), torch.tensor([[3, 5], [3, 2], [1, 1], [7, 5], [1, 37], [37, 1]])
    each, plane = (
        ResampleEachImage(weight, of, add=False).requires_grad_(False),
        Resample2d(weight, of).requires_grad_(False),
    )
    rows = each(torch.zeros(6, 37, 4), shapes)
    for got, (height, width) in zip(rows, shapes.tolist(), strict=True):
        alone = plane.rows(height, width).flatten(0, 1)
        wanted = torch.cat([alone, alone[:1].expand(37 - height * width, 4)])
        assert float((got - wanted).abs().max()) < 1e-5


EACH: dict[str, Any] = {"d_model": 4, "grid": (3, 5), "prefix": 0, "sizes": "each"}
NO_SIZES = ((3, 3), (1, 9), (9, 1), (0, 5), (5, 0), (-1, 5), (-2, -2), (2**32, 2**32), (2**62, 4))


@pytest.mark.parametrize("sizes", NO_SIZES, ids=str)
def test_an_image_of_more_places_than_tokens_or_of_none_is_refused(sizes: tuple[int, int]) -> None:
    module = posenc.build("interpolated", DYNAMIC, **EACH).module
    x, good = torch.zeros(2, 8, 4), [2, 4]
    for shapes in ([good, sizes], [sizes, good]):
        with pytest.raises(IndexError, match=r"\Asizes must be at least 1, height x width at most the 8 tokens, got"):
            module(x, torch.tensor(shapes))
        with pytest.raises(RuntimeError, match="index out of range"):
            torch.jit.script(module)(x, torch.tensor(shapes))


@pytest.mark.exhaustive
def test_files_of_each_image_refuse_what_the_module_refuses(tmp_path: Path) -> None:
    result = export("interpolated", parameters=EACH, spec=DYNAMIC, to=tmp_path / "out", formats=("onnx", "torchscript"))
    refused = [case for case in result.manifest.cases if case.refused]
    assert [case.first for case in refused] == [3, 0, -1, 2**32]
    assert {case.sizes["seq"] for case in refused} == {8}
    rows = {verdict.subject: verdict.status for verdict in result.verdicts if verdict.check == "refusal"}
    assert rows["ort-cpu"] == rows["torchscript-cpu"] == "pass"
    session = onnxruntime.InferenceSession(result.folder / "model.onnx")
    x = np.zeros((2, 8, 4), np.float32)
    assert session.run(None, {"x": x, "sizes": np.array([[2, 4], [1, 1]])})[0].shape == (2, 8, 4)
    for sizes in NO_SIZES:
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="indices element out of"):
            session.run(None, {"x": x, "sizes": np.array([[2, 4], sizes])})


@pytest.mark.parametrize(
    ("mode", "parameters"), [("baked", {"prefix": 0}), ("dynamic", {}), ("dynamic", {"prefix": 0, "grid": (9,)})]
)
def test_sizes_of_each_image_take_a_dynamic_grid_without_a_prefix(mode: Any, parameters: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedSpec, match=r"\Asizes=each takes .*\Z"):
        posenc.build("interpolated", Spec(mode), **{"grid": (3, 3), "sizes": "each", **parameters})


OWN = """
import torch

class Places(torch.nn.Module):
    # The last place of each image gets 1. There is no row of an image without places, nor of one with more than tokens.
    def forward(self, x, sizes):
        last = torch.nn.functional.embedding(sizes, torch.arange(x.shape[1] + 1)[:, None])[..., 0].prod(1) - 1
        one = torch.eye(x.shape[1])
        return x + torch.nn.functional.embedding(last, one)[..., None]
"""


def test_extents_are_fed_to_a_module_of_ones_own(cli: Cli) -> None:
    Path("own.py").write_text(OWN)
    ports = ("-i", "x: float32[batch, seq, 4]", "-i", "sizes: int64[batch, 2] extents of seq")
    result = cli("export", "own:Places", *ports, "--max-len", "40", "-f", "torchscript", "-o", "b")
    assert result.exit_code == 0, result.output
    result = cli("export", "own:Places", *ports[:3], "sizes: int64[batch, 2]", "--max-len", "40", "-o", "c")
    assert result.exit_code != 0, "indices of nothing known have a 0"
