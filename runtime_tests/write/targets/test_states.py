"""Decoders whose layers remember states: of convolutions, of Mamba, of Mamba-2 and of the gated delta rule."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import transformers
from onnx import helper

import posenc_export
from helpers.shared import Cli, Once
from helpers.state_models import STATES, saved_states
from helpers.stored import change_graph
from helpers.whole_models import Run, writer_of
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.generation import differences
from posenc_export.write.targets.float64 import Widening, _float64_by_default
from posenc_models import ModelFolder
from posenc_models.whole import kernels
from posenc_models.whole.caches import first_values

QUICK = ("lfm2", "mamba")
"""A state of a convolution, and one that a scan makes; files of all models are proved in the exhaustive run."""


def by_turns(step: Callable[..., Any], first: torch.Tensor, along: tuple[torch.Tensor, ...]) -> Any:
    """What torch's scan computes, in Python: it takes any dtype."""
    outputs = []
    for parts in zip(*along, strict=True):
        first, output = step(first, parts)
        outputs.append(output)
    return first, torch.stack(outputs)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def of_mamba2(seq: int) -> tuple[str, str, dict[str, Any]]:
    given = {
        "hidden_states": numbers(2, seq, 4, 6),
        "dt": numbers(2, seq, 4),
        "A": -numbers(4).exp(),
        "B": numbers(2, seq, 2, 5),
        "C": numbers(2, seq, 2, 5),
        "chunk_size": 16,
        "D": numbers(4),
        "dt_bias": numbers(4),
        "initial_states": numbers(2, 4, 6, 5),
        "dt_softplus": True,
        "dt_limit": (0.1, 2.0),
        "return_final_states": True,
    }
    return "mamba2", "mamba2_chunk_scan", given


def of_delta_rule(seq: int) -> tuple[str, str, dict[str, Any]]:
    given = {
        "query": numbers(2, seq, 2, 6),
        "key": numbers(2, 1, 2, 6).expand(2, seq, 2, 6),  # equal keys: powers of such a matrix overflow
        "value": numbers(2, seq, 4, 5),
        "g": -0.01 * numbers(2, seq, 4).abs(),
        "beta": torch.full((2, seq, 4), 0.999, dtype=torch.float64),
        "initial_state": numbers(2, 4, 6, 5),
        "output_final_state": True,
        "use_qk_l2norm_in_kernel": True,
    }
    return "qwen3_next", "torch_chunk_gated_delta_rule", given


def of_kimi(seq: int) -> tuple[str, str, dict[str, Any]]:
    _, _, given = of_delta_rule(seq)
    query, key = (given[name].repeat_interleave(2, 2) for name in ("query", "key"))
    given |= {"query": query, "key": key, "g": -numbers(2, seq, 4, 6).abs()}
    return "kimi_linear", "chunk_kimi_delta_attention", given


@pytest.mark.parametrize("seq", [1, 2, 16, 17, 33, 65])
@pytest.mark.parametrize("made", [of_mamba2, of_delta_rule, of_kimi])
def test_what_stands_in_gives_the_numbers_of_the_models_own(
    monkeypatch: pytest.MonkeyPatch, made: Callable[[int], tuple[str, str, dict[str, Any]]], seq: int
) -> None:
    """In float64, with a state before the first token and without one."""
    monkeypatch.setattr(kernels, "scan", by_turns)
    torch.manual_seed(seq)
    model, name, given = made(seq)
    own = getattr(__import__(f"transformers.models.{model}.modeling_{model}", fromlist=[name]), name)
    (state,) = given.keys() & {"initial_state", "initial_states"}
    for call in (given, {**given, state: None}):
        with torch.no_grad(), _float64_by_default(), Widening():
            expected, actual = own(**call), kernels.KERNELS[name](**call)
        for theirs, ours in zip(expected, actual, strict=True):
            assert theirs.dtype == ours.dtype == torch.float64
            torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_the_scan_of_mamba_begins_with_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's own function of several tokens begins with zeros: its function of one token is called for each."""
    from transformers.models.mamba.modeling_mamba import mamba_selective_state_update

    monkeypatch.setattr(kernels, "scan", by_turns)
    torch.manual_seed(0)
    hidden, dt, z, state = numbers(2, 6, 7), numbers(2, 6, 7), numbers(2, 6, 7), numbers(2, 6, 3)
    write, read, decay, weight, bias = numbers(2, 3, 7), numbers(2, 3, 7), -numbers(6, 3).exp(), numbers(6), numbers(6)
    first = state.clone()
    with torch.no_grad(), _float64_by_default(), Widening():
        actual, last = kernels.selective_scan(
            lambda: first, hidden, dt, decay, write, read, weight, z, bias, delta_softplus=True, return_last_state=True
        )
        for token in range(7):
            parts = (one[..., token] for one in (hidden, dt))
            expected = mamba_selective_state_update(
                state, *parts, decay, write[..., token], read[..., token], weight, bias, True, z[..., token]
            )
            torch.testing.assert_close(actual[..., token], expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(last, state, rtol=1e-11, atol=1e-12)


PORTS = {
    "lfm2": {"conv_state": [3]},
    "mamba2": {"conv_state": [4], "recurrent_state": [8, 8]},
    "falcon_h1": {"key": [8], "value": [8], "conv_state": [4], "recurrent_state": [16, 8]},
    "zamba": {"conv_state": [4], "recurrent_state": [32, 4]},
}


@pytest.mark.parametrize("kind", PORTS)
def test_what_a_layer_remembers_is_asked_of_its_cache(once: Once, kind: str) -> None:
    """The names of keys and values are optimum's, those of states are onnxruntime-genai's."""
    whole = ModelFolder.load(saved_states(once, kind)).build()
    of_layer = [text for text in whole.inputs if text.startswith("past_key_values.0.")]
    parts = {text.split(":")[0].rpartition(".")[2]: re.findall(r"\d+", text.partition("[")[2]) for text in of_layer}
    assert {part: list(map(int, sizes[-len(PORTS[kind][part]) :])) for part, sizes in parts.items()} == PORTS[kind]
    assert {name.replace("present", "past_key_values") for name in whole.outputs[1:]} == {
        text.split(":")[0] for text in whole.inputs if text.startswith("past")
    }


@pytest.mark.parametrize("kind", ["lfm2", "jamba", "zamba"])
def test_one_call_gives_what_two_and_what_single_tokens_give(once: Once, kind: str) -> None:
    """Where transformers forgets a state, too: there a call of several tokens behind a state is one of each token."""
    module: Any = ModelFolder.load(saved_states(once, kind)).build().module
    assert module.memory.by_token is (kind != "lfm2")
    torch.manual_seed(0)
    ids = torch.randint(1, 32, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0  # padding on the left
    places = (mask.cumsum(1) - 1).clamp(min=0)

    def read(*ends: int) -> list[torch.Tensor]:
        """Logits of the last token, and what layers remember, where a text is read in parts."""
        past = [torch.cat([one, one]) for one in first_values(module.memory.layers)]
        begin, logits = 0, torch.empty(0)
        for end in ends:
            given = {"input_ids": ids[:, begin:end], "attention_mask": mask[:, :end], "position_ids": places}
            given["position_ids"] = places[:, begin:end]
            with torch.no_grad():
                logits, *past = module(*(given[name] for name in module.inputs), *past)
            begin = end
        return [logits[:, -1], *past]

    at_once = read(9)
    for ends in ((2, 9), (6, 9), (4, *range(5, 10))):  # a padded token alone in a call is none to transformers
        for expected, actual in zip(at_once, read(*ends), strict=True):
            torch.testing.assert_close(actual, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("kind", QUICK)
def test_a_graph_of_one_length_serves_every_other(once: Once, kind: str) -> None:
    """Also one token, with a state and without one."""
    module: Any = ModelFolder.load(saved_states(once, kind)).build().module.eval()
    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch: int, seq: int, past: int, *, first: bool) -> list[torch.Tensor]:
        torch.manual_seed(seq)
        mask = torch.ones(batch, past + seq, dtype=torch.int64)
        mask[0, past] = int(seq == 1)  # a token of the call that is padding
        places = torch.arange(past, past + seq)[None].expand(batch, -1)
        given = {"input_ids": torch.randint(1, 32, (batch, seq)), "attention_mask": mask, "position_ids": places}
        states = [
            torch.zeros(shape) if first else torch.randn(shape)
            for memories in module.memory.layers
            for memory in memories
            for shape in [
                (size[0], size[1], past, size[3]) if memory.grows else size for size in memory.first_shapes(batch)
            ]
        ]
        return [*(given[name] for name in module.inputs), *states]

    traced = inputs(2, 5, 3, first=False)
    shapes = [{0: dynamic, 1: dynamic} for _ in module.inputs]
    shapes += [
        {0: dynamic, 2: dynamic} if memory.grows else {0: dynamic}
        for memories in module.memory.layers
        for memory in memories
        for _ in memory.first_shapes(1)
    ]
    with torch.no_grad():
        program = torch.export.export(module, tuple(traced), dynamic_shapes=(tuple(shapes),)).module(check_guards=False)
        for batch, seq, past, first in ((1, 1, 4, False), (3, 1, 3, True), (1, 2, 5, False), (3, 70, 2, False)):
            given = inputs(batch, seq, past, first=first)
            for expected, actual in zip(module(*given), program(*given), strict=True):
                torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(once: Once) -> Callable[[str], Path]:
    """Return a function that gives the bundle of a model, which nothing has validated."""

    def of(kind: str) -> Path:
        def export(folder: Path) -> None:
            source = ModelFolder.load(saved_states(once, kind))
            posenc_export.export(
                source, to=folder / "bundle", formats=["onnx"], validate=False, proof="full", max_len=40
            )

        return once(f"written-states-{kind}", export) / "bundle"

    return of


def fails(bundle: Path) -> set[str]:
    """Return which checks of a bundle's file fail on ONNX Runtime."""
    checked = posenc_export.validate(bundle, runtimes=["ort-cpu"])
    return {row.check for row in checked.verdicts if row.status == "fail" and row.subject == "ort-cpu"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", STATES)
def test_a_file_writes_what_generate_writes(once: Once, written: Callable[[str], Path], kind: str) -> None:
    bundle = written(kind)
    assert not fails(bundle)
    model = transformers.AutoModelForCausalLM.from_pretrained(saved_states(once, kind)).eval()
    manifest = Bundle.open(bundle).manifest
    loaded = posenc_export.load(bundle)
    for one in manifest.generations[:2]:
        prompt, count = torch.tensor(one.prompts), len(one.tokens[0])
        tokens = model.generate(prompt, max_new_tokens=count, do_sample=False, attention_mask=torch.ones_like(prompt))
        assert tokens[0, prompt.shape[1] :].tolist() == list(one.tokens[0])
        assert loaded.generate(list(one.prompts[0]), max_new_tokens=count) == list(one.tokens[0])
    assert manifest.generations[2].tokens == tuple(one.tokens[0] for one in manifest.generations[:2])


@pytest.mark.exhaustive
def test_a_text_is_copied_and_begins_anew_but_forgets_no_single_token(written: Callable[[str], Path]) -> None:
    text = posenc_export.load(written("lfm2")).begin()
    logits = text.read([5, 9, 2])
    other = text.copy()
    expected = text.read([7])
    np.testing.assert_array_equal(other.read([7]), expected)
    with pytest.raises(
        ValueError, match=r"^this model has states of all tokens that were read, and none of the first 3: "
    ):
        text.rewind(3)
    assert len(text) == 4
    text.rewind(4)
    text.rewind(0)
    np.testing.assert_array_equal(text.read([5, 9, 2]), logits)


@pytest.mark.exhaustive
def test_a_state_of_an_earlier_text_is_found(written: Callable[[str], Path]) -> None:
    """A program that does not put zeros where a text begins writes other tokens from the second text on."""
    bundle = written("lfm2")
    before: dict[str, Array] = {}

    def kept(run: Run) -> Run:
        def call(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
            begins = {
                name: before[name][: len(feed)] for name, feed in feeds.items() if name in before and not feed.any()
            }
            outputs = run({**feeds, **begins})
            before.update({n.replace("present", "past_key_values"): v for n, v in outputs.items() if "state" in n})
            return outputs

        return call

    first, second, _ = Bundle.open(bundle).manifest.generations
    writer = writer_of(bundle, kept)
    assert differences(writer, first)[0] == []
    assert differences(writer, second)[0] != []


def in_half(graph: onnx.GraphProto) -> None:
    """Round each state that comes out to half precision."""
    for output in [one for one in graph.output if "state" in one.name]:
        (node,) = [one for one in graph.node if output.name in one.output]
        node.output[list(node.output).index(output.name)] = f"{output.name}.exact"
        graph.node.append(helper.make_node("Cast", [f"{output.name}.exact"], [f"{output.name}.half"], to=10))
        graph.node.append(helper.make_node("Cast", [f"{output.name}.half"], [output.name], to=1))


def unread_where_padded(graph: onnx.GraphProto) -> None:
    """Take zeros for the states of a text of which any token is masked."""
    axis, nodes = helper.make_tensor("last_axis", 7, [1], [1]), []
    graph.initializer.append(axis)
    nodes.append(helper.make_node("ReduceMin", ["attention_mask", axis.name], ["whole"], keepdims=0))
    nodes.append(helper.make_node("Cast", ["whole"], ["is_whole"], to=1))
    for state in [one for one in graph.input if "state" in one.name]:
        rank = len(state.type.tensor_type.shape.dim)
        graph.initializer.append(helper.make_tensor(f"{state.name}.axes", 7, [rank - 1], list(range(1, rank))))
        for node in graph.node:
            node.input[:] = [f"{state.name}.read" if name == state.name else name for name in node.input]
        nodes.append(helper.make_node("Unsqueeze", ["is_whole", f"{state.name}.axes"], [f"{state.name}.kept"]))
        nodes.append(helper.make_node("Mul", [state.name, f"{state.name}.kept"], [f"{state.name}.read"]))
    for node in reversed(nodes):
        graph.node.insert(0, node)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", [in_half, unread_where_padded])
@pytest.mark.parametrize("kind", ["lfm2", "mamba2"])
def test_a_wrong_state_is_found(
    tmp_path: Path, written: Callable[[str], Path], kind: str, fault: Callable[[onnx.GraphProto], None]
) -> None:
    bundle = tmp_path / "wrong"
    shutil.copytree(written(kind), bundle)
    change_graph(bundle, lambda model: fault(model.graph))
    assert "agrees" in fails(bundle)


@pytest.mark.exhaustive
def test_a_chunk_that_begins_with_the_state_of_another_is_found(
    once: Once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chunk but the first begins with the state that lies one chunk too far back."""
    real = kernels._decays

    def late(steps: torch.Tensor, length: Any) -> torch.Tensor:
        decays = real(steps, length)
        return torch.cat([decays[..., :1, :], decays[..., :-1, :]], -2) if steps.dim() == 4 else decays

    monkeypatch.setattr(kernels, "_decays", late)
    folder = ModelFolder.load(saved_states(once, "mamba2"))
    result = posenc_export.export(folder, to=tmp_path / "wrong", formats=["onnx"], runtimes=["ort-cpu"], max_len=40)
    assert "agrees" in {row.check for row in result.verdicts if row.status == "fail"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("-f", "torchscript"), "cannot be exported to torchscript: its layers remember states"),
        (("--runtime-config", "genai"), "its config names keys and values alone, and layers of this model remember"),
    ],
)
def test_what_knows_no_states_is_refused(once: Once, cli: Cli, words: tuple[str, ...], line: str) -> None:
    result = cli("export", "--model", str(saved_states(once, "lfm2")), *words, "-o", "whole")
    assert (result.exit_code, line in result.output) == (2, True), result.output
    assert not Path("whole").exists()
