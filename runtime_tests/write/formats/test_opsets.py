"""Opsets: the lowest is the default, what is newer says why, and the first ONNX Runtime of each is one measured."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

from helpers.shared import one_of_each
from posenc.ports import BATCH, SEQ, Port, fixed
from posenc.spec import Spec
from posenc_export.bundle.schema import read_manifest
from posenc_export.common.errors import BadInput, ExportFailed
from posenc_export.proof.exporter import ExportOptions, ExportResult, export_target
from posenc_export.write.formats import DEFAULT_OPSET, FALLBACK_OPSETS, OPSETS
from posenc_export.write.targets.module import module_target
from posenc_export.write.targets.scheme import scheme_target
from scripts.compat_table import cells

ROPE = Spec("dynamic", "exact", "explicit", 70)
X = Port("x", (BATCH, SEQ, fixed(8)), "float32")


def run(folder: Path, **options: Any) -> ExportResult:
    chosen = ExportOptions(("onnx",), **{"validate": False, **options})
    return export_target(lambda: scheme_target("rope", ROPE, {"head_dim": 16}, 0), chosen, folder / "bundle")


def run_own(module: nn.Module, folder: Path, **options: Any) -> ExportResult:
    spec = Spec("dynamic", max_len=70)
    chosen = ExportOptions(("onnx",), **options)
    return export_target(lambda: module_target(module, (X,), spec, {}, 0), chosen, folder / "bundle")


def check_says(result: ExportResult, opset: int) -> None:
    """The file, the manifest and the report have the same opset, with the IR version of it."""
    file, record = onnx.load(result.folder / "model.onnx"), OPSETS[opset]
    assert {o.domain: o.version for o in file.opset_import}[""] == opset
    assert file.ir_version == record.ir_version
    manifest = read_manifest(json.loads((result.folder / "manifest.json").read_text(encoding="utf-8")))
    assert (manifest.opset, manifest.ir_version) == (opset, record.ir_version)
    assert manifest.loads_on == f"ONNX Runtime >= {record.onnx_runtime}"
    line = f"* opset: {opset} ({manifest.opset_reason}), IR version {record.ir_version}: {manifest.loads_on}"
    assert line in (result.folder / "report.md").read_text(encoding="utf-8").splitlines()


def test_the_default_is_the_lowest(tmp_path: Path) -> None:
    result = run(tmp_path)
    check_says(result, 18)
    assert result.manifest.opset_reason == "the lowest that is written"
    assert result.manifest.ir_version == 8
    assert DEFAULT_OPSET == min(OPSETS) == 18


@pytest.mark.parametrize("opset", one_of_each(OPSETS, lambda opset: opset == DEFAULT_OPSET))
def test_an_opset_has_its_ir_version(tmp_path: Path, opset: int) -> None:
    result = run(tmp_path, opset=opset)
    check_says(result, opset)
    assert result.manifest.opset_reason
    assert "lowest" not in result.manifest.opset_reason


def test_an_operator_raises_the_opset_and_is_named(tmp_path: Path) -> None:
    result = run(tmp_path, rotary_op="onnx")
    check_says(result, 23)
    assert result.manifest.ir_version == 11
    assert result.manifest.opset_reason == "--rotary-op onnx needs it"


def test_an_opset_without_the_operator_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--rotary-op onnx needs opset 23, got --opset 18"):
        run(tmp_path, rotary_op="onnx", opset=18)
    with pytest.raises(BadInput, match=r"opset must be in 18\.\.24, got 17"):
        run(tmp_path, opset=17)
    assert list(tmp_path.iterdir()) == []


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


class ThroughFloat8(nn.Module):
    """Rounds to what opset 19 has and 18 has not."""

    def forward(self, x: Tensor) -> Tensor:
        return x.to(torch.float8_e4m3fn).to(x.dtype)


@pytest.fixture
def no_opset_18(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch.onnx.export fail at opset 18: that of torch 2.13 does at no module, it writes what no runtime loads."""
    export = torch.onnx.export

    def failing(*args: Any, opset_version: int, **options: Any) -> Any:
        if opset_version == 18:
            raise RuntimeError("No ONNX function is registered for this operator\nand more of it")
        return export(*args, opset_version=opset_version, **options)

    monkeypatch.setattr(torch.onnx, "export", failing)


@pytest.mark.usefixtures("no_opset_18")
def test_where_a_patched_exporter_fails_at_18_a_module_is_written_at_20(tmp_path: Path) -> None:
    result = run_own(Doubled(), tmp_path)
    assert not result.failed, result.verdicts
    check_says(result, FALLBACK_OPSETS[0])
    failed = "torch.onnx.export failed: No ONNX function is registered for this operator"
    assert result.manifest.opset_reason == f"it cannot be written at opset 18: {failed}"


@pytest.mark.usefixtures("no_opset_18")
def test_where_a_patched_exporter_fails_at_18_that_opset_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(ExportFailed, match=r"torch\.onnx\.export failed: No ONNX function") as caught:
        run_own(Doubled(), tmp_path, opset=18)
    assert caught.value.exit_code == 4
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_opset_18_cannot_say_is_written_at_20(tmp_path: Path) -> None:
    result = run_own(ThroughFloat8(), tmp_path)
    assert not result.failed, result.verdicts
    check_says(result, FALLBACK_OPSETS[0])


def results(opset: int) -> dict[tuple[int, ...], bool]:
    """What docs/reference/measured/files.md has of dynamic rope at an opset: good or not, by release."""
    name = "rope" if opset == DEFAULT_OPSET else f"rope, opset {opset}"
    mine = (cell for cell in cells() if (cell.file, cell.runtime) == (name, "ONNX Runtime"))
    return {tuple(map(int, cell.version.split(".")[:2])): cell.good for cell in mine}


@pytest.mark.parametrize("opset", OPSETS)
def test_the_first_runtime_of_an_opset_is_the_one_measured(opset: int) -> None:
    releases, found = sorted(results(opset)), results(opset)
    good = [release for release in releases if found[release]]
    assert good == releases[-len(good) :], "what loads once loads in all that come after"
    assert ".".join(map(str, good[0])) == OPSETS[opset].onnx_runtime


def test_the_default_opset_gives_the_bits_in_every_release() -> None:
    found = results(DEFAULT_OPSET)
    assert set(found.values()) == {True}
    assert len(found) >= 10
