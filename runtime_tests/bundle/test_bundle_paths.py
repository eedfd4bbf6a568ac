"""What a stranger's manifest names is called by identifiers, and lies in the bundle's own folder."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import posenc_export
from helpers import hostile
from helpers.hostile import rows
from helpers.shared import Cli
from posenc.ports import BATCH, SEQ, Port, fixed
from posenc_export.bundle.port_names import check_names
from posenc_export.common.errors import BadInput

PATHS = [
    "../x",
    "../x/y",
    "/x",
    "a/b",
    "a\\b",
    "..",
    ".",
    "",
    "x\ny",
    "x y",
    "x..y",
    "x.",
    ".x",
    "C:x",
    "$x",
    "1x",
    "\u00e9",
    7,
    None,
]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("where", ["port", "output", "axis"])
def test_names_are_identifiers(cli: Cli, bundle: Path, called: list[str], where: str, name: Any) -> None:
    def rename(manifest: dict[str, Any]) -> None:
        port = manifest["outputs" if where == "output" else "inputs"][0]
        (port["axes"][0] if where == "axis" else port)["name"] = name

    before = {p.name for p in bundle.parent.iterdir()}
    hostile.edit(bundle, rename)
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    assert result.output.count("\n") == 1 or (where, name) == ("axis", ""), result.output
    wanted = ".name must be a name" if (where, name) != ("axis", "") else "must have a name or a size"
    assert wanted in result.output
    assert {p.name for p in bundle.parent.iterdir()} == before


def test_a_term_of_a_sum_is_an_identifier_too() -> None:
    check_names([Port("x", (BATCH, replace(SEQ, name="past+seq"), fixed(8)), "float32")])
    for name in ("past+../seq", "past+", "+"):
        with pytest.raises(BadInput, match="an axis of x is named"):
            check_names([Port("x", (replace(SEQ, name=name),), "float32")])


def test_export_gives_no_other_names_either() -> None:
    with pytest.raises(BadInput, match=r"a port is named '\.\./x': expected letters"):
        posenc_export.export(torch.nn.Identity, inputs=[Port("../x", (BATCH, SEQ, fixed(8)), "float32")])


FILES = [
    "../model.onnx",
    "/model.onnx",
    "sub/model.onnx",
    "sub/../model.onnx",
    "./model.onnx",
    "sub\\model.onnx",
    "..",
    "",
    "*/_ORT_MEM_ADDR_/*",
    "model\n.onnx",
    ".hidden.onnx",
    None,
]


@pytest.mark.parametrize("file", FILES)
def test_files_lie_in_the_bundles_own_folder(cli: Cli, bundle: Path, called: list[str], file: Any) -> None:
    (bundle / "sub").mkdir()
    for place in (bundle / "sub", bundle.parent):
        shutil.copy(bundle / "model.onnx", place / "model.onnx")
    hostile.edit(bundle, lambda m: m["artifacts"][0].update(file=file))
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    outside = f"the manifest names {file!r}, which is not a file of the bundle itself"
    assert outside in result.output or "artifacts[0].file must be a file's name" in result.output


@pytest.mark.parametrize("name", ["model.onnx", "model.pt", "golden.npz", "manifest.json"])
def test_links_are_not_files_of_the_bundle(cli: Cli, bundle: Path, called: list[str], name: str) -> None:
    hostile.linked(bundle, name)
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    text = "is a link: expected a file of the bundle itself" if "model" not in name else "is not a file of the bundle"
    assert text in result.output
    assert result.output.count("\n") == 1


def test_a_linked_folder_in_a_bundle_leads_nowhere(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    shutil.move(bundle / "model.onnx", tmp_path / "real" / "model.onnx")
    (bundle / "sub").symlink_to(tmp_path / "real")
    hostile.edit(bundle, lambda m: m["artifacts"][0].update(file="sub/model.onnx"))
    result = cli("validate", str(bundle))
    assert (result.exit_code, "'sub/model.onnx', which is not a file" in result.output) == (2, True), result.output


@pytest.mark.parametrize("take", [hostile.weight, hostile.in_a_branch])
@pytest.mark.parametrize("place", ["../secret", "/etc/hostname", "golden.npz", "*/_ORT_MEM_ADDR_/*", ""])
def test_weights_lie_in_files_that_the_manifest_lists(cli: Cli, bundle: Path, place: str, take: Any) -> None:
    (bundle.parent / "secret").write_bytes(bytes(4096))
    hostile.weights_at(bundle, place, take)
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    assert f"model.onnx takes weights from {place!r}, which is not a file that the manifest lists" in result.output
    assert cli("bench", str(bundle), "--length", "8", "--rounds", "1").exit_code == 2


def test_weights_in_a_listed_file_are_read(cli: Cli, bundle: Path) -> None:
    tensor = onnx.load(bundle / "model.onnx").graph.initializer[0]
    (bundle / "model.onnx.data").write_bytes(onnx.numpy_helper.to_array(tensor).tobytes())
    hostile.add(bundle, "onnx.data", "model.onnx.data")
    hostile.weights_at(bundle, "model.onnx.data")
    found = rows(cli, bundle, "--runtime", "ort-cpu")
    assert {v["status"] for v in found if v["subject"] == "ort-cpu"} == {"pass"}
