"""`--attention-op microsoft`: what GroupQueryAttention computes is what the plain file computes, and is proved."""

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from helpers.fused_files import Pair, attributes_of, session_of, write_pair
from helpers.model_folders import MODELS, saved
from helpers.shared import Once
from posenc_export import export, load, prove
from posenc_export.bundle.decoders import IN_PLACE, ONE_TEXT
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.caches_in_place import CachesInPlace
from posenc_export.proof.exporter.options import ExportOptions, check_options
from posenc_export.proof.runtimes import RunFailed
from posenc_export.write.inputs.ports import parse_ports
from posenc_models import ModelFolder

CLOSE = 1e-5
"""A share of the largest number: the same products in another order."""


def pair_of(once: Once, title: str) -> Pair:
    def fill(folder: Path) -> None:
        pair = write_pair(saved(once, title), folder)
        (folder / "notes.json").write_text(json.dumps(pair.notes))

    folder = once(f"fused {title}", fill)
    ports = parse_ports(ModelFolder.load(saved(once, title)).build(trial=False).inputs)
    notes = tuple(json.loads((folder / "notes.json").read_text()))
    return Pair(ports, folder / "plain.onnx", folder / "fused.onnx", notes)


def test_a_llama_in_one_operator_a_layer(once: Once) -> None:
    """Also with padding on both sides, in a first call and behind a cache."""
    pair = pair_of(once, "llama")
    assert max(pair.differences().values()) < CLOSE
    operators = pair.operators()
    assert (operators["GroupQueryAttention"], operators["RotaryEmbedding"], operators["Softmax"]) == (2, 4, 0)
    assert operators["SkipSimplifiedLayerNormalization"] == 4
    assert sum(operators.values()) < 60  # the plain file has 230
    assert "GroupQueryAttention computes 2 of 2 attentions" in pair.notes
    assert {ONE_TEXT, IN_PLACE} <= set(pair.notes)


def test_past_and_present_share_a_buffer(once: Once) -> None:
    """A step writes its row behind those that are there, and gives the bits of a call with a cache of its own."""
    pair = pair_of(once, "llama")
    session = session_of(pair.fused)
    for call in ((1, 1, 9, "none"), (3, 1, 5, "left"), (2, 6, 0, "right")):
        feeds = pair.feeds(call)
        apart = dict(zip([each.name for each in session.get_outputs()], session.run(None, dict(feeds)), strict=True))
        binding, total = session.io_binding(), call[1] + call[2]
        buffers: dict[str, onnxruntime.OrtValue] = {}
        for name, array in feeds.items():
            if name.startswith("past"):
                room = np.full((*array.shape[:2], total + 7, array.shape[3]), np.nan, array.dtype)
                room[:, :, : call[2]] = array
                buffer = onnxruntime.OrtValue.ortvalue_from_numpy(room)
                buffers[name.replace("past_key_values", "present")] = buffer
                binding.bind_ortvalue_input(name, buffer)
                binding.bind_ortvalue_output(name.replace("past_key_values", "present"), buffer)
            else:
                binding.bind_cpu_input(name, array)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.get_outputs()[-1].numpy(), apart["logits"])
        for name, buffer in buffers.items():
            np.testing.assert_array_equal(buffer.numpy()[:, :, :total], apart[name])


def test_what_the_operator_refuses_is_refused(once: Once) -> None:
    pair = pair_of(once, "llama")
    session = session_of(pair.fused)
    with pytest.raises(Exception, match="batch_size must be 1"):
        session.run(None, pair.feeds((2, 3, 4, "none")))
    short = pair.feeds((1, 1, 9, "none"))
    caches = {name: array[:, :, :5] if name.startswith("past") else array for name, array in short.items()}
    with pytest.raises(Exception, match=r"total_sequence_length|requires 9 past"):
        session.run(None, caches)
    beyond = dict(short)
    beyond["position_ids"] = short["position_ids"] + 10**6
    with pytest.raises(Exception, match="out of range"):
        session.run(None, beyond)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("gemma2", {"softcap": 50.0, "local_window_size": 16}),
        ("gpt_oss", {"local_window_size": 16}),
        ("mistral", {"local_window_size": 16}),
        ("phi3", {}),
        ("cohere2", {"local_window_size": 16}),
        ("glm4", {}),
        ("mpt", {}),
        ("gpt_neox", {}),
        ("granite_swa", {"local_window_size": 16}),
    ],
)
def test_what_models_do_otherwise(once: Once, title: str, expected: Mapping[str, float]) -> None:
    """Ceilings, sinks, windows, longrope, neighbours, part of a head, ALiBi, and a mask that reads a cache's size."""
    pair = pair_of(once, title)
    assert max(pair.differences().values()) < CLOSE
    nodes = attributes_of(pair.fused, "GroupQueryAttention")
    assert len(nodes) == 2
    for name, value in expected.items():
        assert value in [node.get(name) for node in nodes]
    if title == "gpt_oss":
        fused = onnx.load(pair.fused)
        assert all(node.input[11] for node in fused.graph.node if node.op_type == "GroupQueryAttention")


@pytest.mark.exhaustive
def test_a_model_without_such_an_attention_says_why(once: Once, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no attention becomes one operator: 2 of 2 attentions keep plain operators"):
        write_pair(saved(once, "deepseek_v3"), tmp_path)


def proved(folder: Path, once: Once) -> None:
    model = ModelFolder.load(saved(once, "llama"))
    result = export(model, to=folder / "fused", formats=("onnx",), attention_op="microsoft", proof="quick")
    assert result.passed


@pytest.fixture
def bundle(once: Once) -> Path:
    return once("a fused llama, proved", lambda folder: proved(folder, once)) / "fused"


@pytest.mark.exhaustive
def test_the_proof_tries_the_contract(bundle: Path) -> None:
    """Several texts are tried as a first call; behind a cache, several tokens of theirs must be refused."""
    manifest = Bundle.open(bundle).manifest
    assert manifest.attention_op == "microsoft"
    assert manifest.loads_on == "ONNX Runtime >= 1.28"
    sizes = [(case.sizes["batch_size"], case.sizes["seq"], case.sizes["past"], case.refused) for case in manifest.cases]
    assert any(batch > 1 and seq > 1 and past == 0 and not refused for batch, seq, past, refused in sizes)
    assert any(batch > 1 and seq > 1 and past > 0 and refused for batch, seq, past, refused in sizes)
    assert not any(batch > 1 and seq > 1 and past > 0 and not refused for batch, seq, past, refused in sizes)


Change = Callable[[onnx.ModelProto], None]


def nodes_of(model: onnx.ModelProto, operator: str = "GroupQueryAttention") -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == operator]


def with_attribute(operator: str, name: str, value: float) -> Change:
    """Set an attribute of the last node of an operator."""

    def change(model: onnx.ModelProto) -> None:
        node = nodes_of(model, operator)[-1]
        for each in [each for each in node.attribute if each.name == name]:
            node.attribute.remove(each)
        node.attribute.append(onnx.helper.make_attribute(name, value))

    return change


def without_bias(model: onnx.ModelProto) -> None:
    for node in nodes_of(model):
        node.input[10] = ""


def with_other_angles(model: onnx.ModelProto) -> None:
    (tensor,) = (each for each in model.graph.initializer if each.name == "sin_cache")
    rows = numpy_helper.to_array(tensor).copy()
    rows[:, 1:] = rows[:, :-1]
    tensor.CopyFrom(numpy_helper.from_array(rows, tensor.name))


def with_another_cache(model: onnx.ModelProto) -> None:
    one, other = nodes_of(model)
    one.input[3], other.input[3] = other.input[3], one.input[3]


BROKEN: Mapping[str, Change] = {
    "scaled twice": with_attribute("GroupQueryAttention", "scale", 0.125),
    "a window": with_attribute("GroupQueryAttention", "local_window_size", 7),
    "a ceiling": with_attribute("GroupQueryAttention", "softcap", 2.0),
    "neighbours turned": with_attribute("RotaryEmbedding", "interleaved", 1),
    "an epsilon": with_attribute("SkipSimplifiedLayerNormalization", "epsilon", 0.1),
    "no padding hidden": without_bias,
    "angles of another base": with_other_angles,
    "the cache of another layer": with_another_cache,
}


@pytest.mark.exhaustive
def test_the_right_file_is_proved_as_a_file_of_others(bundle: Path, once: Once) -> None:
    result = prove(bundle / "model.onnx", ModelFolder.load(saved(once, "llama")), **QUICK)
    assert result.passed


QUICK: Mapping[str, Any] = {"proof": "quick", "runtimes": ("ort-cpu",)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", BROKEN)
def test_wrong_fused_files_are_found(bundle: Path, once: Once, tmp_path: Path, how: str) -> None:
    model = onnx.load(bundle / "model.onnx")
    before = model.SerializeToString()
    BROKEN[how](model)
    assert model.SerializeToString() != before
    onnx.save(model, tmp_path / "broken.onnx")
    result = prove(tmp_path / "broken.onnx", ModelFolder.load(saved(once, "llama")), **QUICK)
    assert not result.passed


@pytest.mark.exhaustive
def test_a_model_writes_its_texts_in_place(bundle: Path, once: Once) -> None:
    """Longer than its first buffer, in a padded batch, and beside another text of the same model."""
    model, plain = load(bundle), load(once("a plain llama", lambda folder: write_plain(folder, once)) / "plain")
    assert isinstance(model.call, CachesInPlace)
    prompts = [[5, 9, 2, 7], [3], [1] * 9]
    assert model.generate(prompts, max_new_tokens=40) == plain.generate(prompts, max_new_tokens=40)
    with ThreadPoolExecutor(2) as pool:
        written = list(pool.map(lambda prompt: model.generate(prompt, max_new_tokens=40), prompts))
    assert written == [plain.generate(prompt, max_new_tokens=40) for prompt in prompts]


@pytest.mark.exhaustive
def test_a_text_in_place_is_rewound_and_copied(bundle: Path, once: Once) -> None:
    """A copy keeps its rows when the text that it was made of writes others into the same buffer."""
    model, plain = load(bundle), load(once("a plain llama", lambda folder: write_plain(folder, once)) / "plain")
    texts = [each.begin() for each in (model, plain)]
    first, expected = (text.read([5, 9, 2, 7, 7, 1]) for text in texts)
    assert np.abs(first - expected).max() < 1e-5
    copies = [text.copy() for text in texts]
    for text in texts:
        text.rewind(2)
    for some in (texts, copies, texts, copies):
        given, right = (text.read([3, 8, 8]) for text in some)
        assert np.abs(given - right).max() < 1e-5
    assert len(copies[0]) == 12
    with pytest.raises(RunFailed):
        texts[0].read([5] * 9000)
    assert len(texts[0]) == 8
    assert np.abs(texts[0].read([6]) - texts[1].read([6])).max() < 1e-5


def write_plain(folder: Path, once: Once) -> None:
    model = ModelFolder.load(saved(once, "llama"))
    export(model, to=folder / "plain", formats=("onnx",), proof="quick", runtimes=("ort-cpu",))


class WithoutCache(nn.Module):
    """Attention of nothing that is cached."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x)


class WithAnyMask(nn.Module):
    """Attention behind a cache, whose mask says all itself."""

    def forward(self, x: Tensor, mask: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        heads = x.view(x.shape[0], x.shape[1], 2, 8).transpose(1, 2)
        key, value = (torch.cat([past, heads], 2) for past in (key, value))
        y = functional.scaled_dot_product_attention(heads, key, value, attn_mask=mask)
        return y.transpose(1, 2).flatten(2), key, value


CACHES = [f"past.{half}: float32[batch, 2, past, 8]" for half in ("key", "value")]


@pytest.mark.parametrize(
    ("module", "inputs", "why"),
    [
        (WithoutCache, ["x: float32[batch, 2, seq, 8]"], "it has no caches, (batch, heads, tokens, features)"),
        (
            WithAnyMask,
            ["x: float32[batch, seq, 16]", "mask: bool[batch, 1, seq, past+seq]", *CACHES],
            "no input is a mask of all tokens, cached and new, (batch, tokens)",
        ),
    ],
)
def test_modules_without_what_the_operator_takes_are_refused(
    tmp_path: Path, module: type[nn.Module], inputs: list[str], why: str
) -> None:
    options = ExportOptions(("onnx",), validate=False, attention_op="microsoft")
    with pytest.raises(BadInput, match=re.escape(f"no attention becomes one operator: {why}")):
        export(module(), inputs=inputs, to=tmp_path / "bundle", options=options, max_len=16)
    assert list(tmp_path.iterdir()) == []


def test_other_formats_are_not_written_beside_it() -> None:
    """They answer what the operator refuses."""
    with pytest.raises(BadInput, match="--attention-op microsoft is for -f onnx alone"):
        check_options(ExportOptions(("onnx", "torchscript"), attention_op="microsoft"))


def test_titles_are_models() -> None:
    assert {"llama", "gemma2", "gpt_oss"} <= set(MODELS)
