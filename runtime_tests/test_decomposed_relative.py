"""Rows of differences of rows and of columns, against the attention of SAM and of ViTDet, at any side."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import posenc
from conftest import Cli
from posenc.encoding import CaseLike
from posenc.spec import DType, Mode, Spec, UnsupportedSpec
from posenc_export import export
from posenc_export.bundle.case import Case
from posenc_export.validation.plan import plan
from posenc_export.validation.scope import Scope

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


def test_the_bias_is_that_of_vitdet(tmp_path: Path) -> None:
    vitdet = pytest.importorskip("transformers.models.vitdet.modeling_vitdet")
    attention(5, tmp_path)
    tables = torch.load(tmp_path / "sam.pt")
    rows, columns = (tables[f"layers.0.attn.rel_pos_{name}"] for name in "hw")
    for sides in ((5, 5), (8, 3)):
        q = queries(sides)
        zeros = torch.zeros(2 * HEADS, sides[0] * sides[1], sides[0] * sides[1])
        add: Any = vitdet.add_decomposed_relative_positions
        expected = add(zeros, q.flatten(0, 1).flatten(1, 2), rows, columns, sides, sides)
        values = called(built(tmp_path, "dynamic", sides), "dynamic", q).flatten(0, 1)
        assert float((values - expected).abs().max()) < 1e-5


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


def test_a_graph_of_other_queries_is_refused(tmp_path: Path) -> None:
    parameters: dict[str, Any] = {"window": (2, 3), "head_dim": DIM}
    made = export("decomposed_relative", parameters=parameters, to=tmp_path / "out", formats=("onnx",), validate=False)
    session = onnxruntime.InferenceSession(made.folder / "model.onnx")
    module = posenc.build("decomposed_relative", **parameters).module
    for tokens in (1, 5, 12):
        q = torch.zeros(1, HEADS, tokens, DIM)
        with pytest.raises(Exception, match="index: 2 Got"):
            session.run(None, {"q": q.numpy()})
        with pytest.raises(ValueError, match=f"q has {tokens} tokens, this window 2 x 3"):
            module(q)
    with pytest.raises(ValueError, match="x has 5 features, this encoding has 8"):
        module(torch.zeros(1, HEADS, 6, 5))


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
    assert none.not_tried[0] == "batch1-heads2: needs 16,777,216 elements"


def bad(folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    def saved(name: str, **tensors: Tensor) -> str:
        torch.save({key.replace("__", "."): tensor for key, tensor in tensors.items()}, folder / name)
        return str(folder / name)

    square, flat = torch.ones(7, 4), torch.ones(5, 4)
    one = saved("one.pt", rel_pos_h=square, rel_pos_w=flat)
    two = saved("two.pt", **{f"layers__{i}__attn__rel_pos_{n}": square for i in (0, 1) for n in "hw"})
    half, none = saved("half.pt", rel_pos_h=square), saved("none.pt", other=square)
    even = saved("even.pt", rel_pos_h=torch.ones(6, 4), rel_pos_w=flat)
    unlike = saved("unlike.pt", rel_pos_h=square, rel_pos_w=torch.ones(5, 3))
    empty = saved("empty.pt", rel_pos_h=torch.ones(0, 4), rel_pos_w=flat)
    nan = saved("nan.pt", rel_pos_h=square * torch.nan, rel_pos_w=flat)
    np.save(folder / "array.npy", np.ones((7, 4), np.float32))
    return {
        "no features": ({"head_dim": 0}, "head_dim must be at least 1, got 0"),
        "no window": ({"window": (7, 0)}, "window must be rows and columns of at least 1, or one number for both, got"),
        "three sides": ({"window": (1, 2, 3)}, "window must be rows and columns of at least 1"),
        "no size": ({"size": -1}, "size must be rows and columns of at least 1, or one number for both, got -1"),
        "too large": ({"size": 4000}, "GiB are free"),
        "huge tables": ({"window": 10**12}, "GiB are free"),
        "std": ({"std": 0.0}, "std must be above 0, got 0.0"),
        "key alone": ({"key": "attn"}, "give weights=FILE beside key=attn"),
        "other window": ({"weights": one, "window": 5}, "rel_pos_h must be (9, 4), of this window and head_dim, got"),
        "other side": ({"weights": one, "window": 4}, "rel_pos_w must be (7, 4), of this window and head_dim, got"),
        "other features": ({"weights": one, "head_dim": 8}, "rel_pos_h must be (7, 8), of this window and head_dim"),
        "unlike features": ({"weights": unlike}, "rel_pos_w must be (5, 4), of this window and head_dim, got (5, 3)"),
        "even": ({"weights": even}, "rel_pos_h must have 2 * side - 1 rows, an odd number, got (6, 4)"),
        "empty": ({"weights": empty}, "must be floats of shape (rows, columns), got an empty torch.float32 (0, 4)"),
        "not numbers": ({"weights": nan}, "holds numbers that are not finite"),
        "two": ({"weights": two}, "names before .rel_pos_h and .rel_pos_w: layers.0.attn, layers.1.attn"),
        "no such": ({"weights": two, "key": "layers.2.attn"}, "holds 4 tensors and none of them is 'layers.2.attn'"),
        "half": ({"weights": half}, "no key was given; names before .rel_pos_h and .rel_pos_w: none"),
        "neither": ({"weights": none}, "names before .rel_pos_h and .rel_pos_w: none"),
        "one array": ({"weights": str(folder / "array.npy")}, "array.npy holds one array: give a file of two"),
        "no file": ({"weights": str(folder / "away.pt")}, "weights: no such file"),
    }  # fmt: skip


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    for case, (parameters, words) in bad(tmp_path).items():
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            posenc.build("decomposed_relative", **parameters)
        assert "\n" not in str(caught.value), case


def test_forms_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="size is that of a baked window, a dynamic one takes any: leave it out, or"):
        posenc.build("decomposed_relative", Spec("dynamic"), size=3)
    with pytest.raises(UnsupportedSpec, match="output=scores takes scores of a fixed window: it takes --baked, or"):
        posenc.build("decomposed_relative", Spec("dynamic"), output="scores")
    with pytest.raises(UnsupportedSpec, match="decomposed_relative has no offset form: a window has no first position"):
        posenc.build("decomposed_relative", Spec("dynamic", positions="offset"))
    with pytest.raises(UnsupportedSpec, match="decomposed_relative has no trig form: a bias has no sines"):
        posenc.build("decomposed_relative", Spec("dynamic", "trig"))


def test_the_command_line_says_it_in_one_line(cli: Cli) -> None:
    run = cli("export", "decomposed_relative", "-p", "window=7,0")
    assert run.exit_code == 2
    assert "window must be rows and columns of at least 1, or one number for both, got 7,0" in run.output
