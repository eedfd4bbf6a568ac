"""Bundles as a stranger could make them: each would touch a file outside, were its code run."""

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from helpers.shared import Cli

Manifest = dict[str, Any]


def edit(bundle: Path, change: Callable[[Manifest], object]) -> None:
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def sign(bundle: Path) -> None:
    """Have the manifest say the sizes and digests that the files have now: integrity then passes."""

    def signed(manifest: Manifest) -> None:
        for artifact in manifest["artifacts"]:
            content = (bundle / artifact["file"]).read_bytes()
            artifact.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    edit(bundle, signed)


def add(bundle: Path, format_: str, file: str) -> None:
    """Add an artifact of a format to the manifest."""
    artifact = {"format": format_, "file": file, "bytes": 0, "sha256": "", "eager_tolerance": None}
    edit(bundle, lambda manifest: manifest["artifacts"].append(artifact))
    sign(bundle)


def in_header(bundle: Path, outside: Path) -> None:
    """A header with a global constructor: it runs when the library around it is loaded."""
    touch = f'#include <fstream>\nnamespace {{ const bool touched = (std::ofstream("{outside}"), true); }}\n'
    with (bundle / "model.hpp").open("a") as file:
        file.write(touch)
    sign(bundle)


class Writes(nn.Module):
    """Maps a file outside, which makes it, and writes into it."""

    def __init__(self, outside: str) -> None:
        super().__init__()
        self.outside = outside

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        return x + torch.from_file(self.outside, shared=True, size=4).fill_(1.0).sum()


def in_torchscript(bundle: Path, outside: Path) -> None:
    torch.jit.save(torch.jit.script(Writes(str(outside))), str(bundle / "model.pt"))
    sign(bundle)


class Touch:
    """What a pickle makes of it opens a file for writing."""

    def __init__(self, outside: Path) -> None:
        self.outside = outside

    def __reduce__(self) -> Any:
        return open, (str(self.outside), "w")


def in_pt2(bundle: Path, outside: Path) -> None:
    """A program of torch.export in whose archive a constant is a pickled object."""
    path = bundle / "model.pt2"
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    config = next(name for name in entries if name.endswith("model_constants_config.json"))
    folder = config.removesuffix("model_constants_config.json")
    constants = json.loads(entries[config])
    chosen = next(iter(constants["config"].values()))
    chosen["use_pickle"] = True
    pickled = io.BytesIO()
    torch.save(Touch(outside), pickled)
    entries |= {config: json.dumps(constants).encode(), folder + chosen["path_name"]: pickled.getvalue()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    sign(bundle)


def in_aoti(bundle: Path, outside: Path) -> None:
    """A stand-in: what would be unpacked, and its library loaded. That it is not, the loaders say that fail."""
    (bundle / "model_aoti.pt2").write_bytes(b"PK a package")
    add(bundle, "aoti", "model_aoti.pt2")


def script_as_onnx(bundle: Path, outside: Path) -> None:
    """A script that the manifest calls ONNX, by ONNX's name: checks go by the format, not by what a file is called."""
    in_torchscript(bundle, outside)
    (bundle / "model.pt").replace(bundle / "model.onnx")
    edit(bundle, lambda m: m.update(artifacts=[a for a in m["artifacts"] if a["format"] == "onnx"]))
    sign(bundle)


Take = Callable[[onnx.ModelProto], onnx.TensorProto]


def weight(model: onnx.ModelProto) -> onnx.TensorProto:
    tensor: onnx.TensorProto = model.graph.initializer[0]
    return tensor


def in_a_branch(model: onnx.ModelProto) -> onnx.TensorProto:
    """Return a constant in a graph that is an attribute of a node."""
    tensor = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(model.graph.initializer[0]), "deep")
    constant = onnx.helper.make_node("Constant", [], ["deep"], value=tensor)
    value = onnx.helper.make_tensor_value_info("deep", tensor.data_type, list(tensor.dims))
    branch = onnx.helper.make_graph([constant], "branch", [], [value])
    node = onnx.helper.make_node("If", ["condition"], ["chosen"], then_branch=branch, else_branch=branch)
    model.graph.node.append(node)
    inner: onnx.TensorProto = model.graph.node[-1].attribute[0].g.node[0].attribute[0].t
    return inner


def weights_at(bundle: Path, place: str, take: Take = weight) -> None:
    """Have a tensor of model.onnx lie in a file."""
    path = bundle / "model.onnx"
    model = onnx.load(path)
    tensor = take(model)
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", place), ("offset", "0"), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    sign(bundle)


def linked(bundle: Path, name: str) -> None:
    """Have a file of a bundle be a link to what lies outside."""
    outside = Path(shutil.move(bundle / name, bundle.parent / "elsewhere"))
    (bundle / name).symlink_to(outside)


def rows(cli: Cli, bundle: Path, *args: str) -> list[dict[str, Any]]:
    result = cli("validate", str(bundle), "--json", *args)
    assert result.exit_code in (0, 1), result.output
    verdicts: list[dict[str, Any]] = json.loads(result.stdout)["verdicts"]
    return verdicts
