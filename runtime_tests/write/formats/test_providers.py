"""Which nodes execution providers take, by their lists; that of the CPU is held against ONNX Runtime itself."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from helpers.made_parts import part_of
from helpers.shared import Cli, need, one_of_each
from posenc_export.cli.commands import compat
from posenc_export.write.formats.onnx.providers import Placement, answer, placements
from posenc_export.write.formats.onnx.providers.lists import ORDER, provider_lists
from posenc_export.write.formats.onnx.providers.nodes import typed_nodes
from scripts.compat_table import PAGE
from scripts.provider_lists import (
    MACROS,
    Kernel,
    Sources,
    _expanded,
    openvino,
    registered,
    signatures_of,
    table_of_kernels,
    tensorrt,
    webnn,
)
from scripts.providers import PART, cells, forms, left

DTYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bfloat16": TensorProto.BFLOAT16,
}


def model(name: str, dtype: int, inputs: int, opset: int = 18, **attributes: Any) -> onnx.ModelProto:
    """Return a file of one node."""
    ins = [helper.make_tensor_value_info(f"x{place}", dtype, ["n"]) for place in range(inputs)]
    out = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    out.type.Clear()
    node = helper.make_node(name, [one.name for one in ins], ["y"], name="node", **attributes)
    graph = helper.make_graph([node], "g", ins, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def of(found: tuple[Placement, ...], provider: str) -> Placement:
    return next(one for one in found if one.provider == provider)


def why(made: onnx.ModelProto, provider: str) -> tuple[bool | None, str]:
    """Return whether a provider takes a file's only node, and what stands against it."""
    one = of(placements(made), provider)
    group = (*one.left, *one.unknown, None)[0]
    return (True if one.taken else False if one.left else None), group.why if group else ""


# ---- the answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "provider", "expected"),
    [
        (model("Sin", TensorProto.FLOAT, 1), "CUDA", (True, "")),
        # opset 22 has another form of Sin, and DirectML's kernel has no end: it is for the form of opset 7 alone
        (model("Sin", TensorProto.FLOAT, 1, opset=21), "DirectML", (True, "")),
        (model("Sin", TensorProto.FLOAT, 1, opset=22), "DirectML", (False, "its form of opset 22: kernels are of 7")),
        (model("Add", TensorProto.INT64, 2), "WebGPU", (False, "int64")),
        (model("Add", TensorProto.INT64, 2), "WebGPU, enableInt64", (True, "")),
        (model("Add", TensorProto.INT32, 2), "WebGPU", (True, "")),
        (model("BitwiseXor", TensorProto.INT32, 2), "CUDA", (False, "")),
        (model("Add", TensorProto.INT32, 2), "QNN", (None, "its list has no dtypes")),
        (model("Add", TensorProto.FLOAT, 2), "WebNN", (None, "its list has no dtypes")),
        (model("Range", TensorProto.INT32, 3), "QNN", (False, "")),
        # its builder has a check of dtypes of its own, or the one that all share
        (model("Shape", TensorProto.FLOAT, 1), "CoreML, MLProgram", (None, "its list has no dtypes")),
        (model("Add", TensorProto.INT32, 2), "CoreML, MLProgram", (False, "int32")),
        (model("Add", TensorProto.INT64, 2), "NNAPI", (False, "int64")),
        (model("Add", TensorProto.FLOAT, 2), "TensorRT", (True, "")),
        (model("Add", TensorProto.FLOAT, 2, opset=22), "TensorRT", (None, "opset 22: the list ends at 20")),
        (model("Add", TensorProto.DOUBLE, 2), "OpenVINO on CPU", (False, "float64")),
        (model("NoSuchOperator", TensorProto.FLOAT, 1), "CUDA", (None, "nothing defines it")),
        (model("Add", TensorProto.FLOAT, 2, opset=2**62), "CUDA", (None, "nothing defines it")),
    ],
)
def test_a_list_says_which_node_is_taken_and_why_not(
    made: onnx.ModelProto, provider: str, expected: tuple[bool | None, str]
) -> None:
    assert why(made, provider) == expected


SAMPLE = {
    "Add": 2,
    "Sin": 1,
    "Cos": 1,
    "Mod": 2,
    "Max": 2,
    "Neg": 1,
    "BitwiseAnd": 2,
    "CumSum": 2,
    "Where": 3,
    "Erf": 1,
}
FIRST_TYPE = {"Where": "T"}
"""The type that the dtypes of a case are of, where it is not that of the first input."""


def defined() -> list[tuple[str, str]]:
    """Return the operators of the sample with the dtypes that ONNX has them for."""
    pairs = []
    for name in SAMPLE:
        schema = onnx.defs.get_schema(name, 18)
        kind = FIRST_TYPE.get(name, schema.inputs[0].type_str)
        allowed = next(one.allowed_type_strs for one in schema.type_constraints if one.type_param_str == kind)
        words = {"float32": "tensor(float)", "float64": "tensor(double)"}
        pairs += [(name, dtype) for dtype in DTYPES if words.get(dtype, f"tensor({dtype})") in allowed]
    return pairs


@pytest.mark.parametrize(("name", "dtype"), defined())
def test_the_list_of_the_cpu_says_what_onnx_runtime_does(tmp_path: Path, name: str, dtype: str) -> None:
    import onnxruntime

    attributes: dict[str, Any] = {"fmod": 1} if name == "Mod" and "float" in dtype else {}
    made = model(name, DTYPES[dtype], SAMPLE[name], **attributes)
    if name == "CumSum":
        made.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
        made.graph.input[1].type.tensor_type.shape.ClearField("dim")
    if name == "Where":
        made.graph.input[0].type.tensor_type.elem_type = TensorProto.BOOL
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    onnx.save(made, tmp_path / "m.onnx")
    refusal = ""
    try:
        onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        refusal = str(error)
    assert not refusal or "NOT_IMPLEMENTED" in refusal
    assert why(made, "CPU")[0] is not bool(refusal)


def test_dtypes_follow_from_definitions() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["n"])
    nodes = [
        helper.make_node("Shape", ["x"], ["size"]),
        helper.make_node("Cast", ["size"], ["small"], to=TensorProto.INT32),
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("Constant", [], ["one"], value_int=1),
        helper.make_node("Add", ["size", "one"], ["more"]),
        helper.make_node("Less", ["small", "small"], ["flag"]),
        helper.make_node("Clip", ["x", "", "x"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")])
    found = typed_nodes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    outs = [slot.dtype for node in found for slot in node.outputs if slot is not None]
    assert outs == ["int64", "int32", "float32", "int64", "bool", "float16"]
    assert [node.name for node in found] == ["Shape", "Cast", "ConstantOfShape", "Add", "Less", "Clip"]
    assert found[-1].inputs[1] is None


def test_nodes_of_graphs_inside_nodes_count_and_a_function_of_the_file_is_not_known() -> None:
    inner = helper.make_graph([helper.make_node("Sin", ["x"], ["z"])], "then", [], [onnx.ValueInfoProto(name="z")])
    nodes = [
        helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner),
        helper.make_node("Mine", ["y"], ["out"], domain="mine"),
    ]
    ins = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    ins.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    graph = helper.make_graph(nodes, "g", ins, [onnx.ValueInfoProto(name="out")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)])
    cuda = of(placements(made), "CUDA")
    assert (cuda.nodes, cuda.taken) == (4, 2)
    reasons = [(group.operator, group.why) for group in cuda.unknown]
    assert reasons == [("If", "its dtype is not known"), ("Mine", "nothing defines it")]


def test_every_list_says_where_it_is_from_and_holds_operators() -> None:
    assert len({one.title for one in provider_lists()}) == len(ORDER)
    for one in provider_lists():
        assert one.source.repository.startswith("https://github.com/")
        assert len(one.source.commit) == 40
        assert one.source.paths
        assert len(one.source.date) == 10
        assert len(one.kernels["ai.onnx"]) >= 10
        dtypes = {
            dtype
            for names in one.kernels.values()
            for rows in names.values()
            for row in rows
            for dtype in row.dtypes or ()
        }
        assert all(dtypes), one.title


FORMS = ("rope-dynamic", "sinusoidal-baked", "alibi-dynamic", "xpos-dynamic", "sine_2d-baked", "mrope-dynamic")


@pytest.mark.parametrize("form", one_of_each(FORMS, lambda _: ""))
def test_the_list_of_webgpu_says_what_onnxruntime_web_does(tmp_path: Path, form: str) -> None:
    """The provider's own log names the nodes that it has no kernel for: the list must name them, and no others."""
    need("browser-webgpu")
    from helpers.webgpu_placement import left_by_webgpu

    files = [tmp_path / f"{form}-{dtype}" / "model.onnx" for dtype in ("int64", "int32")]
    for file in files:
        scheme, mode, dtype = file.parent.name.split("-")
        left(scheme, mode, dtype, tmp_path)
    (tmp_path / "served").mkdir()
    webgpu = next(one for one in provider_lists() if one.title == "WebGPU")
    for file, found in zip(files, left_by_webgpu(files, tmp_path / "served"), strict=True):
        nodes = zip(onnx.load(file).graph.node, typed_nodes(onnx.load(file)), strict=True)
        assert found == {node.name for node, typed in nodes if answer(webgpu, typed).taken is False}, file.parent.name


def test_the_table_of_the_page_is_what_lists_say_of_our_graphs(tmp_path: Path) -> None:
    names, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in part_of(PAGE, PART).splitlines()
        if line.startswith("|")
    ]
    table = {row[0]: dict(zip(names, row, strict=True)) for row in rows}
    assert set(table) == {f"{scheme} {mode}" for scheme, mode in forms()}
    for form in ("rope dynamic", "sinusoidal baked", "interpolated dynamic"):
        scheme, mode = form.split()
        assert table[form] == {"form": form, **cells(scheme, mode, tmp_path)}


# ---- what is printed -------------------------------------------------------------------------------------------------


def test_compat_says_what_each_provider_leaves(cli: Cli, tmp_path: Path) -> None:
    assert (
        cli("export", "rope", "--dynamic", "--positions", "explicit", "-f", "onnx", "-o", str(tmp_path / "b")).exit_code
        == 0
    )
    lines = cli("compat", str(tmp_path / "b"), "-v").output.splitlines()
    head = next(place for place, line in enumerate(lines) if "by execution provider" in line)
    assert "nothing was run" in lines[head]
    by_provider = dict(line.strip().split(": ", 1) for line in lines[head + 1 :])
    assert by_provider["CPU"] == by_provider["CUDA"] == "whole"
    assert "Mod x2" in by_provider["DirectML"]
    assert by_provider["XNNPACK"] == "none of the nodes"
    assert "(its list has no dtypes)" in by_provider["QNN"]
    data = json.loads(cli("compat", str(tmp_path / "b"), "--json").output)["providers"]
    assert [one["provider"] for one in data] == list(by_provider)
    by_name = {one["provider"]: one for one in data}
    assert (by_name["CUDA"]["verdict"], by_name["DirectML"]["verdict"]) == ("whole", "split")
    assert all(one["read_from"] == "list" and one["source"]["commit"] for one in data)
    for one in data:
        counts = [group["nodes"] for group in (*one["left"], *one["unknown"])]
        assert one["taken"] + sum(counts) == one["nodes"]


def test_a_dtype_without_kernels_on_the_cpu_is_said() -> None:
    """ONNX Runtime refuses a node of bfloat16 without a kernel on the CPU, and widens one of float16."""
    bf16, fp16 = (
        of(placements(model("Neg", dtype, 1)), "CPU") for dtype in (TensorProto.BFLOAT16, TensorProto.FLOAT16)
    )
    assert compat.placed(bf16) == "1 node without a kernel: Neg (bfloat16)"
    assert compat.placed(fp16) == "whole; 1 node of float16 in float32"


# ---- how lists are read ----------------------------------------------------------------------------------------------

KERNELS = """
## Operators implemented by OneExecutionProvider

| Op Name | Parameters | OpSet Version | Types Supported |
|---------|------------|---------------|-----------------|
|**Operator Domain:** *ai.onnx*||||
|Abs|*in* X:**T**<br> *out* Y:**T**|13+|**T** = tensor(double), tensor(float)|
|||[6, 12]|**T** = tensor(int8)|
|Cast|*in* input:**T1**<br> *out* output:**T2**|9|**T1** = tensor(bool)<br/> **T2** = tensor(uint8)|
|**Operator Domain:** *com.microsoft*||||
|Turn|*in* X:**T**<br> *in* ids:**tensor(int64)**<br> *out* Y:**T**|1+|**T** = tensor(float16)|

## Operators implemented by TwoExecutionProvider

|Abs|*in* X:**T**|1+|**T** = tensor(string)|
"""


def test_a_page_of_kernels_is_read() -> None:
    assert list(table_of_kernels(KERNELS, "OneExecutionProvider")) == [
        Kernel("ai.onnx", "Abs", 13, None, {"T": ("float32", "float64")}),
        Kernel("ai.onnx", "Abs", 6, 12, {"T": ("int8",)}),
        Kernel("ai.onnx", "Cast", 9, 9, {"T1": ("bool",), "T2": ("uint8",)}),
        Kernel("com.microsoft", "Turn", 1, None, {"T": ("float16",)}),
    ]
    assert signatures_of(KERNELS, "OneExecutionProvider") == {"Turn": (("T", "tensor(int64)"), ("T",))}


CODE = """
using Floats = TypeList<float, MLFloat16>;
inline const std::vector<MLDataType>& FloatTypes() {
  static const std::vector<MLDataType> types = BuildKernelDefConstraintsFromTypeList<Floats>();
  return types;
}
static std::vector<MLDataType> MoreTypes(bool enable_int64) {
  std::vector<MLDataType> types = FloatTypes();
  if (enable_int64) {
    types.push_back(DataTypeImpl::GetTensorType<int64_t>());
  }
  return types;
}
#define ROW(NAME, FROM) ONNX_OPERATOR_KERNEL_EX(NAME, kOnnxDomain, FROM, kOne, \\
    KernelDefBuilder().TypeConstraint("T", FloatTypes()), NAME);
ROW(Sin, 7)
ROW(Forgotten, 7)
ONNX_OPERATOR_VERSIONED_TYPED_KERNEL_EX(Clip, kOnnxDomain, 12, 12, int64_t, kOne,
    KernelDefBuilder().TypeConstraint("T", DataTypeImpl::GetTensorType<int64_t>()), Clip);
KernelCreateInfo CreateGatherKernelInfo(int since, bool enable_int64) {
  std::vector<MLDataType> types = MoreTypes(enable_int64);
  return {KernelDefBuilder().SetName("Gather").SinceVersion(since).TypeConstraint("T", std::move(types))
      .TypeConstraint("Tind", BuildKernelDefConstraintsFromTypeList<TypeList<int32_t, int64_t>>()).Build(), fn};
}
void Table() {
  BuildKernelCreateInfo<class ONNX_OPERATOR_KERNEL_CLASS_NAME(kOne, kOnnxDomain, 7, Sin)>,
  Register(CreateGatherKernelInfo(13, enable_int64));
  if (enable_int64) {
    Register(BuildKernelCreateInfo<
        ONNX_OPERATOR_VERSIONED_TYPED_KERNEL_CLASS_NAME(kOne, kOnnxDomain, 12, 12, int64_t, Clip)>());
  }
}
"""


def test_kernels_that_macros_and_functions_register_are_read() -> None:
    text = _expanded(MACROS, CODE)
    plain, wide = (sorted(registered(Sources((text,), int64)), key=str) for int64 in (False, True))
    sin = Kernel("ai.onnx", "Sin", 7, None, {"T": ("float16", "float32")})
    gather = {"T": ("float16", "float32"), "Tind": ("int32", "int64")}
    assert plain == [Kernel("ai.onnx", "Gather", 13, None, gather), sin]
    more = {**gather, "T": ("float16", "float32", "int64")}
    assert wide == [
        Kernel("ai.onnx", "Clip", 12, 12, {"T": ("int64",)}),
        Kernel("ai.onnx", "Gather", 13, None, more),
        sin,
    ]


def test_pages_of_other_providers_are_read() -> None:
    listed, last = tensorrt("supports opset 9 to opset 20.\n| Add | Y | FP32, INT64 |\n| Mod | N |\n| Odd | Y |\n")
    assert (list(listed), last) == (
        [Kernel("ai.onnx", "Add", 1, 20, {"*": ("float32", "int64")}), Kernel("ai.onnx", "Odd", 1, 20, None)],
        20,
    )
    assert list(webnn("| Add | ai.onnx(7-12, 14+) | add | |\n")) == [
        Kernel("ai.onnx", "Add", 7, 12, None),
        Kernel("ai.onnx", "Add", 14, None, None),
    ]
    text = """supported_op_mode = {
    {"Abs", V_1, {"CPU", "GPU"}},
    // {"Not", V_1, {"CPU"}},
    {"Sin", V_1, {"GPU"}},
};
supported_types_cpu_.insert(
  std::make_pair(V_1, ONNX::TensorProto_DataType::TensorProto_DataType_FLOAT));"""
    kernels, every = openvino(text, "CPU")
    assert ([kernel.name for kernel in kernels], every) == (["Abs"], ("float32", "int16", "uint16"))
