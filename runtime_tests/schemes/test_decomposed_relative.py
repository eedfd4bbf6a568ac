"""Rows of differences of rows and of columns, against the attention of SAM and of ViTDet, at any side."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import posenc
from posenc.encoding import CaseLike
from posenc.spec import DType, Mode, Spec
from posenc_export import export
from posenc_export.bundle.case import Case
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope

HEADS, DIM = 3, 8
SIDES = ((7, 7), (3, 4), (13, 5), (20, 9), (1, 1), (1, 6), (7, 2))
"""Of grids: that of the tables, smaller, larger, both, and of one place, row or column."""
MODES: tuple[Mode, ...] = ("baked", "dynamic")


def attention(window: int, folder: Path) -> Any:
    """SAM's attention of a window, whose tables are no zeros, and its weights in a file."""
    sam = pytest.importorskip("transformers.models.sam.modeling_sam")
    config = pytest.importorskip("transformers").SamVisionConfig(hidden_size=HEADS * DIM, num_attention_heads=HEADS)
    theirs = sam.SamVisionAttention(config, window)
    torch.manual_seed(window)
    for table in (theirs.rel_pos_h, theirs.rel_pos_w):
        torch.nn.init.normal_(table, std=0.25)  # more than what is trained
    torch.save({f"layers.0.attn.{name}": tensor for name, tensor in theirs.state_dict().items()}, folder / "sam.pt")
    return theirs


def queries(sides: tuple[int, int], batch: int = 2) -> Tensor:
    return torch.randn(batch, HEADS, *sides, DIM, generator=torch.Generator().manual_seed(0))


def of_sam(theirs: Any, q: Tensor) -> Tensor:
    """What SAM adds to the scores of all pairs of places."""
    batch, heads, height, width, _ = q.shape
    tables = (theirs.rel_pos_h.to(q.dtype), theirs.rel_pos_w.to(q.dtype))
    sides = (height, width)
    with torch.no_grad():
        bias: Tensor = theirs.get_decomposed_rel_pos(q.flatten(0, 1).flatten(1, 2), *tables, sides, sides)
    return bias.reshape(batch, heads, height * width, height * width)


def built(folder: Path, mode: Mode, sides: tuple[int, int], **more: Any) -> posenc.Encoding:
    size = {"size": sides} if mode == "baked" else {}
    dtype: DType = more.pop("dtype", "fp32")
    return posenc.build("decomposed_relative", Spec(mode, dtype=dtype), weights=str(folder / "sam.pt"), **size, **more)


def called(encoding: posenc.Encoding, mode: Mode, q: Tensor, *more: Tensor) -> Tensor:
    with torch.no_grad():
        bias: Tensor = torch.jit.script(encoding.module)(q if mode == "dynamic" else q.flatten(2, 3), *more)
    return bias


def case_of(sides: tuple[int, int]) -> CaseLike:
    return Case("one", {"batch": 2, "heads": HEADS, "height": sides[0], "width": sides[1]})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sides", SIDES)
def test_the_bias_is_that_of_sam(tmp_path: Path, mode: Mode, sides: tuple[int, int]) -> None:
    theirs, q = attention(7, tmp_path), queries(sides)
    ours = built(tmp_path, mode, sides)
    expected, values = of_sam(theirs, q), called(ours, mode, q)
    assert values.shape == expected.shape
    assert float((values - expected).abs().max()) <= 1e-5
    exact = of_sam(theirs, q.double())
    assert float((values - exact).abs().max()) <= ours.tolerance(case_of(sides)).atol < 1e-4
    reference = ours.reference({"q": q.numpy() if mode == "dynamic" else q.flatten(2, 3).numpy()}, None)["bias"]
    assert float(np.abs(reference - exact.numpy()).max()) < 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_in_float64_it_is_that_of_sam_to_the_last_digits(tmp_path: Path, mode: Mode) -> None:
    theirs = attention(7, tmp_path)
    for sides in SIDES:
        q = queries(sides).double()
        values = called(built(tmp_path, mode, sides, dtype="fp64"), mode, q)
        assert float((values - of_sam(theirs, q)).abs().max()) < 1e-12


@pytest.mark.parametrize("sides", [(14, 14), (64, 64), (32, 32), (90, 60)])
def test_the_rows_of_sam_s_layers(tmp_path: Path, sides: tuple[int, int]) -> None:
    """Tables of 14 and of 64, at their own sides and of larger and smaller images: the rows, not the square."""
    for side in (14, 64):
        theirs: Any = attention(side, tmp_path)
        ours: Any = built(tmp_path, "dynamic", sides).module
        for rows, table, of in ((ours.down, theirs.rel_pos_h, sides[0]), (ours.across, theirs.rel_pos_w, sides[1])):
            with torch.no_grad():
                values = rows(of)
                expected = theirs.get_rel_pos(of, of, table.double())
            assert float((values - expected).abs().max()) < 1e-6
            if of == side:
                assert torch.equal(values, expected.float())


def test_scores_with_the_bias(tmp_path: Path) -> None:
    theirs, q, scores = attention(4, tmp_path), queries((4, 4)), torch.randn(2, HEADS, 16, 16)
    ours = built(tmp_path, "baked", (4, 4), output="scores")
    values = called(ours, "baked", q, scores)
    assert float((values - scores - of_sam(theirs, q)).abs().max()) < 1e-5
    exact = ours.reference({"q": q.flatten(2, 3).numpy(), "scores": scores.numpy()}, None)["biased"]
    assert float(np.abs(exact - values.numpy()).max()) < 1e-5


def adds(model_type: str) -> Any:
    """The function that adds the bias to scores, of ViTDet or of SegGPT."""
    if model_type == "vitdet":
        vitdet = pytest.importorskip("transformers.models.vitdet.modeling_vitdet")
        return vitdet.add_decomposed_relative_positions
    seggpt = pytest.importorskip("transformers.models.seggpt.modeling_seggpt")
    config = seggpt.SegGptConfig(hidden_size=HEADS * DIM, num_attention_heads=HEADS)
    return seggpt.SegGptAttention(config).add_decomposed_rel_pos


@pytest.mark.parametrize("model_type", ["vitdet", "seggpt"])
def test_the_bias_is_that_of_others(tmp_path: Path, model_type: str) -> None:
    attention(5, tmp_path)
    tables = torch.load(tmp_path / "sam.pt")
    rows, columns = (tables[f"layers.0.attn.rel_pos_{name}"] for name in "hw")
    for sides in ((5, 5), (8, 3)):
        q = queries(sides)
        zeros = torch.zeros(2 * HEADS, sides[0] * sides[1], sides[0] * sides[1])
        expected = adds(model_type)(zeros, q.flatten(0, 1).flatten(1, 2), rows, columns, sides, sides)
        values = called(built(tmp_path, "dynamic", sides), "dynamic", q).flatten(0, 1)
        assert float((values - expected.reshape(values.shape)).abs().max()) < 1e-5


def by_hand(q: Tensor, rows: Tensor, columns: Tensor) -> list[list[float]]:
    """The equation, place by place: of one head, queries (height, width, head_dim)."""
    height, width, _ = q.shape
    places = [(y, x) for y in range(height) for x in range(width)]
    return [
        [float(q[y, x] @ rows[y - v + height - 1] + q[y, x] @ columns[x - u + width - 1]) for v, u in places]
        for y, x in places
    ]


def test_the_equation_by_hand(tmp_path: Path) -> None:
    rows, columns = torch.tensor([[10.0], [1.0], [100.0]]), torch.tensor([[0.5], [0.25], [0.125], [4.0], [8.0]])
    torch.save({"rel_pos_h": rows, "rel_pos_w": columns}, tmp_path / "sam.pt")
    q = torch.arange(1.0, 7.0).reshape(2, 3, 1)
    ours = posenc.build("decomposed_relative", weights=str(tmp_path / "sam.pt"))  # 2 x 3: the weights say so
    values = ours.module(q.reshape(1, 1, 6, 1))[0, 0].tolist()
    assert values == by_hand(q, rows, columns)
    assert values[0] == [1.125, 1.25, 1.5, 10.125, 10.25, 10.5]


def test_a_bias_of_some_queries_alone_is_that_of_all(tmp_path: Path) -> None:
    attention(4, tmp_path)
    q, at = queries((3, 5)).numpy(), np.array([0, 4, 5, 14])
    reference = built(tmp_path, "dynamic", (3, 5)).reference
    np.testing.assert_array_equal(reference({"q": q}, at)["bias"], reference({"q": q}, None)["bias"][:, :, at])


@pytest.mark.exhaustive
def test_scores_of_a_window_of_another_size_pass_on_every_runtime_and_store_no_square(tmp_path: Path) -> None:
    parameters: dict[str, Any] = {"window": (5, 9), "size": (32, 32), "head_dim": DIM, "output": "scores"}
    made = export("decomposed_relative", parameters=parameters, to=tmp_path / "out", formats=("onnx", "torchscript"))
    assert made.passed, [verdict for verdict in made.verdicts if verdict.status == "fail"]
    assert (made.folder / "model.onnx").stat().st_size < 2**17  # of 1024 places there are 2^20 pairs


def test_cases_that_do_not_fit_the_budget_are_named() -> None:
    """A head of 64 x 64 places has 2^24 numbers: what takes more than the budget is not tried, and is named."""
    encoding = posenc.build("decomposed_relative", window=64, head_dim=DIM)
    whole = plan(Scope(encoding, {"batch": 3, "heads": 5}, 64))
    assert {case.sizes["heads"] for case in whole.cases} == {2, 4}
    assert not whole.not_tried
    few = plan(Scope(encoding, {"batch": 3, "heads": 5}, 64, budget=2**24))
    assert [case.name for case in few.cases] == ["batch1-heads1"]
    none = plan(Scope(encoding, {"batch": 3, "heads": 5}, 64, budget=2**22))
    assert not none.cases
    assert none.not_tried[0] == "a call with arrays of 16,777,216 elements is too large to make here"
