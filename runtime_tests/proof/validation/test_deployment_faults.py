"""What goes wrong with rotary in deployment: each line of the page's table, made in a real file, is refused."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

import posenc
import posenc_export
from helpers.rotary_files import BAKED, CACHE, SMALL, cached, change_cache, made, under_the_name_of
from helpers.shared import ROOT, Cli
from helpers.stored import change_graph, put_right
from posenc.parameters import Value
from posenc.spec import Spec
from posenc_export.write.formats import safetensors_file
from posenc_models import read_config

PAGE = (ROOT / "docs" / "explanation" / "rotary-in-deployment.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| ([^|]+?) \| [^|]+ \| `([^|`]+)` \|$", PAGE.partition("## What goes wrong")[2], re.MULTILINE)
"""The lines of the table: what goes wrong, and what the tool says."""
YARN: dict[str, Value] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LONG: dict[str, Value] = {
    **{"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 32},
    **{"short_factor": (1.0,) * 8, "long_factor": (2.0,) * 8},
}
GEMMA: dict[str, Any] = {
    **{"model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 16, "hidden_size": 64},
    **{"num_attention_heads": 4, "max_position_embeddings": 70},
}
LLAMA: dict[str, Any] = {
    **{"model_type": "llama", "num_hidden_layers": 2, "head_dim": 16, "hidden_size": 64},
    **{"num_attention_heads": 4, "max_position_embeddings": 70, "rope_theta": 10000.0},
}
Refused = Callable[[Path], None]


class TwoBases(nn.Module):
    """The cosines of layers that see a window, and of those that see all: two tables, two bases."""

    def __init__(self) -> None:
        super().__init__()
        settings = {**SMALL, "output": "cos_sin"}
        self.local = posenc.build("rope", BAKED, **settings, rope_theta=1e4).module
        self.whole = posenc.build("rope", BAKED, **settings, rope_theta=1e6).module

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        local: Tensor = self.local(positions)[0]
        whole: Tensor = self.whole(positions)[0]
        return local, whole


def name_of(line: str) -> str:
    """Return the name of the test of a line."""
    return "test_" + re.sub(r"\W+", "_", line.lower()).strip("_")


@pytest.fixture
def refused(request: pytest.FixtureRequest, cli: Cli) -> Refused:
    """Return what asserts that `posenc validate` refuses a folder in the words that the page quotes of this line."""
    message = {name_of(line): words for line, words in LINES}[request.node.originalname]

    def check(folder: Path) -> None:
        runtime = "numpy-cache" if (folder / CACHE).exists() else "ort-cpu"
        result = cli("validate", str(folder), "--runtime", runtime)
        assert result.exit_code == 1, result.output
        assert message in " ".join(result.output.split()), result.output

    return check


@pytest.mark.exhaustive
def test_two_bases_merged_by_an_optimizer(tmp_path: Path, refused: Refused) -> None:
    inputs, folder = ["positions: int64[batch, seq] < 70"], tmp_path / "both"
    posenc_export.export(TwoBases(), inputs=inputs, to=folder, formats=["onnx"], validate=False, max_len=70)

    def merge(model: onnx.ModelProto) -> None:
        tables = [t.name for t in model.graph.initializer if numpy_helper.to_array(t).shape == (70, 16)]
        assert len(tables) == 2
        for node in model.graph.node:
            node.input[:] = [tables[0] if name in tables else name for name in node.input]

    change_graph(folder, merge)
    refused(folder)


@pytest.mark.parametrize("kind", [YARN, LONG], ids=["yarn", "longrope"])
def test_attention_factor_missing(tmp_path: Path, refused: Refused, kind: dict[str, Value]) -> None:
    folder = cached(tmp_path, kind)
    factor = safetensors_file.read(folder / CACHE)["cos_cache"][0, 0]
    assert factor > 1  # the cosine of position 0 is the factor
    change_cache(folder, lambda _, array: array / factor)
    refused(folder)


def test_pairing_swapped(tmp_path: Path, refused: Refused) -> None:
    folder = made(tmp_path, {}, rotary_op="microsoft")

    def swap(model: onnx.ModelProto) -> None:
        flags = [a for node in model.graph.node for a in node.attribute if a.name == "interleaved"]
        assert len(flags) == 2
        for flag in flags:
            flag.i = 1 - flag.i

    change_graph(folder, swap)
    refused(folder)


def test_truncate_of_yarn_ignored(tmp_path: Path, refused: Refused) -> None:
    folder = cached(tmp_path / "exact", {**YARN, "truncate": False})
    other = safetensors_file.read(cached(tmp_path / "rounded", {**YARN, "truncate": True}) / CACHE)
    change_cache(folder, lambda name, _: other[name])
    refused(folder)


@pytest.mark.exhaustive
def test_positions_in_half_precision(tmp_path: Path, refused: Refused) -> None:
    folder = made(tmp_path, {}, Spec("dynamic", "trig", "explicit", 4096))

    def narrow(model: onnx.ModelProto) -> None:
        at, cast = next((i, node) for i, node in enumerate(model.graph.node) if node.op_type == "Cast")
        floats = cast.output[0]
        cast.output[0] = "whole"
        steps = (("whole", "half", TensorProto.FLOAT16), ("half", floats, TensorProto.FLOAT))
        for i, (taken, given_out, kind) in enumerate(steps):
            model.graph.node.insert(at + 1 + i, helper.make_node("Cast", [taken], [given_out], to=kind))

    change_graph(folder, narrow)
    refused(folder)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
def test_length_baked_in_by_tracing(tmp_path: Path, refused: Refused) -> None:
    folder = made(tmp_path, {})
    heads, positions = torch.zeros(1, 2, 8, 16), torch.arange(8)[None]
    # only the batch is named as an axis that changes
    axes = {"q": {0: "batch", 1: "head"}, "k": {0: "batch", 1: "head_kv"}, "positions": {0: "batch"}}
    module, to = posenc.build("rope", BAKED, **SMALL).module, tmp_path / "traced.onnx"
    torch.onnx.export(
        module,
        (heads, heads, positions),
        to,
        input_names=list(axes),
        output_names=["q_rotated", "k_rotated"],
        dynamic_axes=axes,
        dynamo=False,
        opset_version=18,
    )
    under_the_name_of(folder, to)
    refused(folder)


def test_partial_width_wrong(tmp_path: Path, refused: Refused) -> None:
    folder = cached(tmp_path / "part", {"rotary_dim": 8})
    other = safetensors_file.read(cached(tmp_path / "whole", {}) / CACHE)
    change_cache(folder, lambda name, _: other[name])
    refused(folder)


def test_base_of_another_layer_type(tmp_path: Path, refused: Refused) -> None:
    readings = {kind: read_config(GEMMA, kind) for kind in ("full_attention", "sliding_attention")}
    bases = {kind: reading.parameters["rope_theta"] for kind, reading in readings.items()}
    assert bases == {"full_attention": 1e6, "sliding_attention": 1e4}
    whole, local = (cached(tmp_path / kind, {"rope_theta": theta}) for kind, theta in bases.items())
    shutil.copy(local / CACHE, whole / CACHE)
    put_right(whole, CACHE)
    refused(whole)


def test_positions_counted_from_the_padding(tmp_path: Path, refused: Refused) -> None:
    folder = made(tmp_path, {"output": "cos_sin"}, Spec("baked", "exact", "mask", 70))

    def count_all(model: onnx.ModelProto) -> None:
        at, total = next((i, node) for i, node in enumerate(model.graph.node) if node.op_type == "CumSum")
        mask = total.input[0]
        # every token counts, those of the padding too
        model.graph.node.insert(at, helper.make_node("Equal", [mask, mask], ["is_token"]))
        model.graph.node.insert(at + 1, helper.make_node("Cast", ["is_token"], ["tokens"], to=TensorProto.INT64))
        total.input[0] = "tokens"

    change_graph(folder, count_all)
    refused(folder)


def test_cache_shorter_than_the_model(tmp_path: Path, refused: Refused) -> None:
    folder = cached(tmp_path, {})
    change_cache(folder, lambda _, array: array[:64])
    refused(folder)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", ["layout=interleaved", "rotary_dim=8"])
def test_the_model_itself_tells_what_it_does_not_do(tmp_path: Path, cli: Cli, fault: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    words = ["--from-hf", "config.json", "--baked", "-f", "onnx", "--runtime", "ort-cpu", "-o", "wrong"]
    result = cli("export", *words, "-p", fault)
    assert result.exit_code == 1, result.output
    assert "PE114 ort-cpu model: against transformers" in result.output
    if fault.startswith("layout"):
        told = "the model agrees with -p layout=halves"
        assert told in result.output
        assert told in PAGE


def test_a_file_that_is_whole_passes(tmp_path: Path, cli: Cli) -> None:
    folder = cached(tmp_path, YARN)
    change_cache(folder, lambda _, array: array)
    result = cli("validate", str(folder), "--runtime", "numpy-cache")
    assert result.exit_code == 0, result.output


def test_every_line_of_the_table_has_a_test_and_a_message() -> None:
    assert all(re.match(r"PE\d{3} \S+ [\w-]+: .{15}", message) for _, message in LINES)
    lines = [name_of(line) for line, _ in LINES]
    assert len(lines) >= 10
    tests = [name for name, value in globals().items() if callable(value) and "refused" in parameters_of(value)]
    assert sorted(lines) == sorted(tests)


def parameters_of(test: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a test's arguments."""
    code = getattr(test, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]
