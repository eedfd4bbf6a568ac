"""Do the graphs of two versions give the same bits? A script, run by hand after a change that must not change any.

    python runtime_tests/scripts/same_bits.py write FOLDER         # a bundle of every combination of test_parity.py
    python runtime_tests/scripts/same_bits.py compare OLD NEW      # the new graphs on the old golden inputs, bit by bit

`compare` goes by the names of the folders in OLD, and needs no more of a bundle there than its graphs and golden data.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from posenc.ports import Array
from posenc_export.arrays import call_on_arrays, from_stored, to_stored

Arrays = dict[str, Array]


def write(folder: Path) -> None:
    """Write a bundle of every combination, each into a folder of the combination's name."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # where the tests are
    from test_parity import combinations, run

    for one in combinations():
        print(one.id, flush=True)
        scheme, spec, params = one.values
        run(scheme, spec, params, folder / one.id[:150], validate=False)


def golden_inputs(bundle: Path) -> tuple[list[str], list[dict[str, Any]], Any]:
    manifest = json.loads((bundle / "manifest.json").read_text())
    cases = [case["name"] for case in manifest["cases"] if not case["refused"]]
    return cases, manifest["inputs"], np.load(bundle / "golden.npz")


def outputs_of(path: Path, ports: list[dict[str, Any]], feeds: Arrays) -> list[Array]:
    """Run a graph, as ONNX by ONNX Runtime or as TorchScript, on inputs in the order of ports."""
    if path.suffix == ".pt":
        return call_on_arrays(torch.jit.load(str(path)), [feeds[port["name"]] for port in ports])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    kinds = {value.name: value.type for value in session.get_inputs()}
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(to_stored(array), 16)
        if kinds[name] == "tensor(bfloat16)"
        else onnxruntime.OrtValue.ortvalue_from_numpy(array)
        for name, array in feeds.items()
    }
    produced = session.run_with_ort_values(None, values)
    return [torch.utils.dlpack.from_dlpack(v._get_c_value().to_dlpack()).view(torch.uint8).numpy() for v in produced]


def as_bytes(arrays: list[Array]) -> list[bytes]:
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


def differences(old: Path, new: Path) -> list[str]:
    """Return what differs between two bundles, a line each."""
    cases, ports, golden = golden_inputs(old)
    lines = []
    for case in cases:
        keys = {port["name"]: f"{case}/{port['name']}" for port in ports}
        if any(f"{key}.rows" in golden for key in keys.values()):
            continue
        feeds = {p["name"]: from_stored(golden[keys[p["name"]]], p["dtype"]) for p in ports}
        for file in ("model.onnx", "model.pt"):
            before, after = (as_bytes(outputs_of(folder / file, ports, feeds)) for folder in (old, new))
            if before != after:
                lines.append(f"{old.parent.name}: {file} gives other bits in {case}")
    return lines


def compare(old: Path, new: Path) -> int:
    """Compare every bundle of OLD with the one of that name in NEW; return 1 where any differs or is missing."""
    lines, same = [], 0
    for bundle in sorted(old.glob("*/bundle")):
        other = new / bundle.parent.name / "bundle"
        problems = differences(bundle, other) if other.is_dir() else [f"{bundle.parent.name}: it is not in {new}"]
        lines += problems
        same += not problems
    print("\n".join([*lines, f"{same} bundles give the same bits, {len(lines)} lines of differences"]))
    return int(bool(lines))


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"] and len(sys.argv) == 3:
        write(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["compare"] and len(sys.argv) == 4:
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3])))
    else:
        sys.exit(__doc__)
