"""ONNX files that were made to hang what reads them, to fill its memory, or to have it read what is none of theirs."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from helpers.written_graphs import FLOAT, INT64, function, graph, node, outside, save, value

HUGE = 2**60
Maker = Callable[[Path], Path]
HOSTILE: dict[str, Maker] = {}


def hostile(maker: Maker) -> Maker:
    """Note a maker, which writes a file into a folder."""
    HOSTILE[maker.__name__] = maker
    return maker


def ints(name: str, *numbers: int) -> TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


def ids(nodes: Sequence[onnx.NodeProto], constants: Sequence[TensorProto] = (), output: str = "y") -> onnx.GraphProto:
    """Return a graph that takes positions and hidden states of any length."""
    made = graph(nodes, "", output, constants)
    made.input.append(value("position_ids", INT64, "batch", "sequence"))
    made.input.append(value("x", FLOAT, "batch", "sequence", 64))
    return made


def chain(count: int, folder: Path) -> Path:
    """Write a chain of nodes that differ, without making each in Python's protobuf."""
    parts = []
    for place in range(count):
        names = f"t{place:07}".encode(), f"t{place + 1:07}".encode()
        parts.append(b"\x0a\x19\x0a\x08" + names[0] + b"\x12\x08" + names[1] + b"\x22\x03Neg")
    ends = onnx.GraphProto(name="g", input=[value("t0000000", INT64, "n")], output=[value(f"t{count:07}", INT64, "n")])
    content = ends.SerializeToString() + b"".join(parts)
    model = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 18)])
    length, size = len(content), bytearray()
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString() + b"\x3a" + bytes([*size, length]) + content)
    return path


@hostile
def million_nodes(folder: Path) -> Path:
    return chain(1_000_000, folder)


@hostile
def as_many_nodes_as_are_read(folder: Path) -> Path:
    return chain(190_000, folder)


@hostile
def functions_in_a_ring(folder: Path) -> Path:
    ring = [function(f"f{i}", "a", "b", [node(f"f{(i + 1) % 9}", "a", "b", domain="local")]) for i in range(9)]
    return save(folder / "m.onnx", ids([node("f0", "x", "y", domain="local")]), ring)


@hostile
def functions_that_double(folder: Path) -> Path:
    twice = [
        function(
            f"f{i}",
            "a",
            "c",
            [node(f"f{i + 1}", "a", "b", domain="local"), node(f"f{i + 1}", "b", "c", domain="local")],
        )
        for i in range(60)
    ]
    last = function("f60", "a", "b", [node("Neg", "a", "b")])
    return save(folder / "m.onnx", ids([node("f0", "x", "y", domain="local")]), [*twice, last])


@hostile
def nested_ifs(folder: Path) -> Path:
    inside = graph([node("Neg", "x", "b")], "", "b")
    for _ in range(28):
        inside = graph(
            [node("If", "q", "b", then_branch=inside, else_branch=graph([node("Neg", "x", "b")], "", "b"))], "", "b"
        )
    made = ids([node("If", "q", "y", then_branch=inside, else_branch=inside)])
    made.input.append(value("q", TensorProto.BOOL, 1))
    return save(folder / "m.onnx", made)


@hostile
def nested_loops(folder: Path) -> Path:
    body = [node("Identity", "c", "d"), node("Add", "v v", "w")]
    for depth in range(6):
        ends = f"i{depth} c v", "d w"
        inside = graph(body, *ends)
        body = [node("Identity", "c", "d"), node("Loop", "many c v", "w", body=inside)]
    nodes = [node("Cast", "many", "c", to=TensorProto.BOOL), node("Loop", "many c position_ids", "y", body=inside)]
    return save(folder / "m.onnx", ids(nodes, [ints("many", 250)]))


@hostile
def huge_sizes_of_inputs(folder: Path) -> Path:
    made = graph([node("Neg", "attention_mask", "y"), node("Shape", "position_ids", "z")], "", "y z")
    made.input.append(value("attention_mask", INT64, HUGE, HUGE))
    made.input.append(value("position_ids", INT64, 60000, 60000))
    return save(folder / "m.onnx", made)


@hostile
def masks_of_all_pairs(folder: Path) -> Path:
    nodes = [node("Neg", "attention_mask", "n0"), *(node("Add", f"n{i} {i}", f"n{i + 1}") for i in range(300))]
    made = graph(nodes, "", "n300", [ints(str(i), i) for i in range(300)])
    made.input.append(value("attention_mask", INT64, 2800, 2800))
    return save(folder / "m.onnx", made)


@hostile
def huge_sizes_of_tensors(folder: Path) -> Path:
    stored = TensorProto(name="w", dims=[HUGE, HUGE], data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value="w.data")
    (folder / "w.data").write_bytes(bytes(64))
    return save(folder / "m.onnx", ids([node("Gather", "w position_ids", "g"), node("Add", "g x", "y")], [stored]))


MAKING = {
    "ConstantOfShape": lambda i: [node("ConstantOfShape", "shape", f"v{i}")],
    "Range": lambda i: [node("Range", "zero many one", f"v{i}")],
    "Tile": lambda i: [node("Tile", "position_ids shape", f"v{i}")],
    "Expand": lambda i: [node("Expand", "zero shape", f"v{i}")],
    "Pad": lambda i: [node("Pad", "position_ids pads", f"v{i}")],
    "OneHot": lambda i: [node("OneHot", "position_ids many ends", f"v{i}")],
    "CumSum": lambda i: [node("Tile", "position_ids shape", f"t{i}"), node("CumSum", f"t{i} zero", f"v{i}")],
}


def making(operator: str, size: int, count: int, folder: Path) -> Path:
    """Write a file whose nodes make large values of sizes and positions."""
    constants = [ints("shape", 1, size), ints("pads", 0, 0, 0, size), ints("ends", 0, 1)]
    scalars = {"zero": 0, "one": 1, "many": size}
    constants += [numpy_helper.from_array(np.array(number), name) for name, number in scalars.items()]
    nodes = [made for i in range(count) for made in MAKING[operator](i)]
    # what varies with each node is no value that was there before
    nodes += [node("Add", f"v{i} numbers{i}", f"a{i}") for i in range(count)]
    constants += [ints(f"numbers{i}", i) for i in range(count)]
    return save(folder / "m.onnx", ids(nodes, constants, f"a{count - 1}"))


for name in ("ConstantOfShape", "Range", "Tile", "Expand", "Pad", "OneHot", "CumSum"):
    HOSTILE[f"huge_{name}"] = lambda folder, name=name: making(name, HUGE, 3, folder)  # type: ignore[misc]
    HOSTILE[f"many_large_{name}"] = lambda folder, name=name: making(name, 500_000, 400, folder)  # type: ignore[misc]


@hostile
def constants_of_constants(folder: Path) -> Path:
    nodes = [node("ConstantOfShape", "shape", "c0")]
    nodes += [node("Add", f"c{i} c{i}", f"c{i + 1}") for i in range(3000)]
    nodes += [node("Gather", "c3000 position_ids", "g"), node("Add", "g x", "y")]
    return save(folder / "m.onnx", ids(nodes, [ints("shape", 10000, 64)]))


@hostile
def many_short_constants(folder: Path) -> Path:
    nodes = [node("Range", "zero many one", "c0")]
    nodes += [*(node("Add", f"c{i} one", f"c{i + 1}") for i in range(90_000)), node("Add", "x c90000", "y")]
    numbers = (("zero", 0), ("one", 1), ("many", 4000))
    return save(folder / "m.onnx", ids(nodes, [numpy_helper.from_array(np.array(n), name) for name, n in numbers]))


@hostile
def many_inputs(folder: Path) -> Path:
    made = ids([node("Neg", "x", "y"), *(node("Gather", f"w token{i}_ids", f"g{i}") for i in range(5_000))])
    made.initializer.append(numpy_helper.from_array(np.zeros((99, 64), np.float32), "w"))
    made.input.extend(value(f"token{i}_ids", INT64, f"n{i}", f"m{i}") for i in range(5_000))
    return save(folder / "m.onnx", made)


@hostile
def long_names(folder: Path) -> Path:
    name = "n" * 3_000_000
    made = ids(
        [node("Cos", "angles", name, name), node("Cast", "position_ids", "angles", to=FLOAT), node("Neg", "x", "y")]
    )
    made.input.append(value(f"i{name}", INT64, name, "sequence"))
    return save(folder / "m.onnx", made)


@hostile
def words_for_a_terminal(folder: Path) -> Path:
    made = ids([node("Neg", "x", "y")])
    made.input.append(value("a\nerror: all is well\x1b[2J\r", INT64, "b\n", "sequence"))
    return save(folder / "m.onnx", made)


@hostile
def many_axes(folder: Path) -> Path:
    made = ids([node("Add", "x many", "y")])
    made.input.append(value("many", INT64, *[f"a{i}" for i in range(300)]))
    return save(folder / "m.onnx", made)


def elsewhere(location: str) -> Maker:
    def made(folder: Path) -> Path:
        return save(folder / "m.onnx", ids([node("Add", "x w", "y")], [outside("w", location)]))

    return made


for place in ("/etc/passwd", "../m.onnx", "/dev/zero", "C:\\w", "a/../../w", "\\\\host\\w"):
    HOSTILE[f"data in {place}"] = elsewhere(place)


def linked(target: str) -> Maker:
    def made(folder: Path) -> Path:
        (folder / "w.data").symlink_to(target)
        return elsewhere("w.data")(folder)

    return made


for place in ("/etc/passwd", "/dev/zero", "/proc/self/mem", "w.data", "../elsewhere"):
    HOSTILE[f"data linked to {place}"] = linked(place)


@hostile
def data_in_a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "w.data")
    return elsewhere("w.data")(folder)


@hostile
def data_in_the_file_itself(folder: Path) -> Path:
    return elsewhere("m.onnx")(folder)


@hostile
def code_in_python(folder: Path) -> Path:
    """An operator of a domain for Python's functions, as onnxruntime-extensions has it, and a file beside it."""
    (folder / "json.py").write_text(f"open({str(folder / 'executed')!r}, 'w')")
    nodes = [
        node("PyOp", "x", "z", domain="ai.onnx.contrib", module="json", class_name="executed"),
        node("Neg", "x", "y"),
    ]
    return save(folder / "m.onnx", ids(nodes))


def empty_nodes(path: Path, count: int) -> Path:
    """Write a graph of nodes without fields: each takes two bytes in the file, and 150 in memory."""
    model = helper.make_model(helper.make_graph([], "g", [], [helper.make_tensor_value_info("y", 1, [1])]))
    graph = model.graph.SerializeToString() + b"\x0a\x00" * count
    model.ClearField("graph")
    length, size = len(graph), b""
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    path.write_bytes(model.SerializeToString() + b"\x3a" + size + bytes([length]) + graph)
    return path
