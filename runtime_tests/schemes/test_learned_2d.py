"""Learned rows and columns of a grid, beside transformers' modules of DETR and its kin."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers.models.conditional_detr.modeling_conditional_detr import ConditionalDetrLearnedPositionEmbedding
from transformers.models.deformable_detr.modeling_deformable_detr import DeformableDetrLearnedPositionEmbedding
from transformers.models.detr.modeling_detr import DetrLearnedPositionEmbedding
from transformers.models.table_transformer.modeling_table_transformer import TableTransformerLearnedPositionEmbedding

import posenc
from helpers.shared import Cli
from posenc.spec import DType, Spec, UnsupportedSpec

KEYS = "row_embeddings.weight,column_embeddings.weight"
FIFTY = Spec(max_len=50)
SIZES = ((1, 1), (5, 7), (7, 5), (1, 50), (50, 1), (50, 50))
OF_SHAPE = (
    DetrLearnedPositionEmbedding,
    ConditionalDetrLearnedPositionEmbedding,
    DeformableDetrLearnedPositionEmbedding,
)
"""Modules that are called with a shape; Table Transformer's takes pixels."""


def saved(folder: Path, rows: Tensor, columns: Tensor) -> str:
    names = KEYS.split(",")
    torch.save(dict(zip(names, (rows, columns), strict=True)), folder / "weights.pt")
    return str(folder / "weights.pt")


def of_detr(module: Any, sizes: tuple[int, int], dtype: torch.dtype) -> Tensor:
    """Return what a module gives for two images of 6 channels."""
    x = torch.zeros(2, 6, *sizes, dtype=dtype)
    with torch.no_grad():
        values: Tensor = module(x.shape, x.device, dtype) if isinstance(module, OF_SHAPE) else module(x)
    return values


@pytest.mark.parametrize("kind", [*OF_SHAPE, TableTransformerLearnedPositionEmbedding])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "fp64"])
def test_the_values_of_transformers(tmp_path: Path, kind: Any, dtype: DType) -> None:
    theirs = kind(3)
    weights = saved(tmp_path, theirs.row_embeddings.weight.data, theirs.column_embeddings.weight.data)
    spec = Spec(max_len=50, dtype=dtype)
    ours = posenc.build("learned_2d", spec, weights=weights, key=KEYS)
    of = getattr(torch, spec.torch_dtype)
    theirs.to(of)
    for sizes in SIZES:
        x = torch.zeros(2, 6, *sizes, dtype=of)
        values, expected = ours.module(x), of_detr(theirs, sizes, of)
        assert values.dtype == expected.dtype == of
        assert torch.equal(values.expand(2, -1, -1, -1), expected)
        assert torch.equal(torch.jit.script(ours.module)(x), values)
        if dtype == "fp32":
            np.testing.assert_array_equal(ours.reference({"x": x.numpy()}, None)["y"], values.detach().numpy())


def test_orders_and_layouts(tmp_path: Path) -> None:
    rows, columns = torch.randn(9, 2), torch.randn(9, 2)
    weights, x = saved(tmp_path, rows, columns), torch.zeros(2, 3, 5, 4)
    by_row, by_column = rows[:3, None].expand(3, 5, 2), columns[None, :5].expand(3, 5, 2)
    for order, halves in (("column_first", (by_column, by_row)), ("row_first", (by_row, by_column))):
        params: dict[str, Any] = {"order": order, "weights": weights, "key": KEYS}
        expected = torch.cat(halves, -1)[None]
        last = posenc.build("learned_2d", Spec(max_len=9), tensor_layout="bhwd", **params)
        first = posenc.build("learned_2d", Spec(max_len=9), **params)
        assert torch.equal(last.module(x), expected)
        assert torch.equal(first.module(x.movedim(-1, 1)), expected.movedim(-1, 1))
        np.testing.assert_array_equal(last.reference({"x": x.numpy()}, None)["y"], expected)


def test_a_row_that_was_not_trained_does_not_exist() -> None:
    module = posenc.build("learned_2d", FIFTY, dim=6).module
    for sizes in ((51, 2), (2, 51)):
        with pytest.raises(ValueError, match="length 51 is beyond the 50 positions of this encoding"):
            module(torch.zeros(1, 6, *sizes))
    with pytest.raises(UnsupportedSpec, match="learned_2d has no dynamic form: a row exists for each place"):
        posenc.build("learned_2d", Spec("dynamic"))


def test_as_many_rows_as_are_wanted_are_stored(tmp_path: Path) -> None:
    weights = saved(tmp_path, torch.randn(50, 3), torch.randn(50, 3))
    encoding = posenc.build("learned_2d", Spec(max_len=20), weights=weights, key=KEYS)
    assert encoding.end == 20
    assert [parameter.shape for parameter in encoding.module.parameters()] == [(20, 3)] * 2


def bad(folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    good = saved(folder, torch.randn(50, 4), torch.randn(50, 4))
    (folder / "unlike").mkdir()
    unlike = saved(folder / "unlike", torch.randn(50, 4), torch.randn(40, 4))
    np.save(folder / "one.npy", np.zeros((50, 4), np.float32))
    read: dict[str, Any] = {"weights": good, "key": KEYS}
    return {
        "rows": ({"rows": 0}, "rows must be at least 1, got 0"),
        "odd": ({"dim": 7}, "dim must be an even number of at least 2, got 7"),
        "no features": ({"dim": 0}, "dim must be an even number of at least 2, got 0"),
        "too few": ({"rows": 40}, "max_len must be at most the 40 rows of the tables, got 50"),
        "key alone": ({"key": KEYS}, f"give weights=FILE beside key={KEYS}"),
        "std": ({"std": 0.0}, "std must be a finite number above 0, got 0.0"),
        "no key": ({"weights": good}, "key must be two names, of the table of rows and of that of columns"),
        "one key": ({"weights": good, "key": "row_embeddings.weight"}, "got row_embeddings.weight"),
        "missing": ({"weights": good, "key": "row_embeddings.weight,x"}, "it has no 'x'; key is one of row_embeddings"),
        "one table": ({"weights": str(folder / "one.npy"), "key": KEYS}, "weights must hold two tables by their names"),
        "wrong rows": (
            {**read, "rows": 60},
            "row_embeddings.weight must be (rows, dim / 2) = (60, 4), got (50, 4)",
        ),
        "wrong width": ({**read, "dim": 6}, "row_embeddings.weight must be (rows, dim / 2) = (50, 3), got (50, 4)"),
        "unlike": (
            {**read, "weights": unlike},
            "column_embeddings.weight must be (rows, dim / 2) = (50, 4), got (40, 4)",
        ),
    }


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    for case, (parameters, words) in bad(tmp_path).items():
        with pytest.raises(ValueError, match=re.escape(words)) as caught:
            posenc.build("learned_2d", FIFTY, **parameters)
        assert "\n" not in str(caught.value), case


def test_the_command_line_says_it_in_one_line(cli: Cli, tmp_path: Path) -> None:
    for given, words in (("rows=0", "rows must be at least 1, got 0"), ("key=a", "give weights=FILE beside key=a")):
        run = cli("export", "learned_2d", "-p", given, "-o", str(tmp_path / "x"))
        assert run.exit_code == 2
        assert words in run.output
