"""`posenc prove --model`: files of other exporters are held against a whole model, with its cache and its tokens."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import transformers
from onnx import ModelProto, helper, numpy_helper

from helpers.model_folders import MODELS
from helpers.shared import Cli, Once
from posenc_export.proof.foreign.continued import without_shared
from posenc_export.write.formats.onnx.foreign import read_foreign
from posenc_models import ModelFolder
from posenc_models.whole.modules import DecoderCall

HEADS, FEATURES = 2, 8


@pytest.fixture
def model(once: Once) -> Path:
    """The folder of a small Llama."""
    return once("model-llama", MODELS["llama"].save)


@pytest.fixture
def file(once: Once, model: Path) -> Path:
    """What transformers' own exporter makes of it: caches have other names than those of optimum."""

    def export(folder: Path) -> None:
        from transformers.exporters.configs import OnnxConfig
        from transformers.exporters.exporter_onnx import OnnxExporter

        llama = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        cache: Any = transformers.DynamicCache()
        for layer in range(2):
            cache.update(torch.randn(2, HEADS, 5, FEATURES), torch.randn(2, HEADS, 5, FEATURES), layer)
        inputs: dict[str, Any] = {
            "input_ids": torch.randint(0, 32, (2, 3)),
            "attention_mask": torch.ones(2, 8, dtype=torch.int64),
            "position_ids": torch.arange(5, 8).expand(2, 3).contiguous(),
            "past_key_values": cache,
            "use_cache": True,
        }
        OnnxExporter().export(llama, inputs, config=OnnxConfig(dynamic=True)).save_pretrained(folder / "written")

    return once("llama-of-transformers", export) / "written" / "model.onnx"


def test_exact_positions_are_not_asked_of_files(model: Path) -> None:
    """What a file is held against keeps the model's own rotary module: exporters write that."""
    folder = ModelFolder.load(model)
    names = {type(module).__name__ for module in replace(folder, exact=False).build().module.modules()}
    assert "LlamaRotaryEmbedding" in names
    assert "LlamaRotaryEmbedding" not in {type(module).__name__ for module in folder.build().module.modules()}


def test_a_file_is_held_against_one_thing(cli: Cli, model: Path) -> None:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])
    same = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [value], [same])
    for words, text in (
        (("--model", str(model), "--against", "rope"), "--against and --model both say what the file is to be"),
        (("--task", "fill-mask", "--against", "rope"), "--task says what a whole model is for: give --model with it"),
        (("--model", str(model), "-p", "a=1"), "-p is not for whole models"),
        (("--model", str(model), "--task", "fill-mask"), "transformers has no model for fill-mask"),
    ):
        path = Path("some.onnx")
        onnx.save(helper.make_model(graph), path)
        result = cli("prove", str(path), *words)
        assert (result.exit_code, text in result.output) == (2, True), result.output


def report_of(cli: Cli, file: Path, model: Path) -> tuple[int, dict[tuple[str, str], str]]:
    """Prove a file; return the exit status, and what came of each check."""
    result = cli("prove", str(file), "--model", str(model), "--runtime", "ort-cpu", "--json")
    assert result.exit_code in (0, 1), result.output
    report = json.loads(result.stdout)
    return result.exit_code, {(row["subject"], row["check"]): row["status"] for row in report["verdicts"]}


@pytest.mark.exhaustive  # an export and a proof take a minute
def test_what_transformers_exports_is_certified(cli: Cli, file: Path, model: Path) -> None:
    status, checks = report_of(cli, file, model)
    assert (status, checks["ort-cpu", "agrees"], checks["ort-cpu", "generation"]) == (0, "pass", "pass")


def behind(model: ModelProto, name: str, operator: str, number: float) -> None:
    """Let a graph compute with an input and a number in the place of the input."""
    dtype = next(value.type.tensor_type.elem_type for value in model.graph.input if value.name == name)
    constant = numpy_helper.from_array(helper.tensor_dtype_to_np_dtype(dtype).type(number), "number")
    for node in model.graph.node:
        node.input[:] = ["changed" if one == name else one for one in node.input]
    model.graph.initializer.append(constant)
    model.graph.node.insert(0, helper.make_node(operator, [name, "number"], ["changed"]))


FAULTS: dict[str, Callable[[ModelProto], None]] = {
    "the mask is not read": lambda model: behind(model, "attention_mask", "Max", 1),
    "positions go half as fast": lambda model: behind(model, "position_ids", "Div", 2),
    "positions end at 99": lambda model: behind(model, "position_ids", "Min", 99),
    "keys of a layer are not read": lambda model: behind(model, "input.past_key_values.layers.1.keys", "Mul", 0.0),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_files_are_refused(cli: Cli, file: Path, model: Path, fault: str) -> None:
    wrong = onnx.load(file)
    FAULTS[fault](wrong)
    onnx.save(wrong, "wrong.onnx")
    status, checks = report_of(cli, Path("wrong.onnx"), model)
    assert (status, checks["ort-cpu", "agrees"]) == (1, "fail")
    assert checks["ort-cpu", "generation"] == "fail"


@pytest.mark.exhaustive
def test_frozen_frequencies_are_found_beyond_the_context(cli: Cli, file: Path, model: Path, tmp_path: Path) -> None:
    """With dynamic NTK, frequencies change only in calls that go beyond `max_position_embeddings`."""
    dynamic = tmp_path / "dynamic"
    shutil.copytree(model, dynamic)
    config = json.loads((dynamic / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
    (dynamic / "config.json").write_text(json.dumps(config))
    status, checks = report_of(cli, file, dynamic)
    assert (status, checks["ort-cpu", "agrees"]) == (1, "fail")


def test_a_model_with_dynamic_ntk_keeps_nothing_of_a_call(model: Path, tmp_path: Path) -> None:
    dynamic = tmp_path / "dynamic"
    shutil.copytree(model, dynamic)
    config = json.loads((dynamic / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
    (dynamic / "config.json").write_text(json.dumps(config))
    limit = config["max_position_embeddings"]
    theirs = replace(ModelFolder.load(dynamic), exact=False).build()
    ours = ModelFolder.load(dynamic).build()
    assert f"position_ids: int64[batch_size, seq] positions < {4 * limit}" in theirs.inputs

    def logits(module: torch.nn.Module, first: int) -> torch.Tensor:
        past = [torch.linspace(-1, 1, HEADS * 3 * FEATURES).reshape(1, HEADS, 3, FEATURES)] * 4
        mask, positions = torch.ones(1, 5, dtype=torch.int64), torch.tensor([[first, first + 1]])
        with torch.no_grad():
            first_of_outputs: torch.Tensor = module(torch.tensor([[5, 9]]), mask, positions, *past)[0]
        return first_of_outputs

    for first in (2 * limit, 7, 3 * limit, limit + 1, limit - 2):
        torch.testing.assert_close(logits(theirs.module, first), logits(ours.module, first), rtol=0, atol=2e-4)


DYNAMIC: dict[str, Any] = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
OF_LAYERS = {"sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0}, "full_attention": DYNAMIC}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("phi3", {}),
        ("gemma3_text", {"max_position_embeddings": 32, "rope_parameters": OF_LAYERS}),
        ("llama", {"max_position_embeddings": 32, "rope_parameters": DYNAMIC}),
    ],
)
def test_a_short_call_is_the_same_behind_a_long_one(kind: str, said: dict[str, Any]) -> None:
    """Rotary modules that change their frequencies by the length of a call keep those of the call before."""
    config = transformers.AutoConfig.for_model(kind, **{**MODELS[kind].config, **said})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    module = DecoderCall(model, ("input_ids",))

    def logits(length: int) -> torch.Tensor:
        with torch.no_grad():
            past = [torch.zeros(1, HEADS, 0, FEATURES)] * 4
            found: torch.Tensor = module(torch.arange(length)[None] % 30, *past)[0]
        return found

    first = logits(5)
    long = logits(100)
    assert torch.equal(logits(5), first)
    assert torch.equal(logits(100), long)
    # a cheap model of two layers says other things where all its frequencies change
    assert not torch.allclose(long[:, :5], first, atol=1e-6)


@pytest.mark.exhaustive  # an export and a proof take a minute
def test_our_own_file_of_a_model_with_longrope_is_certified(cli: Cli, once: Once) -> None:
    """The proof goes beyond the 64 tokens at which its frequencies change, and comes back."""
    model = once("model-phi3", MODELS["phi3"].save)
    words = ("--proof", "quick", "--runtime", "ort-cpu")
    assert cli("export", "--model", str(model), "-f", "onnx", *words, "-o", "phi").exit_code == 0
    result = cli("prove", "phi/model.onnx", "--model", str(model), *words)
    assert (result.exit_code, result.output.startswith("passed")) == (0, True), result.output


def without_positions(file: Path, of_mask: bool) -> ModelProto:
    """Return a graph that counts its positions itself, from the mask or from the length of the cache."""
    model = onnx.load(file)
    graph = model.graph
    del graph.input[next(i for i, value in enumerate(graph.input) if value.name == "position_ids")]
    numbers = {"c_0": [0], "c_1": [1], "c_end": [2**31], "c_axis": 1, "c_one": 1, "c_none": 0}
    for name, number in numbers.items():
        graph.initializer.append(numpy_helper.from_array(np.array(number, np.int64), name))
    length = [
        helper.make_node("Shape", ["input_ids"], ["c_seq"], start=1, end=2),
        helper.make_node("Neg", ["c_seq"], ["c_first"]),
    ]
    if of_mask:
        counting = [
            helper.make_node("CumSum", ["attention_mask", "c_axis"], ["c_sum"]),
            helper.make_node("Sub", ["c_sum", "c_one"], ["c_less"]),
            helper.make_node("Max", ["c_less", "c_none"], ["c_every"]),
        ]
    else:
        counting = [
            helper.make_node("Shape", ["attention_mask"], ["c_shape"]),
            helper.make_node("Shape", ["attention_mask"], ["c_total"], start=1, end=2),
            helper.make_node("Squeeze", ["c_total"], ["c_count"]),
            helper.make_node("Range", ["c_none", "c_count", "c_one"], ["c_range"]),
            helper.make_node("Expand", ["c_range", "c_shape"], ["c_every"]),
        ]
    cut = helper.make_node("Slice", ["c_every", "c_first", "c_end", "c_1"], ["position_ids"])
    nodes = [*length, *counting, cut, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def test_positions_that_a_module_counts_are_those_that_generate_gives(model: Path) -> None:
    """On the left, padding is not counted; behind a cache, what that has is."""
    given, counted = (
        replace(ModelFolder.load(model), exact=False, counts_positions=is_counted).build()
        for is_counted in (False, True)
    )
    assert [text.partition(":")[0] for text in counted.inputs[:2]] == ["input_ids", "attention_mask"]
    assert any("count the tokens that the mask leaves in" in note for note in counted.notes)
    past = [torch.randn(2, HEADS, 3, FEATURES) for _ in range(4)]
    ids, mask = torch.tensor([[5, 9], [7, 3]]), torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    with torch.no_grad():
        expected = given.module(ids, mask, torch.tensor([[3, 4], [1, 2]]), *past)
        actual = counted.module(ids, mask, *past)
    assert all(map(torch.equal, actual, expected))


@pytest.mark.exhaustive  # a proof each
@pytest.mark.parametrize("of_mask", [True, False])
def test_a_file_without_positions_counts_them_from_its_mask(
    cli: Cli, file: Path, model: Path, tmp_path: Path, of_mask: bool
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(without_positions(file, of_mask), path)
    words = ("--model", str(model), "--proof", "quick", "--runtime", "ort-cpu")
    result = cli("prove", str(path), *words)
    assert result.exit_code == int(not of_mask), result.output
    assert "note: no positions go in: they count the tokens that the mask leaves in" in result.output
    assert of_mask or "padded-left" in result.output


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", [-1, 0])
def test_logits_of_the_last_token_alone_are_proved(
    cli: Cli, file: Path, model: Path, tmp_path: Path, place: int
) -> None:
    """Builders cut the others off before the head, which is most of the work of a prompt."""
    graph = onnx.load(file)
    (logits,) = [value for value in graph.graph.output if value.name == "logits"]
    for node in graph.graph.node:
        node.output[:] = ["every" if name == "logits" else name for name in node.output]
    for name, number in {"c_place": [place], "c_1": [1]}.items():
        graph.graph.initializer.append(numpy_helper.from_array(np.array(number, np.int64), name))
    graph.graph.node.append(helper.make_node("Gather", ["every", "c_place"], ["logits"], axis=1))
    logits.type.tensor_type.shape.dim[1].CopyFrom(onnx.TensorShapeProto.Dimension(dim_value=1))
    path = tmp_path / "model.onnx"
    onnx.save(graph, path)
    result = cli("prove", str(path), "--model", str(model), "--proof", "quick", "--runtime", "ort-cpu")
    assert result.exit_code == int(place != -1), result.output
    assert "note: logits are those of the last token alone" in result.output


NAMES = {"optimum": ("past_key_values.{}.{}", "present.{}.{}"), "builders": ("past_{}.{}", "present_{}.{}")}
"""What exporters call caches before a call and after it."""


def with_caches(graph: ModelProto, layers: Sequence[int], names: tuple[str, str], *, read: bool = False) -> ModelProto:
    """Return a graph with caches of more layers: nothing reads them, or each is what comes out of its layer."""
    before, after = names
    for layer in layers:
        for half in ("key", "value"):
            value = helper.make_tensor_value_info(before.format(layer, half), onnx.TensorProto.FLOAT, [1, 1, "past", 4])
            graph.graph.input.append(value)
            given = before.format(layer, half) if read else graph.graph.input[0].name
            graph.graph.node.append(helper.make_node("Identity", [given], [after.format(layer, half)]))
            out = helper.make_tensor_value_info(after.format(layer, half), onnx.TensorProto.FLOAT, [1, 1, "all", 4])
            graph.graph.output.append(out)
    return graph


def target_of(layers: int, registered: bool = False) -> Any:
    """Return what is asked of a target here: the names of its inputs, and whether it is a scheme."""
    caches = [f"past_key_values.{layer}.{half}" for layer in range(layers) for half in ("key", "value")]
    ports = [SimpleNamespace(name=name) for name in ("input_ids", *caches)]
    return SimpleNamespace(encoding=SimpleNamespace(inputs=ports), rules=SimpleNamespace(registered=registered))


@pytest.mark.parametrize("names", NAMES)
def test_caches_of_layers_that_share_keys_are_left_out(tmp_path: Path, names: str) -> None:
    """Of three layers, the last shares the keys of another: the model has caches of two."""
    shape: list[str | int | None] = [1, 1, "past", 4]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("input_ids", "logits"))
    for read in (False, True):
        whole = helper.make_model(
            helper.make_graph([helper.make_node("Abs", ["input_ids"], ["logits"])], "g", [x], [y])
        )
        with_caches(whole, (0, 1), NAMES[names], read=True)
        onnx.save(with_caches(whole, (2,), NAMES[names], read=read), tmp_path / "model.onnx")
        file = read_foreign(tmp_path / "model.onnx")
        kept, left = without_shared(file, target_of(2), {})
        before, after = ([name.format(2, half) for half in ("key", "value")] for name in NAMES[names])
        # what a node reads is a cache of its own: it stays, and is refused
        assert [value.name for value in left] == ([] if read else before) + after
        assert {value.name for value in kept.inputs} == {v.name for v in file.inputs} - set([] if read else before)
        # a target with as many caches, a scheme, and a name that the user gives leave the file as it is
        assert without_shared(file, target_of(3), {}) == (file, ())
        assert without_shared(file, target_of(2, registered=True), {}) == (file, ())
        named = dict.fromkeys((*before, *after), "x")
        assert without_shared(file, target_of(2), named)[1] == ()


@pytest.mark.exhaustive  # an export and a proof
@pytest.mark.parametrize("kind", ["gemma3n_text", "gemma4_text"])
def test_a_file_with_caches_of_layers_that_share_keys_is_proved(
    cli: Cli, once: Once, tmp_path: Path, kind: str
) -> None:
    folder = once(f"model-{kind}", MODELS[kind].save)
    written = cli("export", "--model", str(folder), "-o", str(tmp_path / "written"), "--no-validate")
    assert written.exit_code == 0, written.output
    graph = onnx.load(tmp_path / "written" / "model.onnx")
    for layer in (2, 3):
        for half in ("key", "value"):
            value = next(v for v in graph.graph.input if v.name == f"past_key_values.0.{half}")
            spare = graph.graph.input.add()
            spare.CopyFrom(value)
            spare.name = f"past_key_values.{layer}.{half}"
    onnx.save(graph, tmp_path / "model.onnx")
    words = ("--model", str(folder), "--proof", "quick", "--runtime", "ort-cpu")
    result = cli("prove", str(tmp_path / "model.onnx"), *words)
    assert result.exit_code == 0, result.output
    assert "past_key_values.3.value: the model's layers of these numbers have no cache" in result.output
