"""Inputs that shall have one length, and have not: eager, TorchScript and ONNX Runtime refuse; none repeats a token.

Called without this package, whose runtimes compare lengths before they call.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

from helpers.shared import one_of_each
from posenc.parameters import Parameters
from posenc.ports import Array, Feeds, Port
from posenc.scheme import SCHEMES, build
from posenc.spec import Mode, Positions, Spec, UnsupportedSpec
from posenc_export.bundle.case import Case
from posenc_export.proof.exporter import export_target
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.scheme import scheme_target

MODES: tuple[Mode, ...] = ("dynamic", "baked")
POSITIONS: tuple[Positions, ...] = ("implicit", "offset", "explicit", "mask")
LONG = 5
Call = Callable[[dict[str, Array]], object]


def lengths_in_common(ports: tuple[Port, ...]) -> dict[str, list[Port]]:
    """The ports of each axis along which positions run, of those that several ports have."""
    named: dict[str, list[Port]] = {}
    for port in ports:
        for i in port.lengths:
            if port.axes[i].is_dynamic:
                named.setdefault(port.axes[i].name, []).append(port)
    return {name: having for name, having in named.items() if len(having) > 1}


def cut(port: Port, name: str, array: Array, size: int) -> Array:
    axis = [axis.name for axis in port.axes].index(name)
    return np.ascontiguousarray(np.take(array, range(size), axis))


def unlike(ports: tuple[Port, ...], feeds: Feeds) -> Iterator[tuple[str, dict[str, Array]]]:
    """Calls in which one port has one token and the others five, and the other way round."""
    for name, having in lengths_in_common(ports).items():
        for one, size in product(having, (1, LONG)):
            other = LONG + 1 - size
            changed = {p.name: cut(p, name, feeds[p.name], size if p is one else other) for p in having}
            yield f"{one.name} has {size} of {name}, the others {other}", {**feeds, **changed}


def in_onnx_runtime(path: Path) -> Iterator[tuple[str, Call]]:
    for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
        options = ort.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 4
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        yield f"ONNX Runtime, {level.name}", partial(session.run, None)


def in_torch(name: str, module: torch.nn.Module) -> tuple[str, Call]:
    return name, lambda feeds: module(*(torch.from_numpy(array) for array in feeds.values()))


def variants() -> Iterator[Any]:
    """The smallest sample of each scheme in every form and way to give positions: other parameters share its ports."""
    for name, mode, positions in product(SCHEMES, MODES, POSITIONS):
        params = SCHEMES[name].samples[0]
        try:
            encoding = build(name, Spec(mode, positions=positions, max_len=16), **params)
        except UnsupportedSpec:
            continue
        if lengths_in_common(encoding.inputs):
            words = "-".join(f"{key}={value}" for key, value in params.items())
            yield pytest.param(name, mode, positions, params, id=f"{name}-{mode}-{positions}-{words}")


@pytest.mark.parametrize(
    ("name", "mode", "positions", "params"),
    one_of_each(variants(), lambda v: v.values[0] == "rope"),
)
def test_inputs_of_unlike_lengths_are_refused(
    tmp_path: Path, name: str, mode: Mode, positions: Positions, params: Parameters
) -> None:
    spec = Spec(mode, positions=positions, max_len=16)
    options = ExportOptions(formats=("onnx", "torchscript"), validate=False)
    result = export_target(lambda: scheme_target(name, spec, params, 0), options, tmp_path / "bundle")
    encoding = build(name, spec, **params)
    sizes = {axis: LONG if size > 3 else 2 for axis, size in result.manifest.trace.items()}
    feeds = feeds_for(encoding.inputs, Case("seq5", sizes, 0, LONG - 1), 0)
    script = torch.jit.load(tmp_path / "bundle" / "model.pt")
    callers = [in_torch("eager", encoding.module), in_torch("TorchScript", script)]
    callers += in_onnx_runtime(tmp_path / "bundle" / "model.onnx")
    for who, call in callers:
        call(feeds)
        for words, wrong in unlike(encoding.inputs, feeds):
            try:
                call(wrong)
            except Exception:
                continue
            pytest.fail(f"{who} answers where {words}")
