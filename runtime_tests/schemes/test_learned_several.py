"""Several tables of a token: LayoutLM's sums, an end of each, in every format and in C++."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import LayoutLMConfig
from transformers.models.layoutlm.modeling_layoutlm import LayoutLMEmbeddings

import posenc
from helpers.combinations import run
from helpers.embedded import CPP
from helpers.embedded import run as run_program
from helpers.learned_tables import saved, tables
from helpers.shared import need
from posenc.encoding import NoTables
from posenc.ports import Positions
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.runtimes.runner_build import build
from posenc_export.write.formats import FORMATS
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.scheme import scheme_target

__all__ = ["tables"]

KEYS = "p,x,y,x,y"


# ---- several tables --------------------------------------------------------------------------------------------------


def test_layoutlm(tmp_path: Path) -> None:
    config = LayoutLMConfig(
        hidden_size=8, max_position_embeddings=20, max_2d_position_embeddings=64, vocab_size=12, pad_token_id=0
    )
    theirs = LayoutLMEmbeddings(config)
    named = {name: module for name, module in theirs.named_modules() if name.endswith("position_embeddings")}
    for module in named.values():
        nn.init.normal_(module.weight)
    nn.init.zeros_(theirs.token_type_embeddings.weight)
    setattr(theirs.eval(), "LayerNorm", nn.Identity())  # noqa: B010  a sum alone is to be seen
    weights = saved(tmp_path, **{f"{name}.weight": module.weight for name, module in named.items()})
    ids = torch.randint(1, 12, (2, 5))
    left, upper = torch.randint(0, 32, (2, 2, 5))
    right, lower = left + torch.randint(0, 32, (2, 5)), upper + torch.randint(0, 32, (2, 5))
    bbox = torch.stack([left, upper, right, lower], -1)
    words = ("", "x_", "y_", "x_", "y_", "h_", "w_")
    keys = ",".join(f"{word}position_embeddings.weight" for word in words)
    place = torch.arange(5).expand(2, 5)
    positions = torch.stack([place, left, upper, right, lower, lower - upper, right - left])
    spec = Spec(positions="explicit", max_len=64)
    encoding = posenc.build("learned", spec, weights=weights, key=keys)
    x = theirs.word_embeddings(ids)
    torch.testing.assert_close(encoding.module(x, positions), theirs(ids, bbox), atol=1e-5, rtol=0)
    assert encoding.inputs[1].carries == Positions(64, (20, 64, 64, 64, 64, 64, 64))
    assert len(list(encoding.module.parameters())) == 5


def test_each_position_is_refused_beyond_its_own_table(tables: str) -> None:
    spec = Spec(positions="explicit", max_len=30)
    module = posenc.build("learned", spec, weights=tables, key="p,x,y", output="rows").module
    last = torch.tensor([19, 29, 24])
    assert module(last.reshape(3, 1, 1)).shape == (1, 1, 6)
    for axis, end in enumerate((20, 30, 25)):
        for beyond in (end, -1):
            at = last.clone()
            at[axis] = beyond
            with pytest.raises(IndexError, match=rf"positions must be in 0\.\.{end - 1}"):
                module(at.reshape(3, 1, 1))


def test_what_is_fed_is_below_each_end_or_beyond_one_alone(tables: str) -> None:
    spec = Spec(positions="explicit", max_len=30)
    ports = posenc.build("learned", spec, weights=tables, key=KEYS, output="rows").inputs
    ends = np.array([20, 30, 25, 30, 25])[:, None, None]

    def fed(first: int, *, refused: bool) -> Any:
        case = Case("a", {"batch": 2, "seq": 4}, first=first, refused=refused)
        return feeds_for(ports, case, 0)["positions"]

    assert (fed(26, refused=False) < ends).all()
    for end in (20, 25, 30):
        beyond = (fed(end - 1, refused=True) >= ends).any((1, 2))
        assert beyond.tolist() == (ends[:, 0, 0] == end).tolist()
    assert (fed(-1, refused=True).min((1, 2)) < 0).all()


def test_several_tables_agree_on_every_runtime(tmp_path: Path, tables: str) -> None:
    spec = Spec(positions="explicit", max_len=30)
    result = run("learned", spec, {"weights": tables, "key": KEYS}, tmp_path, formats=("onnx",))
    assert result.passed, [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"]
    refused = {case.first for case in result.manifest.cases if case.refused}
    assert {29, 24, 19, -1} <= refused
    assert [v.subject for v in result.verdicts if v.check == "refusal" and v.status == "pass"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("output", "dtype"), [("add", "fp32"), ("rows", "fp16"), ("add", "bf16"), ("rows", "fp64")])
def test_several_tables_in_every_format(tmp_path: Path, tables: str, output: str, dtype: Any) -> None:
    formats = tuple(name for name in FORMATS if not name.startswith(("header", "cache")))
    spec, params = Spec(positions="explicit", max_len=30, dtype=dtype), {"weights": tables, "key": KEYS}
    result = run("learned", spec, {**params, "output": output}, tmp_path, formats=formats)
    assert result.passed, [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("position_offset", [0, 2])
def test_an_offset_with_a_mask_in_every_format(tmp_path: Path, tables: str, position_offset: int) -> None:
    spec = Spec(positions="mask", max_len=18, position_offset=position_offset)
    formats = tuple(name for name in FORMATS if not name.startswith(("aoti", "cache")))
    result = run("learned", spec, {"weights": tables, "key": "p", "offset": 2}, tmp_path, formats=formats)
    assert result.passed, [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"]
    tried = {case.sizes["seq"] for case in result.manifest.cases if not case.refused}
    assert max(tried) == 18 - position_offset
    assert any(case.refused for case in result.manifest.cases)


def test_a_header_adds_no_rows_up(tables: str) -> None:
    encoding = posenc.build("learned", Spec(positions="explicit", max_len=30), weights=tables, key=KEYS)
    with pytest.raises(NoTables):
        encoding.tables()
    assert (
        FORMATS["header"].refuses(encoding)
        == "a row of it is a sum of rows of several tables: export each by its key, and add those up"
    )


# ---- in C++ ----------------------------------------------------------------------------------------------------------

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(used CXX)
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror)
add_subdirectory(${BUNDLE}/cpp several)
add_executable(program ${PROGRAM})
target_link_libraries(program PRIVATE posenc::several)
"""
SAID = """
fine
'positions' is 20 at [0, 0, 1], out of range: expected 0 to 19
'positions' is 30 at [1, 0, 0], out of range: expected 0 to 29
'positions' is 25 at [2, 0, 1], out of range: expected 0 to 24
'positions' is -1 at [1, 0, 1], out of range: expected 0 to 29
"""


@pytest.mark.exhaustive
def test_the_class_holds_each_position_against_its_own_end(tmp_path: Path, tables: str) -> None:
    need("ort-cpp")
    options = ExportOptions(formats=("onnx",), validate=False, cpp=True)
    spec, params = Spec(positions="explicit", max_len=30), {"weights": tables, "key": "p,x,y", "output": "rows"}
    export_target(lambda: scheme_target("learned", spec, params, 0), options, tmp_path / "several")
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT)
    build(project, tmp_path, {"BUNDLE": str(tmp_path / "several"), "PROGRAM": str(CPP / "several_ends.cpp")})
    done = run_program(tmp_path / "program", tmp_path / "several" / "model.onnx")
    assert done.stdout.strip().splitlines() == SAID.strip().splitlines(), done.stderr
