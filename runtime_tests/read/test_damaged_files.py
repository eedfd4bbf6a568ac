"""Files that are damaged, hostile or something else: one clear line, or a graph, and never a hang."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from helpers.written_graphs import FLOAT, function, graph, node, outside, refused, save, tensor, value
from posenc_export.common.errors import BadInput
from posenc_export.read.graph import Graph, cutting, functions
from posenc_export.read.graph.read import inner_graph, read_graph
from posenc_export.read.values import Constant

INT64 = TensorProto.INT64


class TestDamage:
    def test_files_that_are_something_else(self, tmp_path: Path) -> None:
        path = tmp_path / "m.onnx"
        assert refused(path) == "there is no such file: give the path of an ONNX file"
        assert "is a folder" in refused(tmp_path)
        contents = {
            b"": "is empty", b"PK\x03\x04": "zip", b"version https://git-lfs.github.com/spec/v1": "Git LFS",
            b"\x1c\0\0\0ORTM": "an ORT file", b"<!DOCTYPE html>": "HTML", b"\0": "no ONNX file",
            b"hello": "no ONNX file", b"\x08\x08": "holds no graph", b"\x3a\x00": "without nodes and outputs",
            b"\x3a\xff\xff\xff\x0f": "no ONNX file",
        }  # fmt: skip
        for content, words in contents.items():
            path.write_bytes(content)
            assert words in refused(path)

    def test_a_file_that_is_too_large_and_one_that_never_ends(self, tmp_path: Path) -> None:
        path = tmp_path / "m.onnx"
        with path.open("wb") as file:
            file.truncate(2**31)
        assert "save it with external data" in refused(path)
        os.mkfifo(tmp_path / "pipe")
        assert "is not a regular file" in refused(tmp_path / "pipe")

    @pytest.mark.parametrize(
        ("dims", "words"),
        [
            ([2**60], "which no ONNX file can hold"),
            ([2**40, 2**40], "no ONNX file"),
            ([-1], "has a negative size: [-1]"),
        ],
    )
    def test_sizes_that_cannot_be(self, tmp_path: Path, dims: list[int], words: str) -> None:
        stored = TensorProto(name="w", dims=dims, data_type=FLOAT, raw_data=b"1234")
        assert words in refused(save(tmp_path / "m.onnx", graph([node("Neg", "w", "y")], "", "y", [stored])))

    @pytest.mark.parametrize(
        "fields",
        [
            {"raw_data": b"12345678"},
            {"float_data": [1, 2, 3]},
            {},
            {"data_type": 8, "raw_data": b"1" * 48},
            {"data_type": 8},
        ],
    )
    def test_numbers_that_do_not_fill_a_shape(self, tmp_path: Path, fields: dict[str, object]) -> None:
        stored = TensorProto(name="w", dims=[3, 2], **{"data_type": FLOAT, **fields})  # type: ignore[arg-type]
        path = save(tmp_path / "m.onnx", graph([node("Neg", "w", "y")], "", "y", [stored]))
        with pytest.raises(ValueError, match="'w'"):
            read_graph(path).constants["w"].load()

    @pytest.mark.parametrize(
        ("nodes", "words"),
        [
            ([node("Neg", "x", "y"), node("Abs", "x", "y")], "makes tensor 'y' twice, by node 'Abs#1' too"),
            ([node("Neg", "y", "x")], "makes tensor 'x' twice"),
            ([node("Neg", "z", "y")], "node 'Neg#0' takes 'z', which nothing makes"),
            ([node("Neg", "x", "z")], "gives 'y', which nothing makes"),
            (
                [node("Add", "x b", "a"), node("Neg", "a", "b"), node("Neg", "b", "y")],
                "wait for each other: Add#0 <- Neg#1 <- Add#0",
            ),
            ([node("Add", "x y", "y")], "wait for each other: Add#0 <- Add#0"),
            ([node("Constant", "", "y")], "is a Constant without one value or one output"),
        ],
    )  # fmt: skip
    def test_graphs_that_no_runtime_can_run(self, tmp_path: Path, nodes: list[onnx.NodeProto], words: str) -> None:
        assert words in refused(save(tmp_path / "m.onnx", graph(nodes, "x", "y")))

    def test_files_that_would_take_minutes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "m.onnx"
        monkeypatch.setattr(cutting, "MOST_FIELDS", 40_000)
        monkeypatch.setattr(functions, "LARGEST", 20_000)
        # nodes and tensors that are empty take two bytes each
        for count, field, words in (
            (50_000, b"\x0a\x00", "has more than 40000 fields"),
            (35_000, b"\x0a\x00", "has 35000 nodes with its functions in place, above the limit of 20000"),
            (35_000, b"\x2a\x00", "stores 35000 tensors, above the limit of 20000"),
        ):
            content = onnx.GraphProto(output=[value("y")]).SerializeToString() + field * count
            length = bytes([len(content) & 127 | 128, len(content) >> 7 & 127 | 128, len(content) >> 14])
            path.write_bytes(b"\x3a" + length + content)
            assert words in refused(path)
        ring = [node("Neg", f"t{place}", f"t{place + 1}") for place in range(3000)]
        circle = graph([*ring, node("Neg", "t3000", "t0")], "x", "t0")
        assert "Neg#0 <- Neg#3000 <- Neg#2999 <- Neg#2998 <- ... <- Neg#0" in refused(save(path, circle))

    def test_names_that_are_listed_twice(self, tmp_path: Path) -> None:
        twice = graph([node("Neg", "w", "y")], "", "y", [tensor("w", 1), tensor("w", 2)])
        assert "stores tensor 'w' twice" in refused(save(tmp_path / "m.onnx", twice))
        assert "two inputs of a name" in refused(save(tmp_path / "m.onnx", graph([node("Neg", "x", "y")], "x x", "y")))

    def test_what_nothing_makes_is_found_inside_graphs(self, tmp_path: Path) -> None:
        inside = graph([node("Neg", "nowhere", "b")], "", "b")
        nodes = [node("If", "c", "y", then_branch=inside, else_branch=inside)]
        assert "takes 'nowhere', which nothing makes" in refused(save(tmp_path / "m.onnx", graph(nodes, "c", "y")))


def small_model() -> bytes:
    table: NDArray[np.float32] = np.arange(12, dtype=np.float32).reshape(3, 4)
    inside = graph([node("Neg", "g", "b")], "", "b")
    body = function("f", "v", "s", [node("Mul", "v v", "s")])
    nodes = [
        node("Gather", "w i", "g", axis=0), node("f", "g", "h", domain="local"),
        node("Constant", "", "c", value_float=2.0), node("If", "q", "z", then_branch=inside, else_branch=inside),
        node("Sum", "h c z", "y"),
    ]  # fmt: skip
    content = graph(nodes, "q", "y", [numpy_helper.from_array(table, "w"), outside("u", "u.data", length="16")])
    content.input.append(value("i", INT64, "batch"))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return bytes(helper.make_model(content, opset_imports=opsets, functions=[body]).SerializeToString())


def errors(path: Path) -> Iterator[str]:
    """Read a file, the graphs inside it and all that it stores; yield what is said of what cannot be read."""
    try:
        read = read_graph(path)
        graphs = [
            value for item in read.nodes for value in item.attributes.values() if isinstance(value, onnx.GraphProto)
        ]
        constants = [*read.constants.values(), *(value for inside in graphs for value in stored(inside, read))]
    except (BadInput, ValueError) as error:
        yield str(error)
        return
    for constant in constants:
        try:
            assert constant.load().shape == constant.shape
        except ValueError as error:
            yield f"constant: {error}"


def stored(inside: onnx.GraphProto, read: Graph) -> Iterable[Constant]:
    return inner_graph(inside, read).constants.values()


def test_a_file_cut_anywhere_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    content, path = small_model(), tmp_path / "m.onnx"
    path.write_bytes(content)
    assert [text for text in errors(path) if "u.data" not in text] == []
    for end in range(1, len(content), 3):
        path.write_bytes(content[:end])
        assert not any("\n" in text for text in errors(path))


@pytest.mark.parametrize("count", [300, pytest.param(4000, marks=pytest.mark.exhaustive)])
def test_a_file_with_other_bytes_is_read_or_refused_in_one_line(tmp_path: Path, count: int) -> None:
    content, path = small_model(), tmp_path / "m.onnx"
    random = np.random.default_rng(25)
    refusals = 0
    for _ in range(count):
        damaged = np.frombuffer(content, np.uint8).copy()
        places = random.integers(0, damaged.size, random.integers(1, 6))
        damaged[places] = random.integers(0, 256, places.size)
        path.write_bytes(damaged.tobytes())
        texts = list(errors(path))
        refusals += any(not text.startswith("constant: ") for text in texts)
        assert not any("\n" in text for text in texts)
    assert 0 < refusals < count
