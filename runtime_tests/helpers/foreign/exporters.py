"""Other people's exporters, each called as its users call it, from a model to a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

import onnx
import torch
from torch import nn

from helpers.foreign.built import TRACED, Made

Exporter = Callable[[Made, Path], Path]
Axes = Mapping[str, Mapping[int, str]]


def plain_old(made: Made, folder: Path) -> Path:
    """Export by tracing, as torch did before dynamo."""
    feeds = made.kind.feeds(TRACED)
    axes = {name: dict(made.kind.dynamic[name]) for name in feeds if made.kind.dynamic[name]}
    return traced(made.alone, feeds, axes, folder / "old.onnx")


def traced(module: nn.Module, feeds: Mapping[str, torch.Tensor], axes: Axes, path: Path) -> Path:
    """Trace a module into a file, with names for the axes of its inputs that are dynamic."""
    # opset 17 is the last before operators that old runtimes lack
    torch.onnx.export(
        module,
        tuple(feeds.values()),
        str(path),
        dynamo=False,
        input_names=list(feeds),
        output_names=["out"],
        dynamic_axes=axes,
        opset_version=17,
    )
    return path


def plain_new(made: Made, folder: Path) -> Path:
    """Export by torch.export."""
    feeds = made.kind.feeds(TRACED)
    shapes = tuple(dict.fromkeys(made.kind.dynamic[name], torch.export.Dim.DYNAMIC) for name in feeds)
    path = folder / "new.onnx"
    torch.onnx.export(
        made.alone,
        tuple(feeds.values()),
        str(path),
        dynamo=True,
        input_names=list(feeds),
        output_names=["out"],
        dynamic_shapes=shapes,
        external_data=False,
        verbose=False,
    )
    return path


def transformers_exporter(made: Made, folder: Path, fusions: str | None) -> Path:
    """Export by transformers.exporters."""
    transformers = import_module("transformers.exporters.exporter_onnx")
    inputs = {**made.kind.feeds(TRACED), **made.alone.more}
    config = transformers.OnnxConfig(dynamic=True, ort_fusions=fusions)
    written = folder / f"transformers-{fusions}"
    transformers.OnnxExporter().export(made.bare, inputs, config=config).save_pretrained(written)
    return written / "model.onnx"


EXPORTERS: Mapping[str, Exporter] = {
    "plain old": plain_old,
    "plain new": plain_new,
    "transformers.exporters": partial(transformers_exporter, fusions=None),
    "transformers.exporters ort_fusions": partial(transformers_exporter, fusions="cpu"),
}


def without_traces(path: Path, to: Path) -> None:
    """Write a file whole, its external data inside, without the stack traces of the machine that made it."""
    # traces hold folders of the machine, and differ from run to run
    model = onnx.load(path)
    model.doc_string = ""
    graphs = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        graph.doc_string = ""
        del graph.metadata_props[:]
        values = [] if isinstance(graph, onnx.FunctionProto) else [*graph.value_info, *graph.input, *graph.output]
        for part in [*graph.node, *values, *getattr(graph, "initializer", ())]:
            part.doc_string = ""
            del part.metadata_props[:]
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    del model.metadata_props[:]
    onnx.save(model, to)
