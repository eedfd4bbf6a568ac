"""A copy of a file under the names, the order and the integer dtypes of a target; what it computes stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.common.errors import BadInput, check_machine, first_line
from posenc_export.proof.foreign.matching import Match, Pair
from posenc_export.proof.foreign.renaming import free_name, is_used, rename, tensor_names
from posenc_export.read.graph.data import external
from posenc_export.read.graph.tensors import stored_bytes
from posenc_export.write.formats import FORMATS
from posenc_export.write.formats.onnx import EXTERNAL_DATA_ABOVE
from posenc_export.write.formats.onnx.foreign import FileValue, ForeignFile
from posenc_export.write.formats.onnx.ordering import order_nodes

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

Names = Mapping[str, str]
"""Names of tensors in the file, and those in the copy, where they differ."""


def write_adapted(file: ForeignFile, match: Match, folder: Path) -> None:
    """Write a file into a folder as the graph of a bundle; weights beside it go into it, or into one file beside it."""
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(file.model)
    path = folder / FORMATS["onnx"].file
    for tensor in external(model):
        # without a length, all that follows in the file would be read
        length = stored_bytes(tensor.data_type, tuple(tensor.dims))
        if not any(entry.key == "length" for entry in tensor.external_data):
            tensor.external_data.add(key="length", value=str(length))
    try:
        onnx.load_external_data_for_model(model, str(file.path.parent))
    except Exception as error:  # an offset beyond the file, a length that no tensor has
        check_machine(error)
        raise BadInput(f"cannot read the weights of {file.path.name}: {first_line(error)}") from error
    _adapt(model.graph, match)
    # the size of the whole message could not be asked for where it is beyond protobuf's
    is_large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > EXTERNAL_DATA_ABOVE
    onnx.save(model, path, save_as_external_data=is_large, all_tensors_to_one_file=True, location=f"{path.name}.data")


def _adapt(graph: GraphProto, match: Match) -> None:
    """Give a graph the inputs and outputs of a target, and its nodes in order: what looks into it follows them."""
    names = _new_names(graph, match)
    before = [pair.value and is_used(graph, pair.value.name) for pair in match.inputs]
    rename(graph, names)
    _convert_inputs(graph, [pair for pair, used in zip(match.inputs, before, strict=True) if used], names)
    _give_outputs(graph, match.outputs, names)
    order_nodes(graph)
    for field, pairs in ((graph.input, match.inputs), (graph.output, match.outputs)):
        del field[:]
        field.extend(_described(pair) for pair in pairs)


def _new_names(graph: GraphProto, match: Match) -> dict[str, str]:
    """Return a new name for every tensor that gets one: the target's, or a free one where a target's name is taken."""
    taken = tensor_names(graph) | {pair.port.name for pair in (*match.inputs, *match.outputs)}
    names: dict[str, str] = {}
    for pair, value in _with_values(match.inputs):
        # a converted input has the target's name before the node that converts it
        names[value.name] = free_name(f"{pair.port.name}_cast", taken) if pair.is_converted else pair.port.name
    settled = {*names, *(tensor.name for tensor in graph.initializer)}
    for pair, value in _with_values(match.outputs):
        # an input that is an output too, or an output twice, has one name here: a node gives it the others
        if value.name not in settled and not pair.is_converted:
            names[value.name] = pair.port.name
            settled.add(value.name)
    ports = {pair.port.name for pair in (*match.inputs, *match.outputs)}
    # tensors inside the graph that have the name of a port
    inside = sorted((ports & tensor_names(graph)) - names.keys())
    return names | {name: free_name(f"{name}_inside", taken) for name in inside}


def _with_values(pairs: tuple[Pair, ...]) -> list[tuple[Pair, FileValue]]:
    return [(pair, pair.value) for pair in pairs if pair.value is not None]


def _convert_inputs(graph: GraphProto, used: list[Pair], names: Names) -> None:
    """Put a node before the graph for each input whose dtype is another in the file, and which the graph reads."""
    from onnx import helper

    casts = [
        helper.make_node("Cast", [pair.port.name], [names[pair.value.name]], to=_number(pair.value.dtype))
        for pair in used
        if pair.value is not None and pair.is_converted
    ]
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _give_outputs(graph: GraphProto, pairs: tuple[Pair, ...], names: Names) -> None:
    """Put a node behind the graph for each output that has another dtype, or no name of its own."""
    from onnx import helper

    for pair, value in _with_values(pairs):
        source = names.get(value.name, value.name)
        if pair.is_converted:
            node = helper.make_node("Cast", [source], [pair.port.name], to=_number(pair.port.dtype))
        elif source != pair.port.name:
            node = helper.make_node("Identity", [source], [pair.port.name])
        else:
            continue
        graph.node.append(node)


def _described(pair: Pair) -> ValueInfoProto:
    """Return an input or an output: sizes that the file fixes stay, its free axes have the target's names."""
    from onnx import helper

    axes = pair.port.axes
    sizes: tuple[int | str, ...] = ("",) * len(axes)
    if pair.value is not None and pair.value.axes is not None:
        sizes = pair.value.axes
    if not axes and pair.value is not None and pair.value.axes is None:
        return helper.make_tensor_value_info(pair.port.name, _number(pair.port.dtype), None)
    # an axis that is fixed in the target alone stays free in the file
    names = [axes[i].name or None if i < len(axes) and axes[i].is_dynamic else None for i in range(len(sizes))]
    shape = [size if isinstance(size, int) else name for size, name in zip(sizes, names, strict=True)]
    return helper.make_tensor_value_info(pair.port.name, _number(pair.port.dtype), shape)


def _number(dtype: str) -> int:
    """Return ONNX's number of a dtype."""
    from onnx import TensorProto, helper

    if dtype == "bfloat16":
        return TensorProto.BFLOAT16
    import numpy as np

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
