"""Whole transformers models with our rotary modules: exported once, right at every length, with a cache or without."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from transformers import DynamicCache

from helpers.models.transformers_models import (
    AXES,
    LENGTHS,
    LONGEST,
    MODELS,
    VOCAB,
    Whole,
    model_of,
    parity,
    run,
    tokens,
)
from helpers.shared import one_of_each
from posenc import Spec
from posenc.encoding import Encoding, NoTables, Tables, Tolerance
from posenc.ports import BATCH, SEQ, Array, Axis, Indices, Mask, Port, Positions, fixed
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.formats import WriteRequest
from posenc_export.write.formats.onnx import capture_onnx, write_onnx
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets.module import module_target
from posenc_models import replace_rotary

pytestmark = pytest.mark.filterwarnings("ignore")


class Step(nn.Module):
    """A model that goes on from a cache: past keys and values are (layers, 2, batch, heads, past, dim)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, positions: Tensor, mask: Tensor, past: Tensor) -> Tensor:
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys, values, layer)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache)
        logits: Tensor = out.logits
        return logits


def no_tables() -> Tables:
    raise NoTables("a model is more than its positions")


def no_tolerance(_: object) -> Tolerance:
    return Tolerance()


def no_reference(_inputs: object, _picked: object) -> dict[str, Array]:
    return {}


def exported_once(module: nn.Module, ports: tuple[Port, ...], trace: tuple[Tensor, ...], path: Path) -> Any:
    """Export once, every named axis dynamic, and load; axes that went static are refused while exporting and here."""
    width = run(module, *trace).shape[-1]
    outputs = (Port("y", (BATCH, SEQ, fixed(width)), "float32"),)
    encoding = Encoding("module", module, ports, outputs, no_reference, no_tolerance, no_tolerance, no_tables)
    request = WriteRequest(tuple(one.contiguous() for one in trace), LONGEST)
    write_onnx(capture_onnx(encoding, request), request, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = [(port.name, [axis.size or axis.name for axis in port.axes]) for port in ports]
    assert [(i.name, i.shape) for i in session.get_inputs()] == expected
    assert [tuple(o.shape) for o in session.get_outputs()] == [("batch", "seq", width)]
    return session


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MODELS)
def test_a_model_exports_once_and_holds_at_every_length(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    replace_rotary(model)
    module, exact = Whole(model), Whole(copy.deepcopy(model).double())
    axes = (BATCH, SEQ)
    ports = (
        Port("ids", axes, "int64", Indices(VOCAB)),
        Port("positions", (*map(fixed, AXES.get(name, ())), *axes), "int64", Positions(LONGEST)),
        Port("mask", axes, "int64", Mask()),
    )
    session = exported_once(module, ports, tokens(name, 2, 11), tmp_path / "model.onnx")
    for batch in (1, 3):
        for length in LENGTHS:
            args = tokens(name, batch, length)
            real = args[2].bool().numpy()  # what padding attends to is nobody's
            (graph,) = session.run(None, {p.name: a.numpy() for p, a in zip(ports, args, strict=True)})
            eager, reference = run(module, *args)[real], run(exact, *args)[real]
            assert np.abs(graph[real] - eager).max() <= parity(reference, eager), (batch, length)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "heads"), one_of_each([("llama", 2), ("gptj", 4)], lambda _: ""))
def test_a_step_with_a_cache_is_the_whole_sequence(name: str, heads: int, tmp_path: Path) -> None:
    model = model_of(name)
    replace_rotary(model)
    ports = (
        Port("ids", (BATCH, SEQ), "int64", Indices(VOCAB)),
        Port("positions", (BATCH, SEQ), "int64", Positions(LONGEST)),
        Port("mask", (BATCH, Axis("past+seq", "length")), "int64", Mask()),
        Port("past", (fixed(2), fixed(2), BATCH, fixed(heads), Axis("past", "length"), fixed(8)), "float32"),
    )
    traced = tokens(name, 3, 24, least=24)
    trace = (traced[0][:, 13:], traced[1][:, 13:], traced[2], torch.randn(2, 2, 3, heads, 13, 8))
    session = exported_once(Step(model), ports, trace, tmp_path / "step.onnx")
    whole, exact = Whole(model), Whole(copy.deepcopy(model).double())
    for batch in (1, 3):
        for past, length in ((1, 1), (2, 7), (33, 1), (40, 30)):
            ids, positions, mask = tokens(name, batch, past + length, least=length + 1)
            cache = DynamicCache()
            with torch.no_grad():
                start = {"attention_mask": mask[:, :past], "position_ids": positions[:, :past]}
                model(input_ids=ids[:, :past], past_key_values=cache, **start)
            pasts = torch.stack([torch.stack(kept[:2]) for kept in cache])  # keys and values
            args = (ids[:, past:], positions[:, past:], mask, pasts)
            (graph,) = session.run(None, {p.name: a.numpy() for p, a in zip(ports, args, strict=True)})
            eager, reference = (run(one, ids, positions, mask)[:, past:] for one in (whole, exact))
            assert np.abs(graph - eager).max() <= parity(reference, eager), (batch, past, length)


@pytest.mark.exhaustive
def test_every_check_of_the_exporter_holds_for_a_whole_model(tmp_path: Path) -> None:
    ports = parse_ports(("ids: int64[batch, seq] < 50", "positions: int64[batch, seq]"))
    spec = Spec(mode="dynamic", max_len=LONGEST)
    result = export_target(
        lambda: module_target("helpers.models.whole:tiny_llama", ports, spec, {}, 0),
        ExportOptions(formats=("onnx",)),
        tmp_path / "llama",
    )
    assert not result.failed, [v for v in result.verdicts if v.status == "fail"]
