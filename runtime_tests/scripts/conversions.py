"""What common tools make of our files, and of a plain Sin/Cos export: a script, run by hand.

    pip install --target SITE --no-deps onnxconverter-common onnxslim
    python runtime_tests/scripts/conversions.py SITE        # writes the table of docs/reference/measured/conversions.md

Each file gets the same numbers, at positions up to 4095. In half precision it is evaluated by the onnx package, in true
half: ONNX Runtime's CPU computes float16 in float32. What stays float32 is run by ONNX Runtime.
"""

import datetime
import importlib.metadata
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from posenc.ports import Array, Feeds
from posenc.spec import Method, Spec
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.common.errors import first_line
from posenc_export.common.machine import facts
from posenc_export.common.markdown import table
from posenc_export.proof.benchmarks.baselines import BaselineRotary
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.judging.half import Half, measured
from posenc_export.proof.runtimes.onnx_reference import evaluator
from posenc_export.write.targets.scheme import scheme_target

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from scripts.converters import BUT_ANGLES, HALVES, SINGLES, Convert, behind_angles

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "conversions.md"
PART = "measured"
POSITIONS = (0, 1, 63, 64, 65, 1000, 2047, 2049, 4095)
HEAD = 16


@dataclass(frozen=True)
class Row:
    """What came of a file: how far its outputs are off, what becomes of wrong calls, how many nodes it has."""

    off: str
    refuses: str
    nodes: str


def feeds(positions: tuple[int, ...] = POSITIONS, tokens_of_k: int = 0) -> dict[str, Array]:
    """Return q, k, x and positions, of numbers that float16 holds; k may have another number of tokens."""
    rng, seq = np.random.default_rng(0), len(positions)
    q = rng.standard_normal((1, 2, seq, HEAD)).astype(np.float16).astype(np.float32)
    k = rng.standard_normal((1, 2, tokens_of_k or seq, HEAD)).astype(np.float16).astype(np.float32)
    x = rng.standard_normal((1, seq, HEAD)).astype(np.float16).astype(np.float32)
    return {"q": q, "k": k, "x": x, "positions": np.array([positions], np.int64)}


def taken(model: onnx.ModelProto, values: Feeds) -> dict[str, Array]:
    """Return those inputs that a file takes."""
    return {value.name: values[value.name] for value in model.graph.input}


WRONG: Mapping[str, Feeds] = {"a position beyond the end": feeds((2**24,)), "unlike lengths": feeds((3,), 2)}
"""Calls that our files refuse."""


def ours(folder: Path, scheme: str, method: Method = "exact") -> Path:
    """Write a dynamic scheme that is given positions; return its ONNX file."""
    spec, options = Spec("dynamic", method, "explicit", 70), ExportOptions(("onnx",), validate=False)
    params = {"d_model" if scheme == "sinusoidal" else "head_dim": HEAD}
    made = export_target(lambda: scheme_target(scheme, spec, params, 0), options, folder / f"{scheme}-{method}")
    return made.folder / "model.onnx"


def plain(folder: Path) -> Path:
    """Write the rotary encoding that most models have, as torch.onnx.export writes it."""
    args = tuple(torch.from_numpy(feeds()[name]) for name in ("q", "k", "positions"))
    seq = torch.export.Dim("seq", min=1, max=65536)
    shapes = ({2: seq}, {2: seq}, {1: seq})
    names: dict[str, Any] = {"input_names": ["q", "k", "positions"], "output_names": ["q_rotated", "k_rotated"]}
    module = BaselineRotary(HEAD, 10000.0).eval()
    torch.onnx.export(module, args, folder / "plain.onnx", dynamo=True, dynamic_shapes=shapes, verbose=False, **names)
    return folder / "plain.onnx"


def written(folder: Path) -> dict[str, Path]:
    return {
        **{scheme: ours(folder, scheme) for scheme in ("rope", "sinusoidal", "xpos")},
        "rope, --method trig": ours(folder, "rope", "trig"),
        "plain Sin and Cos": plain(folder),
    }


# ---- what comes of them ----------------------------------------------------------------------------------------------


def half_row(path: Path, convert: Convert) -> Row:
    """Convert a file to float16 and evaluate it in true half; its distance is in roundings."""
    model = convert(path)
    half = Half("float16", "float16", evaluator(model))
    golden = GoldenCase(Case("positions", {}), taken(model, feeds()))
    off = measured(half, evaluator(str(path)), golden)
    words = f"gives nothing: {off.failure[:60]}" if off.failure else f"{off.roundings:.3g} roundings, {off.error:.2g}"
    return Row(words, refusals(path, model), nodes(path, model))


def single_row(path: Path, convert: Convert) -> Row:
    """Convert a file that stays float32; compare it with itself before, in ONNX Runtime."""
    model = convert(path)
    before, after = (session(one).run(None, taken(one, feeds())) for one in (onnx.load(path), model))
    off = max(float(np.abs(a - b).max()) for a, b in zip(before, after, strict=True))
    same = all(a.tobytes() == b.tobytes() for a, b in zip(before, after, strict=True))
    return Row("same bits" if same else f"{off:.2g}", refusals(path, model), nodes(path, model))


def session(model: onnx.ModelProto) -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def refusals(path: Path, model: onnx.ModelProto) -> str:
    """Return in words which wrong calls a converted file answers in ONNX Runtime, of those that were refused before."""
    before = onnx.load(path)
    try:
        session(model)
    except Exception as error:
        return f"does not load: {first_line(error).rpartition(' : ')[2][:90]}"
    refused = [name for name, values in WRONG.items() if not answers(before, values)]
    lost = [name for name in refused if answers(model, WRONG[name])]
    kept = f"refused: {' and '.join(refused)}" if refused else "none were refused before"
    return f"no longer refused: {' and '.join(lost)}" if lost else kept


def answers(model: onnx.ModelProto, values: Feeds) -> bool:
    """Return whether a file gives an answer; numbers are given in the dtype that it takes."""
    halves = {v.name for v in model.graph.input if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16}
    fed = {n: a.astype(np.float16) if n in halves else a for n, a in taken(model, values).items()}
    try:
        session(model).run(None, fed)
    except Exception:
        return False
    return True


def nodes(path: Path, model: onnx.ModelProto) -> str:
    return f"{len(onnx.load(path).graph.node)} to {len(model.graph.node)}"


def rows(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield a row of the table for each conversion of each file."""
    files = written(folder)
    for tools, measure in ((HALVES, half_row), (BUT_ANGLES, half_row), (SINGLES, single_row)):
        for tool, convert in tools.items():
            for name, path in files.items():
                if tools is not BUT_ANGLES or behind_angles(onnx.load(path)):
                    row = row_of(path, convert, measure)
                    yield tool, name, row.off, row.refuses, row.nodes


def row_of(path: Path, convert: Convert, measure: Callable[[Path, Convert], Row]) -> Row:
    try:
        return measure(path, convert)
    except Exception as error:
        return Row(f"not converted: {first_line(error)[:90]}", "", "")


def main(site: str) -> None:
    sys.path.append(site)
    warnings.simplefilter("ignore")
    tools = {name: importlib.metadata.version(name) for name in ("onnxconverter-common", "onnxslim")}
    versions = ", ".join(f"{name} {version}" for name, version in {**facts(), **tools}.items())
    columns = ("tool", "file", "off by", "wrong calls", "nodes")
    with tempfile.TemporaryDirectory() as folder:
        shown = table(columns, rows(Path(folder)))
    text = f"Measured on {datetime.datetime.now(datetime.UTC).date()}: {versions}.\n\n{shown}\n"
    put_part(PAGE, PART, text)


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
