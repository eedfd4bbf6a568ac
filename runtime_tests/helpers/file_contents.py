"""What is in a file, without what is random there, and what a graph says of itself to who loads it."""

import hashlib
import json
import re
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import torch

from posenc_export.write.formats.torchscript import archive_digests, unmangled

TYPES = re.compile(rb"__torch__(?:\.\w+)*\.(\w+)|c__torch__(?:\.\w+)*\n(\w+)\n|\b(?:posenc|known)(?:\.\w+)+\.(\w+)")
"""Classes as TorchScript and torch.export name them: by the module that they stand in."""


def digest_of(path: Path) -> str:
    """Return a digest of what a file holds: an archive's order and its random number say nothing."""
    if not zipfile.is_zipfile(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    entries = {name: digest.hex() for name, digest in archive_digests(path).items()}
    with zipfile.ZipFile(path) as archive:  # TorchScript lists constants as Python's hash seed has it
        codes = {unmangled(name.encode()).decode(): archive.read(name) for name in archive.namelist()}
    code = {name: b"\n".join(sorted(unmangled(codes[name]).splitlines())) for name in entries if name.endswith(".py")}
    entries |= {name: hashlib.sha256(text).hexdigest() for name, text in code.items()}
    return hashlib.sha256(json.dumps(sorted(entries.items())).encode()).hexdigest()


def digest_but_for_places(path: Path) -> str:
    """Return a digest of an archive in which no class says which module it stands in."""
    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if not n.endswith((".debug_pkl", "serialization_id"))]
        contents = {name: _without_places(archive.read(name)) for name in names}
    lines = sorted(line for name, text in contents.items() if name.endswith(".py") for line in text.splitlines())
    others = sorted(
        (name.partition("/")[2], hashlib.sha256(text).hexdigest())
        for name, text in contents.items()
        if not name.endswith(".py")
    )
    return hashlib.sha256(json.dumps([others, [line.decode() for line in lines]]).encode()).hexdigest()


def _without_places(content: bytes) -> bytes:
    return TYPES.sub(lambda found: b"type " + next(filter(None, found.groups())), unmangled(content))


def said_by(path: Path) -> dict[str, Any]:
    """Return what a graph says of itself, as JSON values: what goes in and comes out, and its metadata."""
    if path.suffix == ".onnx":
        return _said_by_onnx(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _said_by_script(path) if path.suffix == ".pt" else _said_by_program(path)


def _said_by_onnx(path: Path) -> dict[str, Any]:
    model = onnx.load(path, load_external_data=False)
    return {
        "inputs": [_port(value) for value in model.graph.input],
        "outputs": [_port(value) for value in model.graph.output],
        "opsets": {one.domain: one.version for one in model.opset_import},
        "ir_version": model.ir_version,
        "made by": [model.producer_name, model.producer_version, model.doc_string, model.graph.name],
        "metadata": {one.key: one.value for one in model.metadata_props},
        "operators": dict(sorted(Counter(node.op_type for node in model.graph.node).items())),
    }


def _port(value: Any) -> dict[str, Any]:
    tensor = value.type.tensor_type
    axes = [axis.dim_param or axis.dim_value for axis in tensor.shape.dim]
    return {"name": value.name, "dtype": onnx.TensorProto.DataType.Name(tensor.elem_type), "axes": axes}


def _said_by_script(path: Path) -> dict[str, Any]:
    schema = torch.jit.load(str(path)).forward.schema
    arguments = [{"name": one.name, "type": str(one.type)} for one in schema.arguments if one.name != "self"]
    with zipfile.ZipFile(path) as archive:
        extra = {name: archive.read(name) for name in archive.namelist() if "/extra/" in name}
    metadata = {name.partition("/extra/")[2]: text.decode("utf-8", "replace") for name, text in extra.items()}
    return {"inputs": arguments, "outputs": [str(one.type) for one in schema.returns], "metadata": metadata}


def _said_by_program(path: Path) -> dict[str, Any]:
    program = torch.export.load(path)
    call = program.module_call_graph[0].signature
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    shapes = {name: str(tuple(values[name].shape)) for name in program.graph_signature.user_inputs if name in values}
    ranges = {str(symbol): str(bounds) for symbol, bounds in program.range_constraints.items()}
    return {"arguments": str(call and call.in_spec), "inputs": shapes, "ranges": ranges}
