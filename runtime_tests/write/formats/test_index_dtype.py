"""`--index-dtype int32`: graphs without int64 but for sizes, with the bits of int64; what does not fit is refused."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import posenc
from helpers.combinations import MAX_LEN, POSITIONS
from helpers.shared import Cli, Running, one_of_each
from posenc.encoding import Encoding
from posenc.parameters import Value
from posenc.ports import Array, Extents, Indices, Mask, Positions, Start, carrying
from posenc.scheme import SCHEMES
from posenc.spec import Mode, Spec, UnsupportedSpec
from posenc_export.common.arrays import call_on_arrays
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter import ExportOptions, ExportResult, export_target
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope
from posenc_export.proof.stored.rebuilding import spec_of
from posenc_export.write.formats.onnx.providers import placements
from posenc_export.write.formats.onnx.providers.nodes import TypedNode, typed_nodes
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.scheme import scheme_target
from posenc_export.write.targets.sizes import trace_sizes

INTS = (Positions, Start, Mask, Extents, Indices)
MODES: tuple[Mode, ...] = ("dynamic", "baked")
WHOLE_STEPS = {"timestep": {"steps": "int"}}
"""Parameters without which a scheme takes floats."""
SIZES = ("interpolated", "swin_bias", "decomposed_relative")
"""Schemes that make weights of products of sizes where they are dynamic."""
QUICK = {("rope", "dynamic"), ("sinusoidal", "baked"), ("alibi", "dynamic"), ("sine_2d", "baked")}


def sample(name: str) -> dict[str, Value]:
    return {**SCHEMES[name].samples[0], **WHOLE_STEPS.get(name, {})}


def narrow(name: str, mode: Mode, **fields: Any) -> Spec:
    usual: dict[str, Any] = {"positions": SCHEMES[name].positions, "max_len": MAX_LEN, "index_dtype": "int32"}
    return Spec(mode, **{**usual, **fields})


def built(name: str, spec: Spec) -> Encoding:
    torch.manual_seed(0)  # weights that a scheme draws
    return posenc.build(name, spec, **sample(name))


def forms() -> Iterator[tuple[str, Mode]]:
    """Every scheme in each mode that it has in int32."""
    for name, mode in product(SCHEMES.names(), MODES):
        if mode not in SCHEMES[name].unsupported.modes and not (mode == "dynamic" and name in SIZES):
            yield name, mode


def each_form() -> list[Any]:
    return [
        pytest.param(name, mode, marks=() if (name, mode) in QUICK else (pytest.mark.exhaustive,))
        for name, mode in forms()
    ]


# ---- eager -----------------------------------------------------------------------------------------------------------


def integers(encoding: Encoding) -> set[str]:
    """Return the dtypes of integers that come in and go out, and that are stored."""
    ports = [*carrying(encoding.inputs, *INTS), *(port for port in encoding.outputs if "int" in port.dtype)]
    stored = [str(buffer.dtype).removeprefix("torch.") for buffer in encoding.module.buffers()]
    return {port.dtype for port in ports} | {dtype for dtype in stored if dtype in ("int64", "int32")}


def every_call(encoding: Encoding) -> Iterator[dict[str, Array]]:
    sizes = trace_sizes(encoding.inputs, set(), encoding.end or MAX_LEN)
    for case in plan(Scope(encoding, sizes, MAX_LEN)).cases:
        if not case.refused:
            yield feeds_for(encoding.inputs, case, 0)


@pytest.mark.parametrize(("name", "mode"), list(forms()))
def test_integers_are_int32_with_the_bits_of_int64(name: str, mode: Mode) -> None:
    spec = narrow(name, mode)
    small, wide = (built(name, each) for each in (spec, replace(spec, index_dtype="int64")))
    assert integers(small) <= {"int32"}
    assert "int32" not in integers(wide) or name == "hash_grid"
    for module in (small.module, wide.module):
        torch.jit.script(module)
    for feeds in list(every_call(small))[:6]:
        given = [call_on_arrays(small.module, [feeds[port.name] for port in small.inputs])]
        widened = [feeds[port.name].astype(port.dtype) for port in wide.inputs]
        given.append(call_on_arrays(wide.module, widened))
        for narrow_output, wide_output in zip(*given, strict=True):
            assert narrow_output.astype(wide_output.dtype).tobytes() == wide_output.tobytes()


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_way_to_give_positions_is_int32(positions: Any) -> None:
    for name in ("sinusoidal", "rope", "alibi", "clipped_relative", "xpos"):
        spec = narrow(name, "dynamic", positions=positions)
        assert integers(built(name, spec)) <= {"int32"}


# ---- what does not fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fields", "params", "words"),
    [
        ("interpolated", {"mode": "dynamic"}, {}, "weights are quotients of products of sizes"),
        ("swin_bias", {"mode": "dynamic"}, {}, "weights are quotients of products of sizes"),
        ("decomposed_relative", {"mode": "dynamic"}, {}, "weights are quotients of products of sizes"),
        ("timestep", {"mode": "dynamic"}, {"steps": "float"}, "steps are floats"),
        ("hash_grid", {"mode": "dynamic"}, {"log2_size": 22, "min_resolution": 4096}, "products of cells with primes"),
        ("rope", {"mode": "dynamic", "method": "trig", "positions": "offset"}, {}, "follow a start without an end"),
    ],
)
def test_a_form_that_needs_int64_is_refused_in_a_line(
    name: str, fields: dict[str, Any], params: dict[str, Value], words: str
) -> None:
    with pytest.raises(UnsupportedSpec, match=words) as refusal:
        posenc.build(name, Spec(**{"max_len": MAX_LEN, "index_dtype": "int32", **fields}), **{**sample(name), **params})
    assert "\n" not in str(refusal.value)
    assert "leave --index-dtype out" in str(refusal.value)


def test_numbers_without_room_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 1073741824 with index_dtype int32, got 1073741825"):
        Spec("dynamic", max_len=2**30 + 1, index_dtype="int32")
    with pytest.raises(ValueError, match="index_dtype must be int64 or int32, got 'int16'"):
        Spec(**{"index_dtype": "int16"})  # type: ignore[arg-type]


FARTHEST = (2**31 - 1, 2**31 - 2, 2**30, -1, -(2**31))


@pytest.mark.parametrize(("positions", "name"), list(product(("explicit", "offset"), ("sinusoidal", "rope", "alibi"))))
def test_no_sum_of_positions_wraps_into_the_table(positions: Any, name: str) -> None:
    """A position that the encoding does not have is refused up to the last int32, where a sum with it wraps."""
    mode: Mode = "baked" if name == "alibi" else "dynamic"
    encoding = built(name, narrow(name, mode, positions=positions))
    feeds = next(every_call(encoding))
    script = torch.jit.script(encoding.module)
    for far, port in product(FARTHEST, carrying(encoding.inputs, Positions, Start)):
        wrong = {**feeds, port.name: np.full_like(feeds[port.name], far)}
        for module in (encoding.module, script):
            with pytest.raises((IndexError, RuntimeError, torch.jit.Error)):
                call_on_arrays(module, [wrong[each.name] for each in encoding.inputs])


# ---- files -----------------------------------------------------------------------------------------------------------


def made_of_positions(model: onnx.ModelProto) -> list[TypedNode]:
    """Return the nodes that give integers which positions are in, in int64: sizes alone may be that."""
    counted = {port.name for port in model.graph.input if port.type.tensor_type.elem_type == onnx.TensorProto.INT32}
    wide = []
    for proto, node in zip(model.graph.node, typed_nodes(model), strict=True):
        counts = proto.op_type in ("Range", "CumSum") or counted.intersection(proto.input)
        if not counts or proto.op_type == "Shape":
            continue
        dtypes = [slot.dtype for slot in node.outputs if slot is not None]
        counted.update(name for name, dtype in zip(proto.output, dtypes, strict=True) if "int" in dtype)
        wide += [node] if "int64" in dtypes else []
    return wide


def exported(name: str, mode: Mode, folder: Path, **options: Any) -> ExportResult:
    chosen = ExportOptions(**options)
    return export_target(lambda: scheme_target(name, narrow(name, mode), sample(name), 0), chosen, folder / "bundle")


@pytest.mark.parametrize(("name", "mode"), each_form())
def test_a_file_is_proved_and_holds_int64_for_sizes_alone(
    tmp_path: Path, running: Running, name: str, mode: Mode
) -> None:
    assert "ort-cpu" in running(("onnx", "torchscript"))
    result = exported(name, mode, tmp_path)
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    model = onnx.load(tmp_path / "bundle" / "model.onnx")
    assert made_of_positions(model) == []
    kinds = {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    assert onnx.TensorProto.INT64 not in kinds
    assert spec_of(result.manifest).index_dtype == "int32"


def test_a_position_in_int64_is_seen(tmp_path: Path) -> None:
    exported("alibi", "dynamic", tmp_path, formats=("onnx",), validate=False)
    model = onnx.load(tmp_path / "bundle" / "model.onnx")
    cast = next(node for node in model.graph.node if node.op_type == "Range")
    model.graph.node.append(onnx.helper.make_node("Cast", [cast.output[0]], ["wide"], to=onnx.TensorProto.INT64))
    assert [node.name for node in made_of_positions(model)] == ["Cast"]


@pytest.mark.parametrize(
    ("positions", "name"),
    one_of_each(product(("explicit", "offset"), ("sinusoidal", "rope", "xpos", "alibi")), lambda pair: pair[0]),
)
def test_a_file_refuses_positions_up_to_the_last_int32(tmp_path: Path, positions: Any, name: str) -> None:
    import onnxruntime

    spec = narrow(name, "baked" if name == "alibi" else "dynamic", positions=positions)
    target = partial(scheme_target, name, spec, sample(name), 0)
    export_target(target, ExportOptions(("onnx",), validate=False), tmp_path / "bundle")
    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(tmp_path / "bundle" / "model.onnx", providers=["CPUExecutionProvider"])
    encoding = built(name, spec)
    feeds = next(every_call(encoding))
    session.run(None, feeds)
    for far, port in product(FARTHEST, carrying(encoding.inputs, Positions, Start)):
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument):
            session.run(None, {**feeds, port.name: np.full_like(feeds[port.name], far)})


@pytest.mark.parametrize("positions", ["explicit", "offset"])
def test_headers_take_the_dtype_of_the_port(tmp_path: Path, running: Running, positions: Any) -> None:
    running(("header", "header-c99"))
    spec = narrow("rope", "dynamic", positions=positions)
    chosen = ExportOptions(("header", "header-c99"))
    result = export_target(lambda: scheme_target("rope", spec, sample("rope"), 0), chosen, tmp_path / "bundle")
    assert [v.detail for v in result.verdicts if v.status == "fail"] == []
    for file in ("model.hpp", "model.h"):
        text = (tmp_path / "bundle" / file).read_text("ascii")
        assert "int32_t start" in text
        assert " int64_t" not in text


def test_webgpu_takes_what_counts_positions(tmp_path: Path) -> None:
    """What it is for: by its list WebGPU has no int64, and leaves to the CPU what sizes take alone."""
    left = {}
    for dtype in ("int64", "int32"):
        spec = narrow("rope", "dynamic", positions="explicit", index_dtype=dtype)
        chosen = ExportOptions(("onnx",), validate=False)
        export_target(partial(scheme_target, "rope", spec, sample("rope"), 0), chosen, tmp_path / dtype)
        found = placements(onnx.load(tmp_path / dtype / "model.onnx"))
        left[dtype] = {g.operator: g.nodes for one in found if one.provider == "WebGPU" for g in one.left}
    assert {"Clip", "Div", "Mod", "Reshape"} <= set(left["int64"])
    assert left["int32"] == {"Mul": 2}  # of sizes that two inputs must have alike


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_it_and_validates_it_again(cli: Cli, tmp_path: Path) -> None:
    words = ("rope", "--dynamic", "--positions", "explicit", "--index-dtype", "int32", "-f", "onnx", "--max-len", "64")
    made = cli("export", *words, "-o", str(tmp_path / "b"), "--runtime", "ort-cpu")
    assert made.exit_code == 0, made.output
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["facts"]["index_dtype"] == "int32"
    assert [port["dtype"] for port in manifest["inputs"]] == ["float32", "float32", "int32"]
    assert cli("validate", str(tmp_path / "b"), "--runtime", "ort-cpu").exit_code == 0


def test_files_of_int64_say_nothing_of_it(tmp_path: Path) -> None:
    spec = narrow("sinusoidal", "baked", index_dtype="int64")
    chosen = ExportOptions(("onnx",), validate=False)
    result = export_target(lambda: scheme_target("sinusoidal", spec, sample("sinusoidal"), 0), chosen, tmp_path / "b")
    assert "index_dtype" not in result.manifest.facts
    assert result.manifest.index_dtype == "int64"


def test_an_operator_with_ids_of_int64_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--rotary-op onnx takes ids of int64 alone"):
        exported("rope", "dynamic", tmp_path, formats=("onnx",), rotary_op="onnx", opset=23)


def test_a_module_decides_its_own_integers(cli: Cli) -> None:
    done = cli(
        "export", "posenc_models.networks.embedding:sinusoidal", "--index-dtype", "int32", "-i", "x: float32[b, s, 4]"
    )
    assert done.exit_code == 2
    assert "--index-dtype is for schemes" in done.output


def counting_classes() -> Iterator[tuple[type, str]]:
    """Yield every class of modules that has one of the two dtypes, of its own or of a class before it."""
    for found in pkgutil.walk_packages(posenc.__path__, "posenc."):
        for kind in vars(importlib.import_module(found.name)).values():
            if isinstance(kind, type) and issubclass(kind, torch.nn.Module) and kind.__module__ == found.name:
                yield from ((kind, name) for name in ("count_dtype", "integer_dtype") if hasattr(kind, name))


@pytest.mark.parametrize(("kind", "name"), list(counting_classes()))
def test_a_dtype_of_integers_is_a_constant_of_torchscript(kind: type, name: str) -> None:
    assert name in getattr(kind, "__constants__", ())
